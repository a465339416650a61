//! `get`: what a stored revision says, read from the cluster.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};

use crate::api::SherpackRelease;
use crate::cluster::client::{self, ApiObserver};
use crate::cluster::{describe, status_code};
use crate::manifest::yaml;
use crate::pack::layers;
use crate::release::Record;
use crate::storage::SecretRecords;
use crate::storage::unsealed::{self, Found};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The values that the revision was rendered with, defaults of the pack included. Values from Secrets are shown:
    /// whoever may read the revision record may read them.
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
    /// Use this kubeconfig [default: $KUBECONFIG, ~/.kube/config, the pod's service account]
    #[arg(long, env = "SHERPACK_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig [default: its current context]
    #[arg(long, env = "SHERPACK_CONTEXT", value_name = "NAME")]
    context: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Yaml,
    Json,
}

/// Exit code 0 when it was printed, 1 when there is nothing to print, 2 when the cluster cannot be asked.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "stdout is the result, stderr the story")]
pub(super) fn run(args: Args) -> ExitCode {
    let of = match &args.what {
        What::Values { of, .. } | What::Manifest { of } | What::Notes { of } => of,
    };
    let text = read(of).and_then(|record| show(&args.what, &record));
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err((code, message)) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

/// An exit code and what to say.
type Failure = (u8, String);

fn read(of: &Of) -> Result<Record, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| (2, format!("no async runtime: {error}")))?;
    runtime.block_on(find(of))
}

async fn find(of: &Of) -> Result<Record, Failure> {
    let unusable = |error: kube::Error| (2, describe(&error));
    let config =
        client::load_config(of.kubeconfig.as_deref(), of.context.as_deref()).await.map_err(unusable)?;
    let namespace = of.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = client::build(config, Arc::new(Silent)).map_err(unusable)?;
    let (namespace, release) = names(&client, &namespace, &of.release).await?;
    let records = SecretRecords::new(client, unsealed::no_key());
    let found = unsealed::find(&records, &namespace, &release, of.revision).await;
    match found.map_err(|error| (2, error.to_string()))? {
        Found::Record(record) => Ok(*record),
        Found::Unreadable(unreadable) => Err((1, unreadable.to_string())),
        Found::Nothing => {
            let revision =
                of.revision.map_or_else(|| "no revision".to_owned(), |n| format!("no revision {n}"));
            Err((1, format!("there is {revision} of a release {release} in namespace {namespace}")))
        }
    }
}

/// Namespace and name of the release: as its SherpackRelease says, else as they were given.
async fn names(client: &Client, namespace: &str, name: &str) -> Result<(String, String), Failure> {
    let api: Api<SherpackRelease> = Api::namespaced(client.clone(), namespace);
    match api.get_opt(name).await {
        Ok(Some(found)) => Ok((found.target_namespace().to_owned(), found.release_name().to_owned())),
        Ok(None) => Ok((namespace.to_owned(), name.to_owned())),
        // A release of another tool can be looked at by whoever may read its record.
        Err(error) if matches!(status_code(&error), Some(403 | 404)) => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        Err(error) => Err((2, describe(&error))),
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
                documents.map(|documents| pretty(&Value::Array(documents))).map_err(|e| (1, e.to_string()))
            }
            Some(Output::Yaml) | None => Ok(with_newline(&record.manifest)),
        },
        What::Notes { of } => match (of.output, &record.notes) {
            (None, None) => Err((1, format!("revision {} has no notes", record.version))),
            (None, Some(notes)) => Ok(with_newline(notes)),
            (Some(Output::Yaml), notes) => Ok(yaml::to_yaml(&json!({ "notes": notes }))),
            (Some(Output::Json), notes) => Ok(pretty(&json!({ "notes": notes }))),
        },
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

fn pretty(value: &Value) -> String {
    // A Value always serialises.
    with_newline(&serde_json::to_string_pretty(value).unwrap_or_default())
}

fn with_newline(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// Nobody counts the calls of a command.
struct Silent;

impl ApiObserver for Silent {
    fn record(&self, _verb: &'static str, _code: u16, _seconds: f64) {}
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
            serde_json::from_str(include_str!("../release/golden/record_minimal.json")).unwrap();
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
        assert_eq!(shown(&["notes", "web"], |_| ()).unwrap_err().0, 1);
    }
}
