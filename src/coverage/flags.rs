//! Every flag of every subcommand has a behaviour test that gives it.
//!
//! A test gives a flag when its function, with the functions of its file that it calls, has the text `--flag`, `--flag=…` or
//! `-f`, and the words of a subcommand with that flag. Subcommands that share a flag share its test: it is one definition, and
//! so one text of help. The flags of `run` count too as a variable of the environment, and as the setting of an operator that
//! runs inside the test (`h.settings.pack_dir = …`, by `tests/support/operator.rs`).

use std::collections::BTreeMap;

use clap::{Arg, Command, CommandFactory as _};

use super::code::{Function, demand, functions, of_file};
use crate::cli::Cli;

/// Flags that no test gives, each with the reason.
const UNTESTED: &[(&str, &str)] =
    &[("--worker-threads of run", "shows in speed only: other threads of the process have the same name")];

/// Settings of an operator in a test that are not called as their flag is.
const SETTINGS: &[(&str, &str)] = &[
    ("--allow-storage-namespace", "storage_namespaces"),
    ("--watch-label-selector", "watch_labels"),
    ("--lock-objects", "objects"),
    ("--allow-lock-as-operator", "as_operator"),
    ("--deny-private-sources", "deny_private"),
];

/// One flag, with all subcommands that have it.
struct Flag {
    name: String,
    short: Option<String>,
    environment: Option<String>,
    subcommands: Vec<Vec<String>>,
}

impl Flag {
    fn of(arg: &Arg) -> Option<Self> {
        Some(Self {
            name: format!("--{}", arg.get_long()?),
            short: arg.get_short().map(|short| format!("-{short}")),
            environment: arg.get_env().map(|name| name.to_string_lossy().into_owned()),
            subcommands: Vec::new(),
        })
    }

    fn is_given(&self, function: &Function) -> bool {
        let with_value = format!("{}=", self.name);
        let same = |word: &String| {
            *word == self.name || word.starts_with(&with_value) || Some(word) == self.short.as_ref()
        };
        let runs = self.subcommands.iter().any(|of| of[..] == ["run"]);
        let called = |of: &Vec<String>| of.iter().all(|word| function.words.contains(word));
        // `Process`, `Replica` and `command` of `tests/support` say `run` themselves.
        let process = ["Process", "Replica", "command"].iter().any(|name| function.names.contains(*name));
        let told = self.subcommands.iter().any(called) || runs && process;
        told && function.words.iter().any(same) || runs && self.is_set(function)
    }

    /// Whether an operator of a test has the setting.
    fn is_set(&self, function: &Function) -> bool {
        let variable = self.environment.as_ref().is_some_and(|name| function.words.contains(name));
        let other =
            SETTINGS.iter().find(|(flag, _)| *flag == self.name).map(|(_, setting)| (*setting).to_owned());
        let setting = other.unwrap_or_else(|| self.name.trim_start_matches('-').replace('-', "_"));
        variable || function.assigned.contains(&setting)
    }

    fn shown(&self) -> String {
        let of: Vec<String> = self.subcommands.iter().map(|words| words.join(" ")).collect();
        format!("{} of {}", self.name, of.join(", "))
    }
}

/// The flags below a command, by name and help.
fn flags(command: &Command, path: &[String], found: &mut BTreeMap<(String, String), Flag>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let path = [path, &[sub.get_name().to_owned()]].concat();
        for arg in sub.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version")) {
            let Some(flag) = Flag::of(arg) else { continue };
            let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string);
            let key = (flag.name.clone(), help.unwrap_or_default());
            found.entry(key).or_insert(flag).subcommands.push(path.clone());
        }
        flags(sub, &path, found);
    }
}

#[test]
fn every_flag_has_a_behaviour_test() {
    let mut command = Cli::command();
    command.build();
    let mut all = BTreeMap::new();
    flags(&command, &[], &mut all);
    assert!(all.len() > 60, "only {} flags were found: does the search still work?", all.len());
    let code = functions();
    let missing = all.values().filter(|flag| !code.iter().any(|function| flag.is_given(function)));
    demand("these flags", &missing.map(Flag::shown).collect::<Vec<_>>(), UNTESTED);
}

#[test]
fn a_flag_counts_with_its_subcommand_only() {
    let flag = |words: &[&str]| Flag {
        name: "--stale".to_owned(),
        short: None,
        environment: Some("SHERPACK_STALE".to_owned()),
        subcommands: vec![words.iter().map(|word| (*word).to_owned()).collect()],
    };
    let given = |code: &str, words: &[&str]| of_file("test", code).iter().any(|of| flag(words).is_given(of));
    assert!(given(r#"fn a() { h.ran(&["list", "--stale"]) }"#, &["list"]));
    assert!(given(r#"fn a() { h.ran(&["get", "values", "--stale=1"]) }"#, &["get", "values"]));
    assert!(given(r#"fn a() { let mut h = 1; h.settings.stale = true; }"#, &["run"]));
    assert!(given(r#"fn a() { command(&h, &["--stale"]) }"#, &["run"]));
    assert!(!given(r#"fn a() { h.ran(&["list", "--stale-not"]) }"#, &["list"]));
    assert!(!given(r#"fn a() { h.ran(&["status", "--stale"]) }"#, &["list"]));
    assert!(!given(r#"fn a() { h.ran(&["list"]) } // "--stale""#, &["list"]));
    assert!(!given(r#"fn a() { assert!(h.settings.stale == true) }"#, &["run"]));
}
