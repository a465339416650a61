//! A pack and its values to manifests. [`render`] is the one entry.
//!
//! Owns the template language (minijinja) with its filters and functions, and the tree of packs inside packs. May import `pack`, `manifest` and `api`. Nothing
//! outside this folder and `pack` knows the template language.
//!
//! Invariant: whatever the pack, a render ends, within bounded time and memory ([`Limit`](Error::Limit)), and never
//! panics in the caller. It is a function of its arguments, of which [`Lookup`] is one: no clock, no randomness.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod budget;
mod convert;
mod engine;
mod error;
mod filters;
mod functions;
mod generate;
mod guard;
mod lookup;
mod operators;
mod scope;
mod text;
mod tree;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::values::Merged;
use super::{DefinitionWishes, Kind, Pack};

pub use budget::Stop;
pub use error::Error;
pub use error::excerpt::Excerpt;
pub use generate::{Secret, Secrets, Source};
pub use lookup::{Asked, Lookup, NoCluster, Refusal};

/// What the templates can see beside the pack.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// `release.name`.
    pub release_name: &'a str,
    /// `release.namespace`.
    pub namespace: &'a str,
    /// `release.revision`, from 1.
    pub revision: u32,
    /// `release.isUpgrade`; `release.isInstall` is the opposite.
    pub is_upgrade: bool,
    /// Values of the release, laid on the defaults of the pack by this function.
    pub values: &'a Value,
    /// `capabilities`.
    pub capabilities: &'a Capabilities,
    /// What `now()` gives.
    pub now: Timestamp,
    /// What `uuidv4()` is computed from: the same seed, the same ids.
    pub seed: &'a str,
    /// What `generate_secret()` gives.
    pub secrets: Source<'a>,
    /// What `lookup()` asks.
    pub lookup: &'a Arc<dyn Lookup>,
    /// Ends the render early.
    pub stop: &'a Stop,
}

/// What the cluster can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Version of the API server, such as `v1.33.2`.
    pub kube_version: String,
    /// Group versions, such as `apps/v1`; also `apps/v1/Deployment` when known.
    pub api_versions: Vec<String>,
}

/// One document of a file below `crds/`.
#[derive(Clone, Debug, PartialEq)]
pub struct Shipped {
    /// Path from the outermost pack.
    pub file: String,
    /// A CustomResourceDefinition, not normalised yet.
    pub body: Value,
}

impl Rendered {
    /// What the pack that a file belongs to says of its definitions.
    #[must_use]
    pub fn wishes_of(&self, file: &str) -> DefinitionWishes {
        of_pack(&self.wishes, file).cloned().unwrap_or_default()
    }

    /// When the pack that a file belongs to has its turn.
    #[must_use]
    pub fn layer_of(&self, file: &str) -> u32 {
        of_pack(&self.layers, file).copied().unwrap_or(0)
    }
}

/// What is said of the pack that a file belongs to, by the folders of packs: empty, or `charts/db/`.
fn of_pack<'f, T>(by_folder: &'f BTreeMap<String, T>, file: &str) -> Option<&'f T> {
    // Folders are sorted, and the folder of a pack inside is longer than that of the pack around it.
    by_folder.iter().rev().find(|(folder, _)| file.starts_with(folder.as_str())).map(|(_, said)| said)
}

/// What a pack renders to.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Every document: those of subpacks before those of the pack around them, files in path order, documents in file order. Not
    /// normalised yet.
    pub objects: Vec<Value>,
    /// For each object the template that it comes from, by its path from the outermost pack.
    pub origins: Vec<String>,
    /// Text of `NOTES.txt` of the pack itself, for people; never applied.
    pub notes: Option<String>,
    /// Defaults of the pack with the values of the release on top: what the templates saw. The section of each subpack that takes
    /// part holds what its own templates saw.
    pub values: Value,
    /// The definitions of resources below `crds/` of all packs that take part, in the order of `objects`. Those that come
    /// from templates are among the objects.
    pub definitions: Vec<Shipped>,
    /// What each pack says of its definitions, by the folder of the pack: empty, or `charts/db/`.
    pub wishes: BTreeMap<String, DefinitionWishes>,
    /// When each pack has its turn, by its folder as in `wishes`: 0 first.
    pub layers: BTreeMap<String, u32>,
    /// To be kept for the next revision, also when this one fails.
    pub secrets: Secrets,
}

/// Stack of the render thread. Deep nesting of macros and values ends in an error long before.
const STACK: usize = 64 << 20;

/// Renders a pack.
///
/// Templates are `templates/**` with ending `.yaml .yml .j2 .jinja2 .txt .json`; files whose name
/// starts with `_` (any ending) are only for `import`, `include` and `extends`, by their path below
/// `templates/`. But a `_*.yaml` that defines a CustomResourceDefinition, and that no other template names, is rendered like others.
/// `NOTES.txt` (any case, also `NOTES.txt.j2`) becomes [`Rendered::notes`].
///
/// With `engine.strict` (the default) a missing value is an error when it is printed, iterated, compared or given to a
/// filter, but may be tested (`{% if values.x %}`) and defaulted (`values.x | default(1)`), as real packs do all the
/// time. Without, missing values are empty. In both cases a field of what is missing is missing too:
/// `values.a.b | default(1)` does not need `values.a`.
///
/// Packs below `charts/` that are switched on ([`super::subpacks::enabled`]) are rendered first, in the order of their names,
/// each with its own files, `pack`, schema and `kubeVersion`, and with the values of its section; `global` goes down to all of them.
/// Their notes are dropped. A library among them renders nothing. All limits are those of the whole.
///
/// Blocks the calling thread for up to some seconds: call it where blocking is allowed.
///
/// # Errors
/// Names `file:line` of the template. Every error but [`Error::KubeVersion`] is the author's to fix.
pub fn render(pack: &Pack, input: &Input<'_>) -> Result<Rendered, Error> {
    if pack.kind == Kind::Library {
        return Err(Error::Library { pack: pack.metadata.name.clone() });
    }
    // A thread of its own: its stack is large enough for every nesting that the limits let through
    // (a caller's may not be), and a panic ends there.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("render".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || tree::render(pack, input))
            .map_err(|error| Error::Aborted { message: error.to_string() })?
            .join()
            .unwrap_or_else(|panic| Err(Error::Aborted { message: panic_text(panic.as_ref()) }))
    })
}

/// The text of every template of the pack itself, on the calling thread: what the benches measure.
///
/// # Errors
/// As for [`render`].
#[doc(hidden)]
pub fn texts(pack: &Pack, input: &Input<'_>) -> Result<Vec<String>, Error> {
    let merged = Merged::of(&pack.values, input.values);
    let texts = engine::Session::new(input).texts(pack, input, &merged)?;
    Ok(texts.into_iter().map(|text| text.text).collect())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
