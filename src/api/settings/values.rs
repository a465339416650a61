//! Where values come from: what of `spec.valuesFrom` is valid.

use super::resolved::{VALUES_FROM_MAX, VALUES_KEY, ValuesFrom};
use crate::api::{Invalid, ValuesReference};

/// The sources of values, in the order in which they are merged.
pub(super) fn values_sources(entries: &[ValuesReference]) -> Result<Vec<ValuesFrom>, Invalid> {
    if entries.len() > VALUES_FROM_MAX {
        let message =
            format!("has {} entries, at most {VALUES_FROM_MAX} are allowed: merge some", entries.len());
        return Err(Invalid::spec("spec.valuesFrom", message));
    }
    let mut sources = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let ValuesReference { kind, name, key, target_path, optional } = entry;
        let empty = [("name", Some(name)), ("key", key.as_ref()), ("targetPath", target_path.as_ref())];
        for (field, text) in empty {
            if text.is_some_and(String::is_empty) {
                let field = format!("spec.valuesFrom[{number}].{field}");
                return Err(Invalid::spec(&field, "is empty: set it, or leave an optional one out"));
            }
        }
        sources.push(ValuesFrom {
            kind: *kind,
            name: name.clone(),
            key: key.clone().unwrap_or_else(|| VALUES_KEY.to_owned()),
            target_path: target_path.clone(),
            optional: optional.unwrap_or(false),
        });
    }
    Ok(sources)
}
