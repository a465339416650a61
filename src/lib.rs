//! A Kubernetes operator that installs, upgrades and locks releases of packs.
//!
//! # Layout, in reading order
//!
//! Functional core: these folders do no IO and read no clock.
//!
//! * [`api`]: the `SherpackRelease` resource, its names, conditions and reasons.
//! * [`manifest`]: one Kubernetes object as data: YAML, ids, kind order, fingerprint, inventory.
//! * [`pack`]: bytes to a pack: archive limits, `Pack.yaml`, values. [`pack::render`]: pack + values + capabilities to manifests.
//! * [`crd`]: two CustomResourceDefinitions to what the change means; policies, deletion, placement.
//! * [`health`]: a live object to its health.
//! * [`plan`]: objects to ordered steps; what to prune.
//! * [`release`]: observation to decision; the revision record; retention.
//!
//! Imperative shell: thin IO around the core.
//!
//! * [`source`]: what packs and values are read and fetched with.
//! * [`cluster`]: builds the one client; applies, reads and deletes the releases' objects.
//! * [`storage`]: revision records.
//! * [`watch`]: what wakes a release: metadata watches, which also spot drift, and the probes of `sherpack.io/health-check`.
//! * [`reconcile`]: one pass for one release; its `mod.rs` is the main street. Its `inputs/sources/` says where packs come from.
//! * [`operator`]: wiring: controller, events, metrics, server, shutdown.
//! * [`cli`]: one file per subcommand; `output` for what they print.
//!
//! # Layer rule
//!
//! Upper may use lower only:
//! `cli, operator > reconcile > watch > source, storage > cluster > release > plan > crd, health > pack > manifest > api`.

pub mod api;
pub mod manifest;

pub mod pack;

pub mod crd;
pub mod health;
pub mod plan;
pub mod release;

pub mod cluster;
pub mod source;
pub mod storage;
pub mod watch;

pub mod reconcile;

pub mod cli;
pub mod operator;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod coverage;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod docs;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod layers;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]
mod rooms;
