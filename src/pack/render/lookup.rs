//! `lookup`: objects of the cluster, for templates.
//!
//! Owns what templates see of it, the cache and the bounds; who asks the cluster, and what may be asked, is the caller's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Error;
use minijinja::value::Value;
use serde_json::{Map, Value as Json};

use super::budget::{Budget, wrong};
use super::convert::new_data;
use crate::api::Class;

/// Different lookups of one render.
const LOOKUPS: usize = 100;

/// A view of the cluster. Called on the thread of the render, which it may block for a bounded time.
pub trait Lookup: Send + Sync {
    /// The object, `None` when there is none. Without a namespace: the one of the release, if the kind has namespaces.
    ///
    /// # Errors
    /// Everything else that keeps it from being read, also that it may not be.
    fn object(&self, of: &Asked<'_>, name: &str) -> Result<Option<Json>, Refusal>;

    /// All objects of the kind in the namespace, bounded.
    ///
    /// # Errors
    /// As [`Lookup::object`], and when there are too many of them.
    fn objects(&self, of: &Asked<'_>) -> Result<Vec<Json>, Refusal>;
}

/// Which objects a template asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    /// `None`: the template names none.
    pub namespace: Option<&'a str>,
}

/// Why a lookup gave nothing. An object that is not there is no refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Who must act.
    pub class: Class,
    /// Stable PascalCase reason.
    pub reason: &'static str,
    /// What, and what to do.
    pub message: String,
}

/// No cluster: nothing is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCluster;

impl Lookup for NoCluster {
    fn object(&self, _of: &Asked<'_>, _name: &str) -> Result<Option<Json>, Refusal> {
        Ok(None)
    }

    fn objects(&self, _of: &Asked<'_>) -> Result<Vec<Json>, Refusal> {
        Ok(Vec::new())
    }
}

/// What was looked up for all packs of one render: a second question gets the same answer.
pub(super) struct Lookups {
    cluster: Arc<dyn Lookup>,
    known: Mutex<HashMap<[String; 4], Value>>,
    refused: Mutex<Option<Refusal>>,
}

impl Lookups {
    pub(super) fn new(cluster: &Arc<dyn Lookup>) -> Self {
        Self { cluster: Arc::clone(cluster), known: Mutex::default(), refused: Mutex::default() }
    }

    /// The refusal that ended the render, if one did.
    pub(super) fn refused(&self) -> Option<Refusal> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn find(&self, key: [String; 4], budget: &Budget) -> Result<Value, Error> {
        if let Some(value) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(value.clone());
        }
        if self.known.lock().unwrap_or_else(PoisonError::into_inner).len() >= LOOKUPS {
            return Err(budget.over(format!("there are more than {LOOKUPS} different lookups")));
        }
        let [api_version, kind, namespace, name] = &key;
        let namespace = (!namespace.is_empty()).then_some(namespace.as_str());
        let asked = Asked { api_version, kind, namespace };
        let found = if name.is_empty() {
            self.cluster
                .objects(&asked)
                .map(|items| Json::Object(Map::from_iter([("items".to_owned(), Json::Array(items))])))
        } else {
            self.cluster.object(&asked, name).map(|object| object.unwrap_or_else(|| Json::Object(Map::new())))
        };
        // It may have taken its time.
        budget.go_on()?;
        let found = found.map_err(|refusal| {
            let message = format!("lookup of {api_version} {kind}: {}", refusal.message);
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(Refusal { message: message.clone(), ..refusal });
            wrong(message)
        })?;
        let value = new_data(&found, budget)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(key, value.clone());
        Ok(value)
    }
}
