//! `crd-diff`: what changes between two files of CustomResourceDefinitions, or from what a cluster has to a file.

mod live;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::api::CrdUpgrade;
use crate::cli::cluster::{Connection, on_runtime};
use crate::cli::output::answer::{Answer, Failure, finish, pretty, story};
use crate::crd::policy::strategy;
use crate::crd::text::{Colour, text};
use crate::crd::{self, Analysis, Change, Definition, Severity, analyze, document, introduce};
use crate::manifest::yaml;

/// Bytes of one file: many definitions in one.
const BYTES: u64 = 64 << 20;

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// What is there: YAML or JSON, one definition or several; `-` reads standard input. Without a second file this is what
    /// comes, and the cluster is asked for what is there.
    #[arg(required_unless_present = "kinds")]
    old: Option<String>,
    /// What comes.
    new: Option<String>,
    /// Which changes count as findings: `safe` stops at Dangerous and Blocked, `force` at Blocked, `skip` at none.
    #[arg(long, value_enum, default_value_t = Strategy::Safe)]
    strategy: Strategy,
    /// How the changes are printed.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Print a document about all kinds of change instead: severities, rules, examples.
    #[arg(long, conflicts_with_all = ["old", "new"])]
    kinds: bool,
    /// With a cluster: do not look at the objects that exist. They tell what a change really breaks.
    #[arg(long, conflicts_with = "new")]
    no_evidence: bool,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(in crate::cli) enum Strategy {
    Safe,
    Force,
    Skip,
}

impl From<Strategy> for CrdUpgrade {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::Safe => Self::Safe,
            Strategy::Force => Self::Force,
            Strategy::Skip => Self::Skip,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// An entry for every change, what is not safe, and the verdict; with colours on a terminal.
    Text,
    /// A JSON object with `verdict` and `changes`: `kind`, `path`, `severity`, `message`; with `crd` when there are several.
    Json,
}

/// Exit code 0 when the strategy would go on, 1 when it would stop, 2 when a file cannot be read or is no definition.
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(answer(args))
}

fn answer(args: Args) -> Result<Answer, Failure> {
    let analyses = match (args.old, args.new) {
        (Some(old), Some(new)) => files(&old, &new)?,
        (Some(new), None) => {
            let new = read(&new, |document| Ok((Definition::from_value(&document)?, document)))?;
            on_runtime(live::compare(&args.connection, new, !args.no_evidence))?
        }
        (None, _) => return Ok(document().into()),
    };
    let colour = if std::io::stdout().is_terminal() { Colour::Yes } else { Colour::No };
    let verdict = worst(&analyses);
    let text = match args.output {
        Output::Text => analyses.iter().map(|analysis| text(analysis, colour)).collect::<Vec<_>>().join("\n"),
        Output::Json => to_json(&analyses),
    };
    Ok(Answer { text, findings: strategy::stops(args.strategy.into(), verdict) })
}

/// Compares two files.
fn files(old: &str, new: &str) -> Result<Vec<Analysis>, Failure> {
    if old == "-" && new == "-" {
        return Err("only one of the two can come from standard input".to_owned().into());
    }
    // Large documents are not copied.
    let taken = |file: &str| -> Result<Vec<Definition>, Failure> {
        let found = read(file, |document| Ok((Definition::take(document)?, ())))?;
        Ok(found.into_iter().map(|(definition, ())| definition).collect())
    };
    // Reading is most of the work, and the two have nothing to do with each other.
    let (before, after) = std::thread::scope(|scope| {
        let after = scope.spawn(|| taken(new));
        (taken(old), after.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (analyses, gone) = compare(before?, after?);
    for name in gone {
        story(&format!("{name} is in {old} only: what its removal deletes is no matter of this comparison"));
    }
    Ok(analyses)
}

fn worst(analyses: &[Analysis]) -> Severity {
    analyses.iter().map(Analysis::verdict).max().unwrap_or(Severity::Safe)
}

fn to_json(analyses: &[Analysis]) -> String {
    if let [one] = analyses {
        return pretty(&one.to_json());
    }
    let changes = analyses
        .iter()
        .flat_map(|analysis| analysis.changes.iter().map(|change| ChangeOf { change, crd: &analysis.name }));
    pretty(&Several { verdict: worst(analyses), changes: changes.collect() })
}

#[derive(Serialize)]
struct Several<'a> {
    verdict: Severity,
    changes: Vec<ChangeOf<'a>>,
}

#[derive(Serialize)]
struct ChangeOf<'a> {
    #[serde(flatten)]
    change: &'a Change,
    crd: &'a str,
}

/// Every new definition against the old one of its name, or, where there is one of each, against that. And the names of those that
/// are gone.
fn compare(mut old: Vec<Definition>, new: Vec<Definition>) -> (Vec<Analysis>, Vec<String>) {
    if let ([old], [new]) = (old.as_slice(), new.as_slice()) {
        return (vec![analyze(old, new)], Vec::new());
    }
    let mut analyses = Vec::new();
    for new in &new {
        match old.iter().position(|old| old.name == new.name) {
            Some(place) => analyses.push(analyze(&old.remove(place), new)),
            None => analyses.push(introduce(new)),
        }
    }
    (analyses, old.into_iter().map(|old| old.name).collect())
}

/// The definitions of a file, each made by `take`, which may keep something beside it.
fn read<T>(
    file: &str,
    take: impl Fn(Value) -> Result<(Definition, T), crd::Error>,
) -> Result<Vec<(Definition, T)>, Failure> {
    let mut text = String::new();
    let name = if file == "-" { "standard input" } else { file };
    let source: Box<dyn std::io::Read> = if file == "-" {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| format!("{name}: {error}"))?)
    };
    source.take(BYTES + 1).read_to_string(&mut text).map_err(|error| format!("{name}: {error}"))?;
    if text.len() as u64 > BYTES {
        return Err(format!("{name}: is larger than {} MiB", BYTES >> 20).into());
    }
    definitions(&text, name, take).map_err(Failure::from)
}

/// The definitions of a text. Other objects beside them are left out.
fn definitions<T>(
    text: &str,
    name: &str,
    take: impl Fn(Value) -> Result<(Definition, T), crd::Error>,
) -> Result<Vec<(Definition, T)>, String> {
    // JSON is YAML, too, but read many times faster as what it is.
    let documents = match serde_json::from_str::<Value>(text) {
        Ok(document) if document.is_object() => yaml_items(document),
        _ => yaml::parse_documents(text, name).map_err(|error| error.to_string())?,
    };
    let alone = documents.len() == 1;
    let mut seen = BTreeMap::new();
    let mut found = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        if !alone && document["kind"] != "CustomResourceDefinition" {
            continue;
        }
        let one = take(document).map_err(|error| format!("{name}: {error}"))?;
        if let Some(first) = seen.insert(one.0.name.clone(), index + 1) {
            let index = index + 1;
            return Err(format!("{name}: {} is there twice, as document {first} and {index}", one.0.name));
        }
        found.push(one);
    }
    if found.is_empty() {
        return Err(format!("{name}: has no CustomResourceDefinition"));
    }
    Ok(found)
}

/// The items of a list, as `kubectl get -o json` prints one.
fn yaml_items(mut document: Value) -> Vec<Value> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        _ => vec![document],
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    const WIDGET: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, maximum: 9}}}}
";

    /// Writes the two texts, and runs the command over them.
    fn run(old: &str, new: &str, more: &[&str]) -> Result<Answer, Failure> {
        let dir = std::env::temp_dir().join(format!(
            "crd-diff-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        std::fs::create_dir_all(&dir).unwrap();
        let (a, b) = (dir.join("a"), dir.join("b"));
        std::fs::write(&a, old).unwrap();
        std::fs::write(&b, new).unwrap();
        let line = ["crd-diff", a.to_str().unwrap(), b.to_str().unwrap()];
        let answer = answer(Line::parse_from(line.iter().chain(more)).args);
        std::fs::remove_dir_all(&dir).unwrap();
        answer
    }

    #[test]
    fn the_exit_code_is_what_the_strategy_would_do() {
        let tighter = WIDGET.replace("maximum: 9", "maximum: 5");
        let looser = WIDGET.replace("maximum: 9", "maximum: 10");
        let group = WIDGET.replace("group: example.com", "group: example.org");
        for (new, strategy, findings) in [
            (&tighter, "safe", true),
            (&tighter, "force", false),
            (&tighter, "skip", false),
            (&looser, "safe", false),
            (&group, "safe", true),
            (&group, "force", true),
            (&group, "skip", false),
        ] {
            let answer = run(WIDGET, new, &["--strategy", strategy]).unwrap();
            assert_eq!(answer.findings, findings, "{strategy}: {}", answer.text);
        }
        assert!(run(WIDGET, &tighter, &[]).unwrap().findings, "safe is the default");
    }

    #[test]
    fn json_is_verdict_and_changes() {
        let tighter = WIDGET.replace("maximum: 9", "maximum: 5");
        let answer = run(WIDGET, &tighter, &["-o", "json"]).unwrap();
        let value: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(
            value,
            json!({"verdict": "Dangerous", "changes": [{
                "kind": "TightenValidation",
                "path": "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.size.maximum",
                "severity": "Dangerous",
                "message": "v1 .spec.size: maximum changed from 9 to 5",
            }]})
        );
    }

    #[test]
    fn definitions_of_bundles_are_paired_by_name() {
        let gadget = WIDGET.replace("widget", "gadget").replace("Widget", "Gadget");
        let other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n";
        let old = format!("{WIDGET}---\n{gadget}---\n{other}");
        let new = format!("{}---\n{WIDGET}", gadget.replace("maximum: 9", "maximum: 5"));
        let answer = run(&old, &new, &["-o", "json"]).unwrap();
        let value: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!(
            (&value["verdict"], &value["changes"][0]["crd"]),
            (&json!("Dangerous"), &json!("gadgets.example.com"))
        );
        assert_eq!(value["changes"].as_array().unwrap().len(), 1);
        // A new one can only be refused.
        let bad = gadget.replace("type: integer", "type: int");
        assert!(!run(WIDGET, &format!("{WIDGET}---\n{gadget}"), &[]).unwrap().findings);
        assert!(run(WIDGET, &format!("{WIDGET}---\n{bad}"), &[]).unwrap().findings);
    }

    #[test]
    fn what_cannot_be_read_is_an_error_that_names_the_file() {
        let twice = format!("{WIDGET}---\n{WIDGET}");
        for (text, wanted) in [
            ("a: [", "/a:1:"),
            ("{}", "`kind` is missing"),
            (&twice, "widgets.example.com is there twice, as document 1 and 2"),
            (&WIDGET.replace("/v1", "/v1beta1"), "no server takes any more"),
        ] {
            let failure = run(text, WIDGET, &[]).unwrap_err();
            assert_eq!(failure.code, 2);
            assert!(failure.message.contains(wanted), "{}", failure.message);
        }
        let missing = Line::parse_from(["crd-diff", "/nowhere/a", "/nowhere/b"]).args;
        assert_eq!(answer(missing).unwrap_err().code, 2);
    }

    #[test]
    fn json_lists_of_kubectl_are_read() {
        let one = yaml::parse_documents(WIDGET, "t").unwrap().remove(0);
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [one]}).to_string();
        let found = definitions(&list, "t", |document| Ok((Definition::take(document)?, ()))).unwrap();
        assert_eq!(found[0].0.name, "widgets.example.com");
    }

    #[test]
    fn the_kinds_are_explained_on_demand() {
        let answer = answer(Line::parse_from(["crd-diff", "--kinds"]).args).unwrap();
        assert!(answer.text.starts_with("# Changes of CustomResourceDefinitions\n") && !answer.findings);
    }
}
