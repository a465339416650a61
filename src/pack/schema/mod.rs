//! The schema of the values: JSON Schema, or the simplified format.
//!
//! A schema comes from any author of packs, so its evaluation is bounded in a way that no general library
//! offers: a few lines of `anyOf` over `$ref` mean more work than anybody can wait for. Everything is therefore
//! evaluated here, for a price, and nothing is ever fetched. The tests compare the verdicts with those of the
//! `jsonschema` crate.

mod check;
mod compile;
mod format;
mod pattern;
mod reference;
mod simple;
mod wording;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Error, Files, values};

pub use check::{Fuel, Refusal, Violation};

/// File names that hold a schema of the values, in the order in which they are looked for.
const FILES: [&str; 4] = ["values.schema.yaml", "values.schema.json", "schema.yaml", "schema.json"];
/// Bytes of a schema.
const BYTES: usize = 1 << 20;
/// Scalars, lists and objects of a schema.
const NODES: usize = 50_000;

/// A schema that was understood whole.
#[derive(Clone, Debug)]
pub struct Schema {
    file: &'static str,
    root: Value,
    compiled: Arc<compile::Compiled>,
    /// Keys of the simplified format that mean nothing.
    pub(super) unknown: Vec<String>,
}

/// What follows from the file follows from its content.
impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        (self.file, &self.root) == (other.file, &other.root)
    }
}

impl Schema {
    /// Path of the file in the pack.
    #[must_use]
    pub fn file(&self) -> &'static str {
        self.file
    }

    /// Scalars, lists and objects in it.
    #[must_use]
    pub fn nodes(&self) -> usize {
        values::nodes(&self.root)
    }

    /// The values that the schema gives by `default`. An object without a default of its own has those of its properties.
    #[must_use]
    pub fn defaults(&self) -> Value {
        defaults(&self.root).filter(Value::is_object).unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// Judges values.
    ///
    /// # Errors
    /// What does not fit, or that judging takes too much work.
    pub fn check(&self, values: &Value, fuel: &mut Fuel<'_>) -> Result<(), Refusal> {
        check::check(&self.compiled, values, fuel)
    }
}

/// The schema of these files, if they have one.
///
/// # Errors
/// It is too large, not what its ending says, not a schema, or refers to something outside of itself.
pub(super) fn read(files: &Files) -> Result<Option<Schema>, Error> {
    let Some((file, text)) = FILES.into_iter().find_map(|file| Some((file, files.get(file)?))) else {
        return Ok(None);
    };
    let wrong = |message: String| Error::Schema { file: file.to_owned(), message };
    if text.len() > BYTES {
        return Err(wrong(format!("it is larger than {} MiB", BYTES >> 20)));
    }
    let (root, unknown) = if file.ends_with(".json") {
        (serde_json::from_slice(text).map_err(|error| wrong(format!("it is not JSON: {error}")))?, Vec::new())
    } else {
        let root = values::parse(text, file).map_err(|error| match error {
            Error::Values { file, message } => Error::Schema { file, message },
            other => wrong(other.to_string()),
        })?;
        if is_json_schema(&root) { (root, Vec::new()) } else { simple::convert(&root).map_err(wrong)? }
    };
    if !root.is_object() {
        return Err(wrong("it is not an object".to_owned()));
    }
    if values::nodes(&root) > NODES {
        return Err(wrong(format!("it has more than {NODES} fields and items")));
    }
    let compiled = compile::compile(&root).map_err(|fault| match fault {
        compile::Fault::Invalid(message) => wrong(message),
        compile::Fault::Elsewhere(reference) => Error::SchemaReference { file: file.to_owned(), reference },
    })?;
    Ok(Some(Schema { file, root, compiled: Arc::new(compiled), unknown }))
}

/// How the published Sherpack tells the two formats of a YAML file apart.
fn is_json_schema(root: &Value) -> bool {
    if root.get("$schema").is_some() || root.get("$id").is_some() {
        return true;
    }
    let simplified = root.get("schemaVersion").and_then(Value::as_str);
    !simplified.is_some_and(|version| version.starts_with("sherpack/")) && root["type"] == "object"
}

fn defaults(schema: &Value) -> Option<Value> {
    let schema = schema.as_object()?;
    if let Some(default) = schema.get("default") {
        return Some(default.clone()).filter(|default| !default.is_null());
    }
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    let found: Map<String, Value> =
        properties.iter().filter_map(|(key, schema)| Some((key.clone(), defaults(schema)?))).collect();
    (!found.is_empty()).then_some(Value::Object(found))
}
