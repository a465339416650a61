//! A pack and its values to manifests. [`render`] is the one entry.
//!
//! Owns the template language (minijinja) with its filters and functions, and what a pack may use of
//! this operator's annotations ([`unsupported`]). May import `pack`, `manifest` and `api`. Nothing
//! outside this folder and `pack` knows the template language.
//!
//! Invariant: whatever the pack, a render ends, within bounded time and memory ([`Limit`](Error::Limit)), and never
//! panics in the caller. It is a function of its arguments, of which [`Lookup`] is one: no clock, no randomness.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod budget;
mod convert;
mod engine;
mod error;
mod excerpt;
mod files;
mod filters;
mod functions;
mod generate;
mod guard;
mod lookup;
mod printf;
mod text;
mod unsupported;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::manifest;
use crate::pack::{Kind, Pack, values, version};

pub use budget::Stop;
pub use error::Error;
pub use excerpt::Excerpt;
pub use generate::{Secret, Secrets, Source};
pub use lookup::{Asked, Lookup, NoCluster, Refusal};
pub use unsupported::{Unsupported, unsupported};

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

/// What a pack renders to.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendered {
    /// Every document, files in path order, documents in file order. Not normalised yet.
    pub objects: Vec<Value>,
    /// Text of `NOTES.txt`, for people; never applied.
    pub notes: Option<String>,
    /// Defaults of the pack with the values of the release on top: what the templates saw.
    pub values: Value,
    /// To be kept for the next revision, also when this one fails.
    pub secrets: Secrets,
}

/// Stack of the render thread. Deep nesting of macros and values ends in an error long before.
const STACK: usize = 64 << 20;

/// Scalars, lists and maps of the values, and of all documents. What they come from is bounded, but they take far more memory than their
/// text. Below what the manifest may have when it is read again.
const NODES: usize = 140_000;

/// Renders a pack.
///
/// Templates are `templates/**` with ending `.yaml .yml .j2 .jinja2 .txt .json`; files whose name
/// starts with `_` (any ending) are only for `import`, `include` and `extends`, by their path below
/// `templates/`. `NOTES.txt` (any case, also `NOTES.txt.j2`) becomes [`Rendered::notes`].
///
/// With `engine.strict` (the default) a missing value is an error when it is printed, iterated, compared or given to a
/// filter, but may be tested (`{% if values.x %}`) and defaulted (`values.x | default(1)`), as real packs do all the
/// time. Without, missing values are empty. In both cases a field of what is missing is missing too:
/// `values.a.b | default(1)` does not need `values.a`.
///
/// Blocks the calling thread for up to some seconds: call it where blocking is allowed.
///
/// # Errors
/// Names `file:line` of the template. Every error but [`Error::KubeVersion`] is the author's to fix.
pub fn render(pack: &Pack, input: &Input<'_>) -> Result<Rendered, Error> {
    if pack.kind == Kind::Library {
        return Err(Error::Library { pack: pack.metadata.name.clone() });
    }
    if let Some(range) = &pack.metadata.kube_version {
        let found = &input.capabilities.kube_version;
        if !version::matches(range, found).map_err(|message| Error::KubeVersionRange { message })? {
            return Err(Error::KubeVersion {
                pack: pack.metadata.name.clone(),
                range: range.clone(),
                found: found.clone(),
            });
        }
    }
    // A thread of its own: its stack is large enough for every nesting that the limits let through
    // (a caller's may not be), and a panic ends there.
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("render".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || documents(pack, input))
            .map_err(|error| Error::Aborted { message: error.to_string() })?
            .join()
            .unwrap_or_else(|panic| Err(Error::Aborted { message: panic_text(panic.as_ref()) }))
    })
}

fn documents(pack: &Pack, input: &Input<'_>) -> Result<Rendered, Error> {
    let merged = values::merge(pack.values.clone(), input.values.clone());
    if values::nodes(&merged) > NODES {
        let message = format!("they have more than {NODES} fields and items");
        return Err(Error::Limit { file: "values".to_owned(), line: 0, message });
    }
    let session = engine::Session::new(input);
    let texts = session.texts(pack, input, &merged)?;
    let mut objects = Vec::new();
    let mut notes: Option<String> = None;
    let mut nodes = 0;
    for text in texts {
        if engine::is_notes(&text.file) {
            let notes = notes.get_or_insert_default();
            notes.push_str(&text.text);
        } else {
            let documents = manifest::yaml::parse_documents(&text.text, &text.file)?;
            nodes += documents.iter().map(values::nodes).sum::<usize>();
            if nodes > NODES {
                let message = format!("all documents together have more than {NODES} fields and items");
                return Err(Error::Limit { file: text.file, line: 0, message });
            }
            objects.extend(documents);
        }
    }
    Ok(Rendered { objects, notes, values: merged, secrets: session.secrets() })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
