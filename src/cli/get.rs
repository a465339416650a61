//! `get`: what a stored revision says, read from the cluster.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};

use super::cluster::{Connection, keeping, on_runtime};
use crate::api::SherpackRelease;
use crate::cluster::{describe, status_code};
use crate::manifest::yaml;
use crate::pack::layers;
use crate::release::Record;
use crate::storage::unsealed::{self, Found};
use crate::storage::{Keeping, Stores};

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
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "stdout is the result, stderr the story")]
pub(super) fn run(args: Args) -> ExitCode {
    let of = match &args.what {
        What::Values { of, .. } | What::Manifest { of } | What::Notes { of } => of,
    };
    let text = on_runtime(find(of)).and_then(|record| show(&args.what, &record));
    match text {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(Failure { code, message }) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

/// An exit code and what to say.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

/// The cluster cannot be asked.
impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { code: 2, message }
    }
}

async fn find(of: &Of) -> Result<Record, Failure> {
    let (client, default_namespace) = of.connection.open().await?;
    let namespace = of.namespace.clone().unwrap_or(default_namespace);
    let (namespace, release, keeping) = names(&client, &namespace, &of.release).await?;
    let stores = Stores::new(client, unsealed::no_key(), of.storage_dir.clone());
    let found = unsealed::find(&stores.of(&keeping), &namespace, &release, of.revision).await;
    match found.map_err(|error| error.to_string())? {
        Found::Record(record) => Ok(*record),
        Found::Unreadable(unreadable) => Err(Failure { code: 1, message: unreadable.to_string() }),
        Found::Nothing => {
            let revision =
                of.revision.map_or_else(|| "no revision".to_owned(), |n| format!("no revision {n}"));
            let message = format!("there is {revision} of a release {release} in namespace {namespace}");
            Err(Failure { code: 1, message })
        }
    }
}

/// Namespace and name of the release and where its records are: as its SherpackRelease says, else as they were given.
async fn names(client: &Client, namespace: &str, name: &str) -> Result<(String, String, Keeping), Failure> {
    let api: Api<SherpackRelease> = Api::namespaced(client.clone(), namespace);
    let given = || (namespace.to_owned(), name.to_owned(), Keeping::default());
    match api.get_opt(name).await {
        Ok(Some(found)) => {
            Ok((found.target_namespace().to_owned(), found.release_name().to_owned(), keeping(&found)))
        }
        Ok(None) => Ok(given()),
        // A release of another tool can be looked at by whoever may read its record.
        Err(error) if matches!(status_code(&error), Some(403 | 404)) => Ok(given()),
        Err(error) => Err(describe(&error).into()),
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
        assert_eq!(shown(&["notes", "web"], |_| ()).unwrap_err().code, 1);
    }
}
