//! The simplified format, turned into JSON Schema as the published Sherpack does.

use serde_json::{Map, Value, json};

use crate::pack::shown;

const ROOT_KEYS: [&str; 4] = ["schemaVersion", "title", "description", "properties"];
/// A key of a property, and the keyword that it becomes. `type`, `required`, `properties`, `items` need more.
const KEYWORDS: [(&str, &str, Is); 10] = [
    ("description", "description", Is::Text),
    ("default", "default", Is::Anything),
    ("enumValues", "enum", Is::List),
    ("pattern", "pattern", Is::Text),
    ("min", "minimum", Is::Number),
    ("max", "maximum", Is::Number),
    ("minLength", "minLength", Is::Count),
    ("maxLength", "maxLength", Is::Count),
    ("minItems", "minItems", Is::Count),
    ("maxItems", "maxItems", Is::Count),
];
/// A hostile file may have thousands.
const UNKNOWN: usize = 20;

#[derive(Clone, Copy)]
enum Is {
    Anything,
    Text,
    Number,
    Count,
    List,
}

impl Is {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Anything => true,
            Self::Text => value.is_string(),
            Self::Number => value.is_number(),
            Self::Count => value.is_u64(),
            Self::List => value.is_array(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Anything => "a value",
            Self::Text => "text",
            Self::Number => "a number",
            Self::Count => "a whole number",
            Self::List => "a list",
        }
    }
}

/// The JSON Schema, and the keys that mean nothing.
pub(super) fn convert(root: &Value) -> Result<(Value, Vec<String>), String> {
    let mut unknown = Vec::new();
    let none = Map::new();
    let root = root.as_object().unwrap_or(&none);
    remember(&mut unknown, root.keys().filter(|key| !ROOT_KEYS.contains(&key.as_str())), "");
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("http://json-schema.org/draft-07/schema#"));
    schema.insert("type".to_owned(), json!("object"));
    if let Some(list) = root.get("properties").filter(|list| !list.is_null()) {
        properties(list, "", &mut schema, &mut unknown)?;
    }
    Ok((Value::Object(schema), unknown))
}

fn properties(
    list: &Value,
    path: &str,
    into: &mut Map<String, Value>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let Some(list) = list.as_object() else {
        return Err(format!("`{path}properties` is not an object"));
    };
    let mut converted = Map::new();
    let mut required = Vec::new();
    for (name, definition) in list {
        let path = format!("{path}properties.{}.", shown(name, 100));
        let (schema, is_required) = property(definition, &path, unknown)?;
        converted.insert(name.clone(), schema);
        if is_required {
            required.push(Value::from(name.as_str()));
        }
    }
    into.insert("properties".to_owned(), Value::Object(converted));
    if !required.is_empty() {
        into.insert("required".to_owned(), Value::Array(required));
    }
    Ok(())
}

fn property(definition: &Value, path: &str, unknown: &mut Vec<String>) -> Result<(Value, bool), String> {
    let Some(definition) = definition.as_object() else {
        return Err(format!("`{}` is not an object", path.trim_end_matches('.')));
    };
    let known = |key: &&String| {
        matches!(key.as_str(), "type" | "required" | "properties" | "items")
            || KEYWORDS.iter().any(|(known, ..)| known == key)
    };
    remember(unknown, definition.keys().filter(|key| !known(key)), path);
    let required = match definition.get("required") {
        None => false,
        Some(Value::Bool(required)) => *required,
        Some(_) => return Err(format!("`{path}required` is not true or false")),
    };
    let kind = match definition.get("type").and_then(Value::as_str) {
        // As published: a property of any type is held to nothing, but still gives its default.
        Some("any") => {
            let default = definition.get("default").map(|default| ("default".to_owned(), default.clone()));
            return Ok((Value::Object(default.into_iter().collect()), required));
        }
        Some(kind @ ("string" | "number" | "integer" | "boolean" | "array" | "object")) => kind,
        _ => {
            return Err(format!(
                "`{path}type` is not string, number, integer, boolean, array, object or any"
            ));
        }
    };
    let mut schema = Map::new();
    schema.insert("type".to_owned(), kind.into());
    for (key, keyword, is) in KEYWORDS {
        let Some(value) = definition.get(key).filter(|value| !value.is_null()) else { continue };
        if !is.fits(value) {
            return Err(format!("`{path}{key}` is not {}", is.name()));
        }
        schema.insert(keyword.to_owned(), value.clone());
    }
    if let Some(list) = definition.get("properties").filter(|list| !list.is_null()) {
        properties(list, path, &mut schema, unknown)?;
    }
    if let Some(items) = definition.get("items").filter(|items| !items.is_null()) {
        schema.insert("items".to_owned(), property(items, &format!("{path}items."), unknown)?.0);
    }
    Ok((Value::Object(schema), required))
}

fn remember<'k>(unknown: &mut Vec<String>, keys: impl Iterator<Item = &'k String>, path: &str) {
    let left = UNKNOWN.saturating_sub(unknown.len());
    unknown.extend(keys.take(left).map(|key| format!("{path}{}", shown(key, 100))));
}
