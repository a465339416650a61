//! How long the comparison of large definitions takes: `make bench`.

#![allow(clippy::expect_used)]

use divan::Bencher;
use divan::counter::BytesCount;
use serde_json::{Map, Value, json};
use sherpack_operator::crd::{Definition, analyze};
use sherpack_operator::manifest::yaml;

fn main() {
    divan::main();
}

/// About 1 MB, as large operators have it: many fields, several levels, long descriptions.
fn large(length: u64) -> Value {
    let leaf = |index: usize| {
        json!({"type": "string", "maxLength": length, "pattern": "^[a-z]+$",
            "description": format!("Field {index} of the object; {}", "what it means in some words. ".repeat(4))})
    };
    let level = |outer: usize| {
        let fields: Map<String, Value> =
            (0..25).map(|inner| (format!("inner{inner}"), leaf(outer * inner))).collect();
        json!({"type": "object", "properties": fields, "required": ["inner1"],
            "x-kubernetes-validations": [{"rule": "has(self.inner1)", "message": "inner1 is required"}]})
    };
    let fields: Map<String, Value> = (0..90).map(|outer| (format!("outer{outer}"), level(outer))).collect();
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true), version("v1beta1", false)]},
    })
}

fn bytes() -> BytesCount {
    BytesCount::new(large(9).to_string().len())
}

/// Two parsed documents; a few thousand fields differ.
#[divan::bench]
fn compare(bencher: Bencher<'_, '_>) {
    let (old, new) = (large(9), large(8));
    bencher.counter(bytes()).bench(|| {
        let old = Definition::from_value(&old).expect("a definition");
        let new = Definition::from_value(&new).expect("a definition");
        analyze(&old, &new).changes.len()
    });
}

/// Two that do not differ.
#[divan::bench]
fn compare_equal(bencher: Bencher<'_, '_>) {
    let document = large(9);
    bencher.counter(bytes()).bench(|| {
        let old = Definition::from_value(&document).expect("a definition");
        let new = Definition::from_value(&document).expect("a definition");
        analyze(&old, &new).changes.len()
    });
}

/// What the command does with files of JSON: two are read, and compared. To be under 50 ms.
#[divan::bench]
fn from_json(bencher: Bencher<'_, '_>) {
    let (old, new) = (large(9).to_string(), large(8).to_string());
    let read = |text: &str| {
        Definition::from_value(&serde_json::from_str(text).expect("JSON")).expect("a definition")
    };
    bencher.counter(bytes()).bench(|| analyze(&read(&old), &read(&new)).changes.len());
}

fn read(text: &str) -> Definition {
    let mut documents = yaml::parse_documents(text, "crd.yaml").expect("YAML");
    Definition::take(documents.remove(0)).expect("a definition")
}

/// The same with YAML, where reading is most of it.
#[divan::bench]
fn from_yaml(bencher: Bencher<'_, '_>) {
    let (old, new) = (yaml::to_yaml(&large(9)), yaml::to_yaml(&large(8)));
    bencher.counter(bytes()).bench(|| analyze(&read(&old), &read(&new)).changes.len());
}

/// Reads both at the same time and compares them.
fn read_at_once(old: &str, new: &str) -> usize {
    let (old, new) = std::thread::scope(|scope| {
        let new = scope.spawn(|| read(new));
        (read(old), new.join().expect("it is read"))
    });
    analyze(&old, &new).changes.len()
}

/// What the command does with files of YAML: the two are read at the same time, and compared. To be under 50 ms on two cores.
#[divan::bench]
fn command_yaml(bencher: Bencher<'_, '_>) {
    let (old, new) = (yaml::to_yaml(&large(9)), yaml::to_yaml(&large(8)));
    bencher.counter(bytes()).bench(|| read_at_once(&old, &new));
}

/// The same, where a handful of fields differ: an ordinary release of an operator.
#[divan::bench]
fn command_yaml_few(bencher: Bencher<'_, '_>) {
    let mut changed = large(9);
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["outer1"]
        ["required"] = json!(["inner1", "inner2"]);
    let (old, new) = (yaml::to_yaml(&large(9)), yaml::to_yaml(&changed));
    bencher.counter(bytes()).bench(|| read_at_once(&old, &new));
}
