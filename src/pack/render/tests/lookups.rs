//! `lookup`, over a cluster that is a table.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{all_give, pack, run_with};
use crate::api::Class;
use crate::pack::render::{Asked, Error, Lookup, Refusal, Secrets, Stop};

/// Has one ConfigMap, refuses Secrets, and remembers what it was asked.
#[derive(Default)]
struct Table {
    asked: Mutex<Vec<String>>,
    /// Stops the render that asks.
    stop: Option<Stop>,
}

impl Table {
    fn note(&self, of: &Asked<'_>, name: &str) -> Result<(), Refusal> {
        let text = format!("{} {} {} {name}", of.api_version, of.kind, of.namespace.unwrap_or("-"));
        self.asked.lock().unwrap().push(text.trim_end().to_owned());
        if let Some(stop) = &self.stop {
            stop.now();
        }
        if of.kind == "Secret" {
            let message = "it is forbidden".to_owned();
            return Err(Refusal { class: Class::Retry, reason: "LookupFailed", message });
        }
        Ok(())
    }
}

impl Lookup for Table {
    fn object(&self, of: &Asked<'_>, name: &str) -> Result<Option<Value>, Refusal> {
        self.note(of, name)?;
        Ok((name == "one").then(|| json!({"kind": "ConfigMap", "data": {"a": "b"}})))
    }

    fn objects(&self, of: &Asked<'_>) -> Result<Vec<Value>, Refusal> {
        self.note(of, "")?;
        Ok(vec![json!({"metadata": {"name": "one"}}), json!({"metadata": {"name": "two"}})])
    }
}

fn look(template: &str, table: &Arc<Table>, stop: &Stop) -> Result<String, Error> {
    let cluster: Arc<dyn Lookup> = Arc::clone(table) as _;
    let pack = pack("", &[("templates/NOTES.txt", template)]);
    Ok(run_with(&pack, &json!({}), &cluster, &Secrets::new(), stop)?.notes.unwrap_or_default())
}

#[test]
fn an_object_is_found_by_name_and_one_that_is_not_there_is_an_empty_map() {
    let table = Arc::new(Table::default());
    let template = "{{ lookup('v1', 'ConfigMap', 'apps', 'one').data.a }} {{ lookup('v1', 'ConfigMap', 'apps', 'no') }} \
        {{ 'new' if not lookup('v1', 'ConfigMap', 'apps', 'no') }} \
        {{ lookup('v1', 'ConfigMap', '', '')['items'] | map(attribute='metadata.name') | join(',') }} \
        {{ lookup('v1', 'ConfigMap') | length }} {{ lookup('v1', 'ConfigMap', 'apps', 'no').data.x | default('d') }}";
    assert_eq!(look(template, &table, &Stop::default()).unwrap(), "b {} new one,two 1 d");
    let asked = table.asked.lock().unwrap();
    assert_eq!(
        *asked,
        ["v1 ConfigMap apps one", "v1 ConfigMap apps no", "v1 ConfigMap -"],
        "each is asked once"
    );
}

#[test]
fn a_refusal_ends_the_render_with_its_class_and_reason() {
    let error =
        look("a\n{{ lookup('v1', 'Secret', 'apps', 'x') }}", &Arc::new(Table::default()), &Stop::default());
    let error = error.unwrap_err();
    assert_eq!((error.reason(), error.class()), ("LookupFailed", Class::Retry));
    assert_eq!(error.to_string(), "templates/NOTES.txt:2: lookup of v1 Secret: it is forbidden");
    let nested = "{{ tpl(\"{{ lookup('v1', 'Secret') }}\") }}";
    let error = look(nested, &Arc::new(Table::default()), &Stop::default()).unwrap_err();
    assert_eq!(error.reason(), "LookupFailed", "{error}");
}

#[test]
fn lookups_are_bounded_and_end_when_the_render_is_stopped() {
    let table = Arc::new(Table::default());
    let many =
        "{% for i in range(200) %}{% set x = lookup('v1', 'ConfigMap', 'apps', 'n' ~ i) %}{% endfor %}";
    let error = look(many, &table, &Stop::default()).unwrap_err();
    assert!(
        error.reason() == "RenderLimit" && error.to_string().contains("100 different lookups"),
        "{error}"
    );
    assert_eq!(table.asked.lock().unwrap().len(), 100);

    let stop = Stop::default();
    let table = Arc::new(Table { stop: Some(stop.clone()), ..Table::default() });
    let error = look("{{ lookup('v1', 'ConfigMap', 'apps', 'one') }}", &table, &stop).unwrap_err();
    assert_eq!(error.reason(), "RenderLimit", "{error}");

    for template in [
        "{{ lookup('v1') }}",
        "{{ lookup('', 'ConfigMap') }}",
        "{{ lookup('v1', '') }}",
        "{{ lookup('v1', 'x' * 600) }}",
        "{{ lookup('v1', values.kind) }}",
        "{{ lookup('v1', 'ConfigMap', 'a', 'b', 'c') }}",
    ] {
        let error = look(template, &Arc::new(Table::default()), &Stop::default()).unwrap_err();
        assert_eq!(error.reason(), "RenderFailed", "{template}: {error}");
    }
}

#[test]
fn without_a_cluster_nothing_is_there() {
    all_give(&[
        (
            "{{ lookup('v1', 'Secret', 'a', 'b') }} {{ lookup('v1', 'Secret', '', '') }}",
            r#"{} {"items": []}"#,
        ),
        ("{% for o in lookup('v1', 'Pod', 'a', '')['items'] %}x{% endfor %}", ""),
    ]);
}
