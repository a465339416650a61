//! `health`: judges the documents of a file as if they were live objects.

use std::io::Read as _;
use std::process::ExitCode;

use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::health::{Status, assess};
use crate::manifest::{ObjectId, group_of, yaml};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// YAML or JSON of live objects, for example from `kubectl get -o yaml`; `-` reads standard input.
    file: String,
    /// How the result is printed.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// One line per object.
    Table,
    /// A JSON list of objects with `object`, `status`, `reason`, `message`.
    Json,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    object: String,
    status: Status,
    reason: String,
    message: String,
}

/// Exit code 0 when every object is Current or Suspended, 1 when one is not, 2 when the file cannot be read.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "stdout is the result, stderr the story")]
pub(super) fn run(args: Args) -> ExitCode {
    let documents = match read(&args.file) {
        Ok(documents) => documents,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let rows = judge(&documents, Timestamp::now());
    match args.output {
        Output::Table => print!("{}", table(&rows)),
        // Strings in a struct always serialise.
        Output::Json => println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default()),
    }
    ExitCode::from(u8::from(rows.iter().any(|row| !row.status.is_done())))
}

fn read(file: &str) -> Result<Vec<Value>, String> {
    let (name, text) = if file == "-" {
        let mut text = String::new();
        ("standard input", std::io::stdin().read_to_string(&mut text).map(|_| text))
    } else {
        (file, std::fs::read_to_string(file))
    };
    let text = text.map_err(|error| format!("{name}: {error}"))?;
    let documents = yaml::parse_lenient(&text, name).map_err(|error| error.to_string())?;
    for (i, document) in documents.iter().enumerate() {
        for field in ["apiVersion", "kind"] {
            if !document.get(field).is_some_and(Value::is_string) {
                return Err(format!("{name}: object {} has no `{field}`: health needs whole objects", i + 1));
            }
        }
    }
    Ok(documents)
}

fn judge(documents: &[Value], now: Timestamp) -> Vec<Row> {
    documents
        .iter()
        .map(|document| {
            let health = assess(document, None, now);
            Row {
                object: id(document).to_string(),
                status: health.status,
                reason: health.reason,
                message: health.message,
            }
        })
        .collect()
}

/// Lenient: a fixture without a name is judged too.
fn id(document: &Value) -> ObjectId {
    let text = |pointer| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    ObjectId {
        group: group_of(text("/apiVersion")).to_owned(),
        kind: text("/kind").to_owned(),
        namespace: Some(text("/metadata/namespace")).filter(|ns| !ns.is_empty()).map(str::to_owned),
        name: text("/metadata/name").to_owned(),
    }
}

fn table(rows: &[Row]) -> String {
    let width =
        |head: &str, cell: fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or(0).max(head.len());
    let object = width("OBJECT", |row| row.object.len());
    let reason = width("REASON", |row| row.reason.len());
    let mut out = format!("{:object$}  {:11}  {:reason$}  MESSAGE\n", "OBJECT", "STATUS", "REASON");
    for row in rows {
        let message = row.message.replace('\n', " ");
        let line = format!("{:object$}  {:11}  {:reason$}  {message}", row.object, row.status, row.reason);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(yaml: &str) -> Vec<Row> {
        judge(&yaml::parse_documents(yaml, "t").unwrap(), "2026-01-01T00:00:00Z".parse().unwrap())
    }

    const TWO: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: apps}}
- {apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, status: {phase: Pending}}
";

    #[test]
    fn each_item_of_a_list_gets_a_row() {
        let rows = rows(TWO);
        assert_eq!(
            serde_json::to_value(&rows).unwrap(),
            serde_json::json!([
                {"object": "ConfigMap apps/a", "status": "Current", "reason": "Current", "message": "exists"},
                {"object": "PersistentVolumeClaim data", "status": "InProgress", "reason": "NotBound", "message": "is Pending"},
            ])
        );
    }

    #[test]
    fn the_table_is_aligned() {
        assert_eq!(
            table(&rows(TWO)),
            "\
OBJECT                      STATUS       REASON    MESSAGE
ConfigMap apps/a            Current      Current   exists
PersistentVolumeClaim data  InProgress   NotBound  is Pending
"
        );
    }
}
