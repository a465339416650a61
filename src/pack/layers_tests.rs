use proptest::prelude::*;
use serde_json::json;

use super::*;

fn layer(origin: &str, values: Value) -> Layer {
    Layer { origin: origin.to_owned(), field: String::new(), content: Content::Values(Arc::new(values)) }
}

fn at(origin: &str, path: &str, value: impl Into<Value>) -> Layer {
    let steps = values::steps(path).unwrap();
    Layer { origin: origin.to_owned(), field: String::new(), content: Content::At(steps, value.into()) }
}

fn merged(defaults: &Value, layers: &[Layer]) -> Value {
    values::merge(defaults.clone(), lay(layers).unwrap())
}

/// Path and source in words of every leaf.
fn told(defaults: &Value, layers: &[Layer]) -> Vec<String> {
    let (values, sources) = (merged(defaults, layers), provenance(defaults, layers));
    let leaves = leaves(&values, &sources);
    leaves.iter().map(|(path, value, source)| format!("{path}={value} {}", describe(*source))).collect()
}

#[test]
fn later_layers_win_maps_merge_and_the_rest_replaces() {
    let defaults = json!({"image": {"tag": "1", "pull": "Always"}, "list": [1, 2], "gone": 1, "kept": true});
    let layers = [
        layer("first", json!({"image": {"tag": "2"}, "list": [3], "x": {"y": 1}, "back": null})),
        layer("second", json!({"image": {"tag": "3"}, "gone": null, "x": {"z": 2}, "back": "here"})),
        at("third", "image.pull", "Never"),
        layer("fourth", json!({"x": {"y": null}})),
    ];
    assert_eq!(
        merged(&defaults, &layers),
        json!({"image": {"tag": "3", "pull": "Never"}, "list": [3], "kept": true, "x": {"z": 2}, "back": "here"})
    );
    assert_eq!(
        told(&defaults, &layers),
        [
            "back=\"here\" second",
            "image.pull=\"Never\" third",
            "image.tag=\"3\" second",
            "kept=true defaults of the pack",
            "list[0]=3 first",
            "x.z=2 second",
        ]
    );
}

#[test]
fn a_subtree_of_one_source_is_one_entry() {
    let defaults = json!({"a": {"b": 1, "c": {"d": 2}}, "e": [1, {"f": 2}]});
    assert_eq!(
        provenance(&defaults, &[]),
        BTreeMap::from([(String::new(), json!({"type": "pack-default"}))])
    );
    let layers = [layer("v", json!({"a": {"c": {"x": 1, "y": 2}}, "new": {"p": {"q": 1}}}))];
    let sources = provenance(&defaults, &layers);
    assert_eq!(sources.keys().collect::<Vec<_>>(), ["a.b", "a.c.d", "a.c.x", "a.c.y", "e", "new"]);
    assert_eq!(sources["new"], json!({"type": "values-file", "path": "v", "line": 0}));
    assert_eq!(sources["e"], json!({"type": "pack-default"}));
    // All of it laid over: one source again.
    let all = layer("all", json!({"a": {"b": 3, "c": {"d": 4}}, "e": []}));
    let sources = provenance(&defaults, &[all]);
    assert_eq!(sources.keys().collect::<Vec<_>>(), [""]);
}

#[test]
fn a_list_that_two_had_a_part_in_names_both() {
    let layers =
        [layer("v", json!({"hosts": [{"name": "a"}, {"name": "b"}]})), at("s", "hosts[0].name", "c")];
    assert_eq!(
        provenance(&json!({}), &layers)[""],
        json!({"type": "merged", "sources": [
            {"type": "values-file", "path": "v", "line": 0}, {"type": "values-file", "path": "s", "line": 0},
        ]})
    );
    assert_eq!(told(&json!({}), &layers), ["hosts[0].name=\"c\" v + s", "hosts[1].name=\"b\" v + s"]);
}

#[test]
fn a_path_of_a_layer_that_does_not_fit_is_told_with_the_number_of_the_layer() {
    let layers = [layer("v", json!({"a": [1], "b": "secret"})), at("s", "a.b", "hunter2")];
    let Err((1, Misfit::Path(why))) = lay(&layers) else { panic!("{:?}", lay(&layers)) };
    assert_eq!(why, "`b` is below a list, not an object");
    let layers = [layer("v", json!({"b": "secret"})), at("s", "b.c", "hunter2")];
    let Err((1, Misfit::Path(why))) = lay(&layers) else { panic!("{:?}", lay(&layers)) };
    assert!(!why.contains("secret") && !why.contains("hunter2"), "{why}");
    // And its provenance is still that of the rest.
    assert_eq!(describe(provenance(&json!({}), &layers).get("")), "v");
}

#[test]
fn all_layers_together_are_bounded() {
    let list: Vec<u32> = (0..50_000).collect();
    let layers: Vec<Layer> = ["a", "b", "c"].map(|key| layer(key, json!({key: list}))).into();
    assert!(lay(&layers[..2]).is_ok());
    assert_eq!(lay(&layers), Err((2, Misfit::TooLarge(NODES))));
}

#[test]
fn what_is_stored_of_the_provenance_is_bounded() {
    let fields = |name: &str, from: usize| -> Value {
        let one = |i: usize| (format!("field-{i}"), json!({name: {"x": 1}}));
        Value::Object((from..20_000).step_by(2).map(one).collect())
    };
    // Every other field is another one's, so that each is an entry by itself.
    let defaults = json!({"big": fields("a", 0), "small": {"x": 1, "y": 2}});
    let layers = [layer("v", json!({"big": fields("a", 1), "small": {"y": 3}}))];
    let sources = provenance(&defaults, &layers);
    let bytes = json!(sources).to_string().len();
    assert!(bytes <= PROVENANCE_BYTES, "{bytes}");
    assert_eq!(describe(sources.get("big")), "defaults of the pack + v");
    // What is as deep as it loses its path too, and nothing loses its source.
    assert!(leaves(&merged(&defaults, &layers), &sources).iter().all(|(_, _, source)| source.is_some()));
    // So many fields at the top that not even those fit.
    let sources = provenance(&fields("a", 0), &[layer("v", fields("a", 1))]);
    assert_eq!(sources.keys().collect::<Vec<_>>(), [""]);
}

#[test]
fn a_path_is_written_as_set_reads_it() {
    let values = json!({"a.b": {"c[0]": {"d\\e": 1}}});
    let path = leaves(&values, &BTreeMap::new())[0].0.clone();
    assert_eq!(path, r"a\.b.c\[0].d\\e");
    let steps = values::steps(&path).unwrap();
    assert_eq!(values::set_at(json!({}), &steps, json!(1)).unwrap(), values);
}

#[test]
fn a_source_of_another_tool_is_told_as_it_is() {
    for (source, told) in [
        (json!({"type": "command-line", "flag": "--set", "timestamp": "2024-05-01T10:00:00Z"}), "--set"),
        (json!({"type": "environment", "var": "HOME"}), "$HOME"),
        (json!({"type": "schema-default"}), "defaults of the schema"),
        (json!({"type": "else"}), "else"),
        (json!(5), "?"),
    ] {
        assert_eq!(describe(Some(&source)), told);
    }
    assert_eq!(describe(None), "unknown");
}

/// Values in which every scalar is this text.
fn tree(text: &'static str) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => Just(json!(text)),
        1 => Just(Value::Null),
        1 => Just(json!({})),
        1 => Just(json!([text])),
    ];
    let tree = leaf.prop_recursive(4, 24, 3, |inner| {
        prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|fields| json!(fields))
    });
    prop::collection::btree_map("[abc]", tree, 0..4).prop_map(|fields| json!(fields))
}

fn without_nulls(value: Value) -> Value {
    values::merge(json!({}), value)
}

proptest! {
    #[test]
    fn every_leaf_is_told_to_be_of_the_layer_that_wrote_it(
        defaults in tree("defaults of the pack").prop_map(without_nulls),
        first in tree("first"), second in tree("second"), third in tree("third"),
        path in "[abc](\\.[abc]){0,2}",
    ) {
        let set = at("set", &path, "set");
        let layers = [layer("first", first), layer("second", second), set, layer("third", third)];
        let layers: Vec<Layer> = match lay(&layers) {
            Ok(_) => layers.into(),
            // The path does not fit.
            Err((number, _)) => layers.into_iter().enumerate().filter(|(i, _)| *i != number).map(|(_, l)| l).collect(),
        };
        let (values, sources) = (merged(&defaults, &layers), provenance(&defaults, &layers));
        for (path, value, source) in leaves(&values, &sources) {
            prop_assert!(source.is_some(), "{path} has no source in {sources:?}");
            if let Some(text) = value.as_str() {
                prop_assert_eq!(describe(source), text, "{} in {:?}", path, sources);
            }
        }
    }
}
