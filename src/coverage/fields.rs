//! Every field of `spec` has a behaviour test that gives it, and so has every word of an enum and each of true and false.
//!
//! A test gives a field when its code has the JSON of it: the key below the keys of its parents, from the root of a spec, as
//! `json!({"crds": {"install": false}})` or `spec["crds"]["install"] = false`. Keys below the objects of other kinds do not
//! count. A value that is no literal may be any word of its function.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray,
};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::code::{Function, demand, functions, of_file, text};
use crate::api;

/// Fields that no test gives, each with the reason. What ends in a dot is all below it.
const UNTESTED: &[(&str, &str)] = &[
    ("pack.repository.", "refused as a whole: `unsupported` gives what the schema demands of it"),
    ("pack.oci.", "refused as a whole: `unsupported` gives what the schema demands of it"),
    ("pack.artifact.", "refused as a whole: `unsupported` gives what the schema demands of it"),
];

/// Lists that helpers and settings take from the root, by a key of their items: the rules of what is left to others.
const WITHIN: &[(&str, &str)] = &[("target", "drift.ignore")];

/// Paths below `spec`, each with the words that it is given.
type Given = BTreeMap<String, BTreeSet<String>>;

struct Reader<'f> {
    function: &'f Function,
    /// Objects that stand in a variable.
    variables: BTreeMap<String, TokenStream>,
    given: &'f mut Given,
}

impl Reader<'_> {
    /// Reads the tokens of a level; `at` are the keys above it.
    fn level(&mut self, tokens: &TokenStream, at: &[String]) {
        let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
        let mut index = 0;
        while index < tokens.len() {
            if let Some((keys, begin, end)) = key(&tokens[index..]) {
                let path = [at, &keys].concat();
                let value = tokens[index + begin..].iter().take_while(|token| !is(token, end));
                let value: Vec<TokenTree> = value.cloned().collect();
                index += begin + value.len();
                self.value(&value, &path);
            } else if let TokenTree::Group(group) = &tokens[index] {
                self.group(group, at);
            }
            index += 1;
        }
    }

    fn group(&mut self, group: &proc_macro2::Group, at: &[String]) {
        let foreign = group.delimiter() == Delimiter::Brace && of_another_kind(&group.stream());
        let at = if foreign { vec!["of another kind".to_owned()] } else { at.to_vec() };
        self.level(&group.stream(), &at);
    }

    fn value(&mut self, value: &[TokenTree], path: &[String]) {
        if let [TokenTree::Ident(json), _, TokenTree::Group(group)] = value
            && json == "json"
        {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            return self.value(&inside, path);
        }
        // An object may be written as a whole: `json!({"spec": {…}})`.
        let below: Vec<&str> = path.iter().map(String::as_str).skip_while(|key| *key == "spec").collect();
        let anything: Vec<String> = self.function.words.iter().cloned().chain(self.truths()).collect();
        let within = WITHIN.iter().find(|(key, _)| below.first() == Some(key)).map(|(_, path)| *path);
        let below: Vec<&str> = within.into_iter().chain(below).collect();
        let words = self.given.entry(below.join(".")).or_default();
        match value {
            [token] if text(token).is_some() => words.extend(text(token)),
            [TokenTree::Literal(number)] => _ = words.insert(number.to_string()),
            [TokenTree::Ident(truth)] if truth == "true" || truth == "false" => {
                words.insert(truth.to_string());
            }
            [TokenTree::Group(_)] => _ = words.insert("a group".to_owned()),
            // `null` takes a field away.
            [TokenTree::Ident(null)] if null == "null" => {}
            _ => words.extend(anything),
        }
        if let [TokenTree::Ident(name)] = value
            // Out of the way meanwhile: a variable may be made of an older one of its name.
            && let Some((name, object)) = self.variables.remove_entry(&name.to_string())
        {
            self.level(&object, path);
            self.variables.insert(name, object);
        }
        for token in value {
            if let TokenTree::Group(group) = token {
                self.group(group, path);
            }
        }
    }

    /// Those of true and false that the function names.
    fn truths(&self) -> impl Iterator<Item = String> {
        let names = self.function.names.clone();
        names.into_iter().filter(|name| name == "true" || name == "false")
    }
}

fn is(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// `"a": …,` or `["a"]["b"] = …;`: its keys, how many tokens they take, and what ends the value.
fn key(tokens: &[TokenTree]) -> Option<(Vec<String>, usize, char)> {
    if let [literal, colon, ..] = tokens
        && let Some(key) = text(literal)
        && is(colon, ':')
    {
        return Some((vec![key], 2, ','));
    }
    let index = |token: &TokenTree| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            if let [key] = &inside[..] { text(key) } else { None }
        }
        _ => None,
    };
    let keys: Vec<String> = tokens.iter().map_while(index).collect();
    let set = tokens.get(keys.len()).is_some_and(|token| {
        matches!(token, TokenTree::Punct(punct) if punct.as_char() == '=' && punct.spacing() == proc_macro2::Spacing::Alone)
    });
    (!keys.is_empty() && set).then(|| (keys.clone(), keys.len() + 1, ';'))
}

/// Whether these are the keys of an object of the cluster that is no SherpackRelease.
fn of_another_kind(object: &TokenStream) -> bool {
    let tokens: Vec<TokenTree> = object.clone().into_iter().collect();
    let has = |wanted: &str| {
        tokens.windows(2).any(|pair| text(&pair[0]).as_deref() == Some(wanted) && is(&pair[1], ':'))
    };
    let release = tokens.iter().any(|token| text(token).as_deref() == Some("SherpackRelease"));
    has("apiVersion") && has("kind") && !release
}

/// What stands in `let name = json!(…);`, at any depth.
fn variables(tokens: &TokenStream, found: &mut BTreeMap<String, TokenStream>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for window in tokens.windows(6) {
        let [
            TokenTree::Ident(keyword),
            TokenTree::Ident(name),
            _,
            TokenTree::Ident(json),
            _,
            TokenTree::Group(group),
        ] = window
        else {
            continue;
        };
        if keyword == "let" && json == "json" {
            found.insert(name.to_string(), group.stream());
        }
    }
    for token in tokens {
        if let TokenTree::Group(group) = token {
            variables(&group.stream(), found);
        }
    }
}

fn given(functions: &[Function]) -> Given {
    let mut given = Given::new();
    for function in functions {
        let mut found = BTreeMap::new();
        variables(&function.body, &mut found);
        Reader { function, variables: found, given: &mut given }.level(&function.body, &[]);
    }
    given
}

/// The paths of all fields without fields, each with the words of which one has to be chosen.
fn fields(path: &str, schema: &JSONSchemaProps, found: &mut Vec<(String, Vec<String>)>) {
    let item = match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(item)) => item,
        _ => schema,
    };
    let Some(inside) = &item.properties else {
        let words = item.enum_.iter().flatten().filter_map(|word| word.0.as_str()).map(str::to_owned);
        let truths = ["true", "false"].map(str::to_owned);
        let words = if item.type_.as_deref() == Some("boolean") { truths.to_vec() } else { words.collect() };
        found.push((path.to_owned(), words));
        return;
    };
    for (name, field) in inside {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        fields(&path, field, found);
    }
}

fn all_fields() -> Vec<(String, Vec<String>)> {
    let crd = api::crd();
    let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
    let mut found = Vec::new();
    fields("", &schema.properties.as_ref().unwrap()["spec"], &mut found);
    assert!(found.len() > 60, "only {} fields were found: does the search still work?", found.len());
    found
}

/// What no test gives: paths, and paths with a word.
fn missing(given: &Given) -> Vec<(String, String)> {
    let mut missing = Vec::new();
    for (path, words) in all_fields() {
        let of = given.get(&path);
        if of.is_none_or(BTreeSet::is_empty) {
            missing.push((path, String::new()));
            continue;
        }
        let lacks = words.into_iter().filter(|word| of.is_some_and(|given| !given.contains(word)));
        missing.extend(lacks.map(|word| (path.clone(), word)));
    }
    missing
}

#[test]
fn every_field_of_the_spec_has_a_behaviour_test_and_so_has_every_word_of_it() {
    let missing = missing(&given(&functions()));
    let missing = missing.iter().map(|(path, word)| format!("{path} {word}").trim_end().to_owned());
    demand("these fields of spec", &missing.collect::<Vec<_>>(), UNTESTED);
}

#[test]
fn a_field_counts_below_its_parents_only() {
    let code = r#"
        fn test() {
            let keep = json!({"onUninstall": "Delete"});
            h.deploy("web", &pack, json!({"crds": keep, "history": {"limit": 3}, "wait": null})).await;
            // json!({"suspend": true})
            let job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"suspend": true, "timeout": "1s"}});
            let words = json!({"install": true, "drift.mode": "Warn"});
            spec["uninstall"]["wait"] = json!(false);
            assert_eq!(release["spec"]["approval"], "Manual");
            for mode in ["Enabled"] { h.edit_spec("web", json!({"drift": {"mode": mode}})).await; }
        }
    "#;
    let given = given(&of_file("test", code));
    let has = |path: &str, word: &str| given.get(path).is_some_and(|words| words.contains(word));
    assert!(has("crds.onUninstall", "Delete") && has("history.limit", "3") && has("uninstall.wait", "false"));
    assert!(has("drift.mode", "Enabled") && !has("uninstall.wait", "true"));
    for absent in ["suspend", "timeout", "crds.install", "approval"] {
        assert!(!given.contains_key(absent), "{absent}: {given:?}");
    }
    assert!(given["wait"].is_empty(), "{given:?}");
}
