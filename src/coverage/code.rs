//! The code of the behaviour tests as Rust reads it: without comments, by function.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use regex::Regex;

/// A function of a file of tests.
pub(super) struct Function {
    /// `tests/behaviour/cli.rs::operator`.
    pub(super) name: String,
    pub(super) body: TokenStream,
    /// Its text literals, and those of the functions of its file that it calls.
    pub(super) words: BTreeSet<String>,
    /// Names in it, and in those functions.
    pub(super) names: BTreeSet<String>,
    /// What it sets of the settings of its operator: `h.settings.NAME`, changed or made.
    pub(super) assigned: BTreeSet<String>,
}

/// All functions of the behaviour tests that are run, and those that start an operator as a process for them.
pub(super) fn functions() -> Vec<Function> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let list = fs::read_to_string(root.join("behaviour.rs")).unwrap();
    let module = Regex::new(r"(?m)^ +(?:pub\(super\) )?mod ([a-z_]+)(;| \{)$").unwrap();
    // A folder of modules stands among the files: whose files are not in it are beside it.
    let behaviour = root.join("behaviour");
    let mut folder = behaviour.clone();
    let mut found = Vec::new();
    for module in module.captures_iter(&list).filter(|module| &module[1] != "behaviour") {
        if module[2].contains('{') {
            folder = behaviour.join(&module[1]);
            continue;
        }
        let file = [&folder, &behaviour].map(|folder| folder.join(format!("{}.rs", &module[1])));
        let file = file.iter().find(|file| file.exists()).unwrap();
        found.extend(of_file(&module[1], &fs::read_to_string(file).unwrap()));
    }
    for file in ["process", "replica"] {
        found.extend(of_file(file, &fs::read_to_string(root.join(format!("support/{file}.rs"))).unwrap()));
    }
    assert!(found.len() > 500, "only {} functions were found: does the search still work?", found.len());
    // A constant may stand in another file.
    let constants: Vec<(String, BTreeSet<String>)> = found
        .iter()
        .filter_map(|of| Some((of.name.rsplit("::").next()?.to_owned(), of.words.clone())))
        .filter(|(name, _)| !name.contains(char::is_lowercase))
        .collect();
    for function in &mut found {
        let named = constants.iter().filter(|(name, _)| function.names.contains(name));
        function.words.extend(named.flat_map(|(_, words)| words.iter().cloned()));
    }
    found
}

/// Refuses what no test gives, but for what is in `untested`, each with its reason; one that ends in a dot stands for all
/// below it. A reason that is not needed any more is refused too.
pub(super) fn demand(what: &str, missing: &[String], untested: &[(&str, &str)]) {
    let covers = |of: &str, missing: &str| missing == of || (of.ends_with('.') && missing.starts_with(of));
    let excused = |missing: &String| untested.iter().any(|(of, _)| covers(of, missing));
    let wrong: Vec<&String> = missing.iter().filter(|missing| !excused(missing)).collect();
    assert!(wrong.is_empty(), "no behaviour test gives {what}: {wrong:#?}");
    let needless = untested.iter().filter(|(of, _)| !missing.iter().any(|missing| covers(of, missing)));
    let needless: Vec<&str> = needless.map(|(of, _)| *of).collect();
    assert!(needless.is_empty(), "these have tests, so they need no reason: {needless:?}");
}

/// The functions of one file.
pub(super) fn of_file(file: &str, text: &str) -> Vec<Function> {
    let mut bodies = Vec::new();
    named(&text.parse::<TokenStream>().unwrap(), &mut bodies);
    let own: BTreeMap<&str, (BTreeSet<String>, BTreeSet<String>)> = bodies
        .iter()
        .map(|(name, body)| {
            let (mut words, mut names) = (BTreeSet::new(), BTreeSet::new());
            collect(body, &mut words, &mut names);
            (name.as_str(), (words, names))
        })
        .collect();
    let whole = |name: &str| {
        let (mut words, mut names) = (BTreeSet::new(), BTreeSet::new());
        let (mut next, mut seen) = (vec![name], BTreeSet::new());
        while let Some(name) = next.pop() {
            let Some((of, called)) = own.get(name).filter(|_| seen.insert(name.to_owned())) else { continue };
            words.extend(of.iter().cloned());
            names.extend(called.iter().cloned());
            next.extend(
                called.iter().filter_map(|name| own.get_key_value(name.as_str()).map(|(name, _)| *name)),
            );
        }
        (words, names)
    };
    let function = |(name, body): &(String, TokenStream)| {
        let (words, names) = whole(name);
        let mut assigned = BTreeSet::new();
        settings(body, &mut assigned);
        Function { name: format!("{file}::{name}"), body: body.clone(), words, names, assigned }
    };
    bodies.iter().map(function).collect()
}

/// Functions and constants with their names, those of `impl` blocks too.
fn named(tokens: &TokenStream, found: &mut Vec<(String, TokenStream)>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut index = 0;
    while index < tokens.len() {
        let rest = &tokens[index..];
        index += 1;
        match rest {
            [TokenTree::Ident(keyword), TokenTree::Ident(name), ..] if keyword == "fn" => {
                let body = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
                let Some(length) = rest.iter().position(body) else { continue };
                if let TokenTree::Group(group) = &rest[length] {
                    found.push((name.to_string(), group.stream()));
                }
                index += length;
            }
            [TokenTree::Ident(keyword), TokenTree::Ident(name), ..] if keyword == "const" => {
                let value =
                    |token: &&TokenTree| !matches!(token, TokenTree::Punct(end) if end.as_char() == ';');
                found.push((name.to_string(), rest.iter().take_while(value).cloned().collect()));
            }
            [TokenTree::Group(group), ..] if group.delimiter() == Delimiter::Brace => {
                named(&group.stream(), found);
            }
            _ => {}
        }
    }
}

/// The text of a string literal.
pub(super) fn text(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else { return None };
    syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|text| text.value())
}

fn collect(tokens: &TokenStream, words: &mut BTreeSet<String>, names: &mut BTreeSet<String>) {
    for token in tokens.clone() {
        words.extend(text(&token));
        match token {
            TokenTree::Ident(name) => {
                names.insert(name.to_string());
            }
            TokenTree::Group(group) => collect(&group.stream(), words, names),
            _ => {}
        }
    }
}

/// `settings.NAME = …`, and what stands in `settings.NAME.…= …`.
fn settings(tokens: &TokenStream, found: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            settings(&group.stream(), found);
        }
        if !matches!(token, TokenTree::Ident(name) if name == "settings") {
            continue;
        }
        let path = tokens[index + 1..].iter().take_while(|token| match token {
            TokenTree::Punct(punct) => punct.as_char() == '.',
            TokenTree::Ident(_) => true,
            _ => false,
        });
        let path: Vec<String> = path.map(ToString::to_string).collect();
        let set = matches!(tokens.get(index + 1 + path.len()), Some(TokenTree::Punct(punct))
            if punct.as_char() == '=' && punct.spacing() == proc_macro2::Spacing::Alone);
        if set {
            found.extend(path.into_iter().filter(|part| part != "."));
        }
    }
}

#[test]
fn a_function_has_the_words_of_what_it_calls_and_none_of_comments() {
    let code = r#"
        fn helper(more: &[&str]) { run(&["list"], more); }
        /// "--of-a-comment"
        async fn test() { helper(&["--stale"]); /* "--inside" */ }
        const MORE: &[&str] = &["--const"];
        impl Other { fn other() { alone("--alone", MORE); } }
    "#;
    let found = of_file("cli", code);
    let words: Vec<Vec<&str>> =
        found.iter().map(|function| function.words.iter().map(String::as_str).collect()).collect();
    assert_eq!(words, [vec!["list"], vec!["--stale", "list"], vec!["--const"], vec!["--alone", "--const"]]);
    assert_eq!(found[1].name, "cli::test");
}
