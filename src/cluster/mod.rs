//! The client and the objects of releases. IO only: what to apply and in which order is decided elsewhere.

mod account;
mod cached;
mod capabilities;
mod contents;
mod crowded;
mod definitions;
mod error;
mod exec;
mod existence;
mod guarded;
mod immutable;
mod kinds;
mod leave;
mod look;
mod objects;
mod outdated;
mod pods;
mod proxied;
mod ready;
mod rights;
mod turns;

pub use account::Account;
pub use capabilities::capabilities;
pub use contents::{Contents, Reference, Referent, Unread};
pub use error::{Error, Holder, Instead, describe, namespace_terminating, status_code};
pub use exec::Ran;
pub use existence::{Created, Propagation};
pub use kinds::{Kind, Kinds};
pub use look::{LOOK_DEADLINE, LookError};
pub use objects::{Applied, Cluster, Meta, Mode, fingerprint_of, is_hidden, version_of};
pub use proxied::{Proxied, proxied_name};
pub use ready::{ReadyPod, Workload};
pub use rights::Rules;
pub use turns::Turns;
pub mod client;
