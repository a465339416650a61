//! Keeps what came from Secrets out of messages: of templates, and of the API server about objects made of it.
//!
//! What a pass read and rendered it knows, and takes out of a message in whatever form it stands there. Objects that come
//! from a stored revision were made of values that this process may never have seen: then nothing is shown of what the
//! API server says about a body, but for its code and the fields.

mod find;
mod forms;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::manifest::Object;
use crate::pack::layers::{Content, Layer};
use crate::pack::render;
use crate::plan::guard::decoded;
use crate::reconcile::Error;
use crate::storage::Stored;
use find::hide;

/// What is remembered of a revision's secrets; more than that is not kept.
const REMEMBERED: usize = 64 << 10;
/// Less is looked for at once, more beside the async work.
const LITTLE: usize = 8 << 10;
/// So many different messages about objects of one lock are told by one pass.
const TOLD: usize = 16;
/// What is told of the objects beyond.
const ONE_OF_MANY: &str =
    "the operator tells why with its next try, because it could not put back many objects in this one";

/// What came from Secrets, as far as a pass knows.
#[derive(Default)]
pub(in crate::reconcile) struct Secrets {
    /// Of `spec.valuesFrom`.
    values: Vec<Arc<Value>>,
    /// Of everything else.
    others: Vec<Arc<Value>>,
    /// The revision that this pass rendered.
    rendered: Option<u32>,
    /// Objects were sent that were made of values that this process has not seen.
    unknown: bool,
    /// What errors of single objects say, and what is shown of it.
    told: BTreeMap<String, String>,
}

/// What came from Secrets into a revision that this process rendered.
pub(in crate::reconcile) struct Known {
    revision: u32,
    secrets: Vec<Arc<Value>>,
}

impl Secrets {
    /// Of objects that others render.
    pub(in crate::reconcile) fn unknown() -> Self {
        Self { unknown: true, ..Self::default() }
    }

    /// Sets what is read of `spec.valuesFrom`.
    pub(in crate::reconcile) fn read(&mut self, layers: &[&Layer]) {
        let value = |layer: &&Layer| match &layer.content {
            Content::Values(values) => Arc::clone(values),
            Content::At(_, value) => Arc::new(value.clone()),
        };
        self.values = layers.iter().map(value).collect();
    }

    /// Adds what templates looked up.
    pub(in crate::reconcile) fn looked_up(&mut self, objects: Vec<Value>) {
        self.others.extend(objects.iter().map(content));
    }

    /// Adds what templates generated.
    pub(in crate::reconcile) fn generated(&mut self, secrets: &render::Secrets) {
        if !secrets.is_empty() {
            let texts: Vec<&str> = secrets.values().map(render::Secret::expose).collect();
            self.others.push(Arc::new(json!(texts)));
        }
    }

    /// Adds what an object holds, if it is a Secret.
    pub(in crate::reconcile) fn of_object(&mut self, object: &Object) {
        if object.id.kind == "Secret" && object.id.group.is_empty() {
            // What was shown before may hold something of it.
            self.told.clear();
            self.others.push(content(&object.body));
        }
    }

    /// Everything that went into a revision is known.
    pub(in crate::reconcile) fn rendered(
        &mut self,
        revision: u32,
        generated: &render::Secrets,
        documents: &[Object],
    ) {
        self.generated(generated);
        documents.iter().for_each(|document| self.of_object(document));
        self.rendered = Some(revision);
    }

    /// What came from Secrets into a revision that begins, to be remembered; `None`: not all of it is known, or it is too much.
    pub(in crate::reconcile) fn known(&self, revision: u32) -> Option<Known> {
        let secrets = self.all();
        let known = self.rendered == Some(revision)
            && secrets.iter().map(|value| weight(value)).sum::<usize>() <= REMEMBERED;
        known.then_some(Known { revision, secrets })
    }

    /// Objects of a stored revision are about to be sent: what went into them is `known`, or the API server's words about
    /// them are not shown. `generated`: what its record keeps.
    pub(in crate::reconcile) fn recall<'o>(
        &mut self,
        known: Option<&Known>,
        revision: u32,
        generated: Option<&render::Secrets>,
        objects: impl Iterator<Item = &'o Object>,
    ) {
        if let Some(known) = known.filter(|known| known.revision == revision) {
            if self.rendered != Some(revision) {
                self.others.extend(known.secrets.iter().map(Arc::clone));
            }
            return;
        }
        if self.rendered == Some(revision) {
            return;
        }
        self.unknown = true;
        generated.into_iter().for_each(|generated| self.generated(generated));
        objects.for_each(|object| self.of_object(object));
    }

    /// The same where nothing but the record is at hand.
    pub(in crate::reconcile) fn recall_record(&mut self, known: Option<&Known>, stored: &Stored) {
        let generated = stored.private.as_ref().map(|private| &private.secrets);
        self.recall(known, stored.record.version, generated, std::iter::empty());
    }

    /// The message without what Secrets hold.
    pub(in crate::reconcile) fn hidden(&self, message: String) -> String {
        let secrets = self.all();
        let much = secrets.iter().map(|value| weight(value)).sum::<usize>() > LITTLE;
        let search = || hide(&message, &secrets);
        let found = if much { beside_async_work(search) } else { search() };
        found.unwrap_or(message)
    }

    /// What the error of one object of a lock says, as it may be shown: what many objects meet is searched once, and no pass
    /// searches the errors of all of them.
    pub(in crate::reconcile) fn shown_of_one(&mut self, error: &Error) -> String {
        let says = error.to_string();
        if let Some(told) = self.told.get(&says) {
            return told.clone();
        }
        if self.told.len() >= TOLD {
            return ONE_OF_MANY.to_owned();
        }
        let shown = if has_no_values(error) { says.clone() } else { self.shown(error) };
        self.told.insert(says, shown.clone());
        shown
    }

    /// What an error says, as it may be shown.
    pub(in crate::reconcile) fn shown(&self, error: &Error) -> String {
        let message = match error {
            Error::Cluster(error) if self.unknown => error.without_body(),
            _ => None,
        };
        self.hidden(message.unwrap_or_else(|| error.to_string()))
    }

    /// The error without what Secrets hold.
    pub(in crate::reconcile) fn hidden_error(&self, error: Error) -> Error {
        if has_no_values(&error) {
            return error;
        }
        let message = self.shown(&error);
        if message == error.to_string() {
            return error;
        }
        let (reason, class, may_pass) = (error.reason(), error.class(), error.may_pass());
        Error::Hidden { reason, class, may_pass, message }
    }

    fn all(&self) -> Vec<Arc<Value>> {
        self.values.iter().chain(&self.others).map(Arc::clone).collect()
    }
}

/// What is told of a fetch has nothing of values in it.
fn has_no_values(error: &Error) -> bool {
    error.is_conflict() || error.is_blind() || error.wakes()
}

/// Runs a search while other threads go on with the tasks of this one.
fn beside_async_work<T>(search: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(search),
        _ => search(),
    }
}

/// What a Secret holds, as it is written and as it is meant.
fn content(body: &Value) -> Arc<Value> {
    let data = body.get("data").cloned().unwrap_or_default();
    let values = data.as_object().into_iter().flat_map(|data| data.values());
    let plain: Vec<String> = values.filter_map(|value| decoded(value.as_str()?)).collect();
    Arc::new(json!([data, plain, body.get("stringData")]))
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.values().map(weight).sum(),
        Value::Number(_) | Value::Null | Value::Bool(_) => 8,
    }
}
