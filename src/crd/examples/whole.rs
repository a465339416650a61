use serde_json::{Value, json};

use super::{Example, example, version, widget, with};
use crate::crd::Kind::*;
use crate::crd::Severity::*;
use crate::crd::{Kind, Severity};

fn put(pointer: &str, value: Value) -> Value {
    with(widget(), pointer, value)
}

fn size() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}}})
}

/// The widget with these versions; the one that is stored is named first.
fn versions(storage: &str, all: &[(&str, bool, Value)]) -> Value {
    let list: Vec<Value> = all
        .iter()
        .map(|(name, served, spec)| {
            let with_flag = with(version(name, spec.clone()), "/served", json!(served));
            with(with_flag, "/storage", json!(*name == storage))
        })
        .collect();
    put("/spec/versions", list.into())
}

fn webhook(path: &str, bundle: Option<&str>) -> Value {
    let mut client = json!({"service": {"name": "widgets", "namespace": "apps", "path": path}});
    if let Some(bundle) = bundle {
        client["caBundle"] = bundle.into();
    }
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}})
}

fn scale(selector: Option<&str>, replicas: &str) -> Value {
    let mut scale = json!({"specReplicasPath": replicas, "statusReplicasPath": ".status.replicas"});
    if let Some(selector) = selector {
        scale["labelSelectorPath"] = selector.into();
    }
    scale
}

/// Not valid as such, and only to look at.
const CERTIFICATE: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t";

pub(super) fn examples() -> Vec<Example> {
    let mut all = names();
    all.extend(conversions());
    all.extend(version_lists());
    all.extend(parts());
    all
}

fn names() -> Vec<Example> {
    let old = widget;
    let fresh = || put("/status/conditions", json!([{"type": "Established", "status": "False"}]));
    let momentary =
        |kind: Kind, new: Value| Example { creatable: false, ..example(kind, Dangerous, fresh(), new) };
    vec![
        example(ChangeGroup, Blocked, old(), put("/spec/group", json!("example.org"))),
        example(ChangePlural, Blocked, old(), put("/spec/names/plural", json!("widgetz"))),
        example(ChangeKindName, Blocked, old(), put("/spec/names/kind", json!("Gadget"))),
        momentary(ChangeKindName, put("/spec/names/kind", json!("Gadget"))),
        example(ChangeScope, Blocked, old(), put("/spec/scope", json!("Cluster"))),
        momentary(ChangeScope, put("/spec/scope", json!("Cluster"))),
        example(ChangeSingular, Warning, old(), put("/spec/names/singular", json!("gadget"))),
        example(ChangeListKind, Warning, old(), put("/spec/names/listKind", json!("Widgets"))),
        example(AddShortName, Safe, old(), put("/spec/names/shortNames", json!(["wg"]))),
        example(RemoveShortName, Warning, put("/spec/names/shortNames", json!(["wg"])), old()),
        example(AddCategory, Safe, old(), put("/spec/names/categories", json!(["all"]))),
        example(RemoveCategory, Warning, put("/spec/names/categories", json!(["all"])), old()),
        Example {
            creatable: false,
            ..example(EnablePruning, Dangerous, put("/spec/preserveUnknownFields", json!(true)), old())
        },
        example(RefusedByServer, Blocked, old(), put("/spec/versions/0/storage", json!(false))),
        example(Unhandled, Warning, old(), put("/spec/versions/0/schema/openAPIV3Schema/x-other", json!(1))),
    ]
}

fn conversions() -> Vec<Example> {
    let two = || versions("v1", &[("v1", true, size()), ("v1beta1", true, size())]);
    let hooked =
        |document: Value, path: &str, bundle| with(document, "/spec/conversion", webhook(path, bundle));
    vec![
        example(ChangeConversion, Warning, widget(), hooked(widget(), "/convert", None)),
        example(ChangeConversion, Dangerous, hooked(two(), "/convert", None), two()),
        example(
            ChangeConversionWebhook,
            Warning,
            hooked(widget(), "/convert", None),
            hooked(widget(), "/v2/convert", None),
        ),
        Example {
            // A certificate authority must be one, once the definition is in use.
            creatable: false,
            ..example(
                ChangeCaBundle,
                Safe,
                hooked(widget(), "/convert", None),
                hooked(widget(), "/convert", Some(CERTIFICATE)),
            )
        },
    ]
}

fn version_lists() -> Vec<Example> {
    let one = || versions("v1", &[("v1", true, size())]);
    let with_beta = |served| versions("v1", &[("v1", true, size()), ("v1beta1", served, size())]);
    let wider = || json!({"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}});
    let flip = |storage: &str, later: Value| versions(storage, &[("v1", true, size()), ("v2", true, later)]);
    let defaulted = || json!({"type": "object", "properties": {"size": {"type": "integer", "default": 1}}});
    let deprecated = |document: Value, text: Option<&str>| {
        let document = with(document, "/spec/versions/0/deprecated", json!(true));
        match text {
            Some(text) => with(document, "/spec/versions/0/deprecationWarning", text.into()),
            None => document,
        }
    };
    vec![
        example(AddVersion, Safe, one(), with_beta(true)),
        example(RemoveVersion, Blocked, one(), versions("v2", &[("v2", true, size())])),
        example(RemoveVersion, Dangerous, with_beta(true), one()),
        example(RemoveVersion, Warning, with_beta(false), one()),
        example(ServeVersion, Safe, with_beta(false), with_beta(true)),
        example(UnserveVersion, Dangerous, with_beta(true), with_beta(false)),
        example(ChangeStorageVersion, Warning, flip("v1", size()), flip("v2", size())),
        example(
            ChangeStorageVersion,
            Dangerous,
            flip("v1", json!({"type": "object"})),
            flip("v2", json!({"type": "object"})),
        ),
        example(DeprecateVersion, Warning, one(), deprecated(one(), None)),
        example(UndeprecateVersion, Safe, deprecated(one(), None), one()),
        example(ChangeDeprecationWarning, Safe, deprecated(one(), None), deprecated(one(), Some("use v2"))),
        example(LossyVersion, Dangerous, one(), flip("v1", wider())),
        example(
            LossyVersion,
            Warning,
            one(),
            versions("v1", &[("v1", true, size()), ("v1beta1", true, defaulted())]),
        ),
    ]
}

fn parts() -> Vec<Example> {
    let columns = |all: Value| put("/spec/versions/0/additionalPrinterColumns", all);
    let size_column = |path: &str, priority: i64| json!({"name": "Size", "type": "integer", "jsonPath": path, "priority": priority});
    let selectable = |all: Value| put("/spec/versions/0/selectableFields", all);
    let sub = |all: Value| put("/spec/versions/0/subresources", all);
    let by_size = || json!([{"jsonPath": ".spec.size"}]);
    let row: &dyn Fn(Kind, Severity, Value, Value) -> Example = &example;
    vec![
        row(AddPrinterColumn, Safe, widget(), columns(json!([size_column(".spec.size", 0)]))),
        row(RemovePrinterColumn, Warning, columns(json!([size_column(".spec.size", 0)])), widget()),
        row(
            ChangePrinterColumn,
            Warning,
            columns(json!([size_column(".spec.size", 0)])),
            columns(json!([size_column(".spec.count", 0)])),
        ),
        row(
            ChangePrinterColumn,
            Safe,
            columns(json!([size_column(".spec.size", 0)])),
            columns(json!([size_column(".spec.size", 1)])),
        ),
        row(AddSelectableField, Safe, widget(), selectable(by_size())),
        row(RemoveSelectableField, Dangerous, selectable(by_size()), widget()),
        row(AddSubresource, Warning, widget(), sub(json!({"status": {}}))),
        row(AddSubresource, Safe, widget(), sub(json!({"scale": scale(None, ".spec.size")}))),
        row(RemoveSubresource, Dangerous, sub(json!({"status": {}})), widget()),
        row(
            ChangeSubresource,
            Dangerous,
            sub(json!({"scale": scale(None, ".spec.size")})),
            sub(json!({"scale": scale(None, ".spec.count")})),
        ),
        row(
            ChangeSubresource,
            Safe,
            sub(json!({"scale": scale(None, ".spec.size")})),
            sub(json!({"scale": scale(Some(".status.selector"), ".spec.size")})),
        ),
    ]
}
