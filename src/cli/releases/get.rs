//! `get`: what a stored revision says, read from the cluster.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::duration;
use crate::cli::cluster::{Connection, Named, on_runtime};
use crate::cli::output::answer::{Answer, Failure, finish, pretty};
use crate::cli::output::table::columns;
use crate::manifest::yaml;
use crate::pack::layers;
use crate::release::{Hook, Record};
use crate::storage::Stores;
use crate::storage::unverified::{self, Found};

#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The values that the revision was rendered with, defaults of the pack included. Values from Secrets are shown:
    /// users who may read the revision record may read them.
    Values {
        #[command(flatten)]
        of: Of,
        /// Print where each value came from instead.
        #[arg(long)]
        sources: bool,
    },
    /// The manifest as it was applied.
    Manifest {
        #[command(flatten)]
        of: Of,
    },
    /// The notes of the pack.
    Notes {
        #[command(flatten)]
        of: Of,
    },
    /// The hooks of the pack, in the order in which they run.
    Hooks {
        #[command(flatten)]
        of: Of,
    },
}

#[derive(Debug, clap::Args)]
struct Of {
    /// Name of the SherpackRelease, or of the release itself.
    release: String,
    /// Namespace of the SherpackRelease [default: that of the kubeconfig's context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Revision [default: the newest one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    revision: Option<u32>,
    /// Format of the output [default: text for people, which is YAML for values and manifest]
    #[arg(short, long, value_enum)]
    output: Option<Output>,
    /// Directory of revisions that are kept in files, as given to the operator
    #[arg(long, env = "SHERPACK_STORAGE_DIR", value_name = "DIR")]
    storage_dir: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Yaml,
    Json,
}

/// Exit code 0 when it was printed, 1 when there is nothing to print, 2 when the cluster cannot be asked.
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    let of = match &args.what {
        What::Values { of, .. } | What::Manifest { of } | What::Notes { of } | What::Hooks { of } => of,
    };
    finish(on_runtime(find(of)).and_then(|record| show(&args.what, &record)).map(Answer::from))
}

async fn find(of: &Of) -> Result<Record, Failure> {
    let (client, default_namespace) = of.connection.open().await?;
    let namespace = of.namespace.clone().unwrap_or(default_namespace);
    let Named { namespace, name: release, keeping, .. } =
        Named::find(&client, &namespace, &of.release).await?;
    let stores = Stores::new(client, unverified::no_key(), of.storage_dir.clone());
    let found = unverified::find(&stores.of(&keeping), &namespace, &release, of.revision).await;
    match found.map_err(|error| error.to_string())? {
        Found::Record(stored) => Ok(stored.record),
        Found::Unreadable(unreadable) => Err(Failure { code: 1, message: unreadable.to_string() }),
        Found::Nothing => {
            let revision =
                of.revision.map_or_else(|| "no revision".to_owned(), |n| format!("no revision {n}"));
            let message = format!("there is {revision} of a release {release} in namespace {namespace}");
            Err(Failure { code: 1, message })
        }
    }
}

/// The text for stdout.
fn show(what: &What, record: &Record) -> Result<String, Failure> {
    match what {
        What::Values { of, sources: false } => Ok(match of.output {
            Some(Output::Json) => pretty(&record.values),
            Some(Output::Yaml) | None => yaml::to_yaml(&record.values),
        }),
        What::Values { of, sources: true } => Ok(sources(record, of.output)),
        What::Manifest { of } => match of.output {
            Some(Output::Json) => {
                let documents = yaml::parse_lenient(&record.manifest, "the manifest");
                documents
                    .map(|documents| pretty(&Value::Array(documents)))
                    .map_err(|error| Failure { code: 1, message: error.to_string() })
            }
            Some(Output::Yaml) | None => Ok(with_newline(&record.manifest)),
        },
        What::Notes { of } => match (of.output, &record.notes) {
            (None, None) => {
                Err(Failure { code: 1, message: format!("revision {} has no notes", record.version) })
            }
            (None, Some(notes)) => Ok(with_newline(notes)),
            (Some(Output::Yaml), notes) => Ok(yaml::to_yaml(&json!({ "notes": notes }))),
            (Some(Output::Json), notes) => Ok(pretty(&json!({ "notes": notes }))),
        },
        What::Hooks { of } => hooks(record, of.output),
    }
}

/// Path and origin of every value; the value itself only where a machine reads it.
fn sources(record: &Record, output: Option<Output>) -> String {
    let leaves = layers::leaves(&record.values, &record.values_provenance.sources);
    let Some(output) = output else {
        let width = leaves.iter().map(|(path, ..)| path.chars().count()).max().unwrap_or(0).max(4);
        let mut text = format!("{:width$}  SOURCE\n", "PATH");
        for (path, _, source) in &leaves {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{path:width$}  {}", layers::describe(*source));
        }
        return text;
    };
    let rows: Vec<Value> = leaves
        .iter()
        .map(|(path, value, source)| {
            json!({"path": path, "value": value, "source": layers::describe(*source)})
        })
        .collect();
    match output {
        Output::Json => pretty(&Value::Array(rows)),
        Output::Yaml => yaml::to_yaml(&Value::Array(rows)),
    }
}

/// Hooks by weight, then name. Not what they are made of: that may be secret.
fn hooks(record: &Record, output: Option<Output>) -> Result<String, Failure> {
    let mut hooks: Vec<&Hook> = record.hooks.iter().collect();
    hooks.sort_by(|a, b| (a.weight, &a.name).cmp(&(b.weight, &b.name)));
    // Another tool's hook may be anything; what it is can be left open.
    let kind = |hook: &Hook| {
        let documents = yaml::parse_lenient(&hook.resource, "the hook").unwrap_or_default();
        let kind = documents.first().and_then(|document| document["kind"].as_str());
        kind.unwrap_or("-").to_owned()
    };
    let Some(output) = output else {
        if hooks.is_empty() {
            return Err(Failure::finding(format!("revision {} has no hooks", record.version)));
        }
        let phases = |hook: &Hook| -> String {
            let words: Vec<String> = hook.phases.iter().map(|phase| word(&json!(phase))).collect();
            words.join(",")
        };
        let rows: Vec<[String; 6]> = hooks
            .iter()
            .map(|hook| {
                let timeout = duration::format(Duration::from_secs(hook.timeout));
                let failure = word(&json!(hook.on_failure));
                let object = format!("{}/{}", kind(hook), hook.name);
                [object, phases(hook), hook.weight.to_string(), timeout, failure, word(&json!(hook.cleanup))]
            })
            .collect();
        return Ok(columns(["HOOK", "PHASES", "WEIGHT", "TIMEOUT", "ON FAILURE", "CLEANUP"], &rows));
    };
    let rows: Vec<Value> = hooks
        .iter()
        .map(|hook| {
            json!({
                "name": hook.name, "kind": kind(hook), "phases": hook.phases, "weight": hook.weight,
                "timeout": hook.timeout, "onFailure": hook.on_failure, "cleanup": hook.cleanup,
            })
        })
        .collect();
    Ok(match output {
        Output::Json => pretty(&rows),
        Output::Yaml => yaml::to_yaml(&Value::Array(rows)),
    })
}

/// A text as it is, anything else as JSON.
fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn with_newline(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn shown(line: &[&str], change: impl FnOnce(&mut Record)) -> Result<String, Failure> {
        let mut record: Record =
            serde_json::from_str(include_str!("../../release/golden/record_minimal.json")).unwrap();
        change(&mut record);
        let line = Line::try_parse_from([&["get"], line].concat()).unwrap();
        show(&line.args.what, &record)
    }

    fn with_values(record: &mut Record) {
        record.values = json!({"image": {"tag": "1", "pull": "Always"}, "hosts": ["a"]});
        record.values_provenance.sources = [
            ("".to_owned(), json!({"type": "pack-default"})),
            ("image.tag".to_owned(), json!({"type": "values-file", "path": "Secret/apps/v#tag", "line": 0})),
        ]
        .into();
    }

    #[test]
    fn values_are_printed_as_yaml_or_json() {
        let yaml = shown(&["values", "web"], with_values).unwrap();
        assert_eq!(yaml, "hosts:\n- a\nimage:\n  pull: Always\n  tag: '1'\n".replace('\'', "\""));
        let json = shown(&["values", "web", "-o", "json"], with_values).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["image"], json!({"tag": "1", "pull": "Always"}));
    }

    #[test]
    fn sources_name_every_value_once() {
        let table = shown(&["values", "web", "--sources"], with_values).unwrap();
        let expected = "\
PATH        SOURCE
hosts[0]    defaults of the pack
image.pull  defaults of the pack
image.tag   Secret/apps/v#tag
";
        assert_eq!(table, expected);
        let json = shown(&["values", "web", "--sources", "-o", "json"], with_values).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json[2], json!({"path": "image.tag", "value": "1", "source": "Secret/apps/v#tag"}));
        // A record of another tool tells nothing of sources.
        let table = shown(&["values", "web", "--sources"], |record| record.values = json!({"a": 1})).unwrap();
        assert_eq!(table, "PATH  SOURCE\na     unknown\n");
    }

    #[test]
    fn manifest_and_notes_are_printed_as_they_are() {
        let manifest = |record: &mut Record| record.manifest = "a: 1\n---\nb: 2".to_owned();
        assert_eq!(shown(&["manifest", "web"], manifest).unwrap(), "a: 1\n---\nb: 2\n");
        let json: Value =
            serde_json::from_str(&shown(&["manifest", "web", "-o", "json"], manifest).unwrap()).unwrap();
        assert_eq!(json, json!([{"a": 1}, {"b": 2}]));
        let notes = |record: &mut Record| record.notes = Some("open it".to_owned());
        assert_eq!(shown(&["notes", "web"], notes).unwrap(), "open it\n");
        assert_eq!(shown(&["notes", "web"], |_| ()).unwrap_err().code, 1);
    }

    #[test]
    fn hooks_are_listed_in_the_order_in_which_they_run() {
        let with_hooks = |record: &mut Record| {
            record.hooks = serde_json::from_value(json!([
                {"name": "late", "phases": ["post-install", "post-upgrade"], "weight": 5, "timeout": 90,
                 "resource": "kind: Job", "cleanup": "on-success"},
                {"name": "b", "phases": ["pre-install"], "weight": -1, "resource": "kind: Job"},
                {"name": "a", "phases": ["test"], "weight": -1, "resource": "kind: Secret\ndata: {a: c2VjcmV0}",
                 "onFailure": {"retry": {"max_attempts": 2, "backoff": 1}}},
            ]))
            .unwrap();
        };
        let table = shown(&["hooks", "web"], with_hooks).unwrap();
        let expected = "\
HOOK      PHASES                     WEIGHT  TIMEOUT  ON FAILURE                                CLEANUP
Secret/a  test                       -1      5m       {\"retry\":{\"backoff\":1,\"max_attempts\":2}}  before-next-run
Job/b     pre-install                -1      5m       fail-operation                            before-next-run
Job/late  post-install,post-upgrade  5       1m30s    fail-operation                            on-success
";
        assert_eq!(table, expected);
        let json: Value =
            serde_json::from_str(&shown(&["hooks", "web", "-o", "json"], with_hooks).unwrap()).unwrap();
        assert_eq!(json[2]["phases"], json!(["post-install", "post-upgrade"]));
        let yaml = shown(&["hooks", "web", "-o", "yaml"], with_hooks).unwrap();
        assert_eq!(yaml::parse_value(&yaml, "stdout").unwrap(), json);
        assert!(!yaml.contains("c2VjcmV0"), "{yaml}");
        assert_eq!(shown(&["hooks", "web"], |_| ()).unwrap_err().code, 1);
        assert_eq!(shown(&["hooks", "web", "-o", "json"], |_| ()).unwrap(), "[]\n");
    }
}
