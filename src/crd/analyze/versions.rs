//! What a version says beside its schema, and how versions are converted.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::crd::change::{Change, plain, unknown};
use crate::crd::definition::{NOTHING, Version};
use crate::crd::same::{data, printer_column};
use crate::crd::{Definition, Kind, Severity};

/// The map below a key, or an empty one.
pub(super) fn inner<'m>(map: &'m Map<String, Value>, key: &str) -> &'m Map<String, Value> {
    map.get(key).and_then(Value::as_object).unwrap_or(&NOTHING)
}

fn with(change: Change, old: Option<&Value>, new: Option<&Value>) -> Change {
    Change { old: old.cloned(), new: new.cloned(), ..change }
}

pub(super) fn conversion(old: &Definition, new: &Definition, out: &mut Vec<Change>) {
    let (from, to) = (inner(&old.spec, "conversion"), inner(&new.spec, "conversion"));
    let path = "spec.conversion";
    let (was, is) = (old.text(Some("conversion"), "strategy"), new.text(Some("conversion"), "strategy"));
    if was != is {
        let in_use: BTreeSet<&str> = new
            .versions()
            .filter(Version::served)
            .map(|version| version.name)
            .chain(old.stored.iter().map(String::as_str))
            .collect();
        let (severity, why) = if was == "Webhook" && in_use.len() > 1 {
            (Severity::Dangerous, "nothing translates between the versions in use any more")
        } else {
            (Severity::Warning, "reads and writes of other versions than the stored one go another way")
        };
        let message = format!("the strategy changed from {was:?} to {is:?}: {why}");
        let change = plain(Kind::ChangeConversion, severity, "spec.conversion.strategy", message);
        out.push(with(change, from.get("strategy"), to.get("strategy")));
    } else {
        let (mut from, mut to) = (inner(from, "webhook").clone(), inner(to, "webhook").clone());
        let bundle = |webhook: &mut Map<String, Value>| {
            webhook
                .get_mut("clientConfig")
                .and_then(Value::as_object_mut)
                .and_then(|client| client.remove("caBundle"))
        };
        let (was, is) = (bundle(&mut from), bundle(&mut to));
        if was != is {
            let message = "the certificate authority of the webhook is another".to_owned();
            let path = "spec.conversion.webhook.clientConfig.caBundle";
            out.push(with(
                plain(Kind::ChangeCaBundle, Severity::Safe, path, message),
                was.as_ref(),
                is.as_ref(),
            ));
        }
        let (from, to) = (data(&Value::Object(from)), data(&Value::Object(to)));
        if from != to {
            let message =
                "it is called in another way: every read and write of another version depends on it"
                    .to_owned();
            let change =
                plain(Kind::ChangeConversionWebhook, Severity::Warning, "spec.conversion.webhook", message);
            out.push(with(change, Some(&from), Some(&to)));
        }
    }
    unknown(from, to, &["strategy", "webhook"], path, out);
}

/// served, deprecated and its text; `storage` is a matter of the whole.
pub(super) fn flags(old: &Version<'_>, new: &Version<'_>, out: &mut Vec<Change>) {
    let (path, name) = (new.path(), new.name);
    let mut say = |kind, severity, key: &str, message: String| {
        let change = plain(kind, severity, &format!("{path}.{key}"), message);
        out.push(with(change, old.body.get(key), new.body.get(key)));
    };
    match (old.served(), new.served()) {
        (true, false) => {
            let message = format!("{name} is no longer served: clients that use it fail");
            say(Kind::UnserveVersion, Severity::Dangerous, "served", message);
        }
        (false, true) => say(Kind::ServeVersion, Severity::Safe, "served", format!("{name} is served")),
        _ => {}
    }
    let deprecated = |version: &Version<'_>| version.body.get("deprecated") == Some(&Value::Bool(true));
    match (deprecated(old), deprecated(new)) {
        (false, true) => {
            let message = format!("{name} is deprecated: clients get a warning with every request");
            say(Kind::DeprecateVersion, Severity::Warning, "deprecated", message);
        }
        (true, false) => {
            say(
                Kind::UndeprecateVersion,
                Severity::Safe,
                "deprecated",
                format!("{name} is no longer deprecated"),
            );
        }
        _ => {}
    }
    let warning = |version: &Version<'_>| {
        version.body.get("deprecationWarning").cloned().filter(|text| !text.is_null())
    };
    if warning(old) != warning(new) {
        let message = format!("the warning of {name} is another");
        say(Kind::ChangeDeprecationWarning, Severity::Safe, "deprecationWarning", message);
    }
}

fn list<'v>(version: &Version<'v>, key: &str) -> &'v [Value] {
    version.body.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The entries of a list by what tells them apart; a repeated one counts once.
fn by<'v>(list: &'v [Value], key: &str) -> BTreeMap<&'v str, (usize, &'v Value)> {
    let entries = list.iter().enumerate();
    entries
        .map(|(index, entry)| (entry.get(key).and_then(Value::as_str).unwrap_or_default(), (index, entry)))
        .collect()
}

pub(super) fn columns(old: &Version<'_>, new: &Version<'_>, out: &mut Vec<Change>) {
    let key = "additionalPrinterColumns";
    let (from, to) = (list(old, key), list(new, key));
    let (before, after) = (by(from, "name"), by(to, "name"));
    let path = |version: &Version<'_>, index: usize| format!("{}.{key}[{index}]", version.path());
    let count = out.len();
    for (name, (index, column)) in &after {
        let Some((_, earlier)) = before.get(name) else {
            let message = format!("{}: column {name:?} is new", new.name);
            let change = plain(Kind::AddPrinterColumn, Severity::Safe, &path(new, *index), message);
            out.push(with(change, None, Some(column)));
            continue;
        };
        if printer_column(earlier) == printer_column(column) {
            continue;
        }
        let part = |column: &Value, key: &str| column.get(key).cloned().unwrap_or_default();
        let other = ["jsonPath", "type"].iter().any(|key| part(earlier, key) != part(column, key));
        let severity = if other { Severity::Warning } else { Severity::Safe };
        let message = format!("{}: column {name:?} shows something else, or in another way", new.name);
        let change = plain(Kind::ChangePrinterColumn, severity, &path(new, *index), message);
        out.push(with(change, Some(earlier), Some(column)));
    }
    for (name, (index, column)) in before.iter().filter(|(name, _)| !after.contains_key(*name)) {
        let message = format!("{}: column {name:?} is gone; scripts may read it", new.name);
        let change = plain(Kind::RemovePrinterColumn, Severity::Warning, &path(old, *index), message);
        out.push(with(change, Some(column), None));
    }
    let all = |columns: &[Value]| -> Vec<Value> { columns.iter().map(printer_column).collect() };
    if out.len() == count && all(from) != all(to) {
        let message = format!("{}: the columns have another order", new.name);
        out.push(plain(Kind::ChangePrinterColumn, Severity::Safe, &format!("{}.{key}", new.path()), message));
    }
}

pub(super) fn selectable(old: &Version<'_>, new: &Version<'_>, out: &mut Vec<Change>) {
    let key = "selectableFields";
    let (from, to) = (list(old, key), list(new, key));
    let (before, after) = (by(from, "jsonPath"), by(to, "jsonPath"));
    for (field, (index, entry)) in after.iter().filter(|(field, _)| !before.contains_key(*field)) {
        let path = format!("{}.{key}[{index}]", new.path());
        let message = format!("{}: objects can be selected by {field}", new.name);
        out.push(with(plain(Kind::AddSelectableField, Severity::Safe, &path, message), None, Some(entry)));
    }
    for (field, (index, entry)) in before.iter().filter(|(field, _)| !after.contains_key(*field)) {
        let path = format!("{}.{key}[{index}]", old.path());
        let message = format!("{}: requests that select by {field} are refused", new.name);
        out.push(with(
            plain(Kind::RemoveSelectableField, Severity::Dangerous, &path, message),
            Some(entry),
            None,
        ));
    }
    for (field, (index, entry)) in &after {
        if let (Some((_, earlier)), Some(entry)) = (before.get(field), entry.as_object()) {
            let path = format!("{}.{key}[{index}]", new.path());
            unknown(earlier.as_object().unwrap_or(&NOTHING), entry, &["jsonPath"], &path, out);
        }
    }
}

pub(super) fn subresources(old: &Version<'_>, new: &Version<'_>, out: &mut Vec<Change>) {
    let (from, to) = (inner(old.body, "subresources"), inner(new.body, "subresources"));
    let path = format!("{}.subresources", new.path());
    let some = |map: &Map<String, Value>, key: &str| map.get(key).filter(|value| !value.is_null()).is_some();
    for (key, severity, why) in [
        ("status", Severity::Warning, "ordinary writes no longer change the status"),
        ("scale", Severity::Safe, "the objects can be scaled"),
    ] {
        let place = format!("{path}.{key}");
        match (some(from, key), some(to, key)) {
            (false, true) => {
                let message = format!("{}: {key} is new: {why}", new.name);
                out.push(with(plain(Kind::AddSubresource, severity, &place, message), None, to.get(key)));
            }
            (true, false) => {
                let message = format!("{}: {key} is gone: requests to it are refused", new.name);
                let change = plain(Kind::RemoveSubresource, Severity::Dangerous, &place, message);
                out.push(with(change, from.get(key), None));
            }
            _ => {}
        }
    }
    if some(from, "scale") && some(to, "scale") {
        let (from, to) = (inner(from, "scale"), inner(to, "scale"));
        let keys = ["specReplicasPath", "statusReplicasPath", "labelSelectorPath"];
        for key in keys {
            let part = |map: &Map<String, Value>| {
                map.get(key).filter(|path| path.as_str() != Some("") && !path.is_null()).cloned()
            };
            let (was, is) = (part(from), part(to));
            if was != is {
                let severity = if was.is_none() { Severity::Safe } else { Severity::Dangerous };
                let message = format!("{}: autoscalers read or write another field: {key}", new.name);
                let change =
                    plain(Kind::ChangeSubresource, severity, &format!("{path}.scale.{key}"), message);
                out.push(with(change, was.as_ref(), is.as_ref()));
            }
        }
        unknown(from, to, &keys, &format!("{path}.scale"), out);
    }
    if some(from, "status") && some(to, "status") {
        unknown(inner(from, "status"), inner(to, "status"), &[], &format!("{path}.status"), out);
    }
    unknown(from, to, &["status", "scale"], &path, out);
}
