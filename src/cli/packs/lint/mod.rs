//! `lint`: what is wrong with a pack, as far as that can be said without a cluster.

mod annotations;
mod crds;

use std::collections::HashMap;
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use super::remote::unread::Unread;
use super::render;
use crate::api::{names, reasons};
use crate::cli::output::answer::Failure;
use crate::manifest::{self, Object};
use crate::pack::render::{Error, Rendered};
use crate::pack::{self, Pack};
use crate::plan::{self, Occasion};

/// Findings of one kind that are looked for. A pack with more mistakes has a reason.
const MANY: usize = 50;

#[derive(Debug, clap::Args)]
// The flattened arguments have the group of this name.
#[group(skip)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    render: render::Args,
    /// How the findings are printed.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// One line per finding.
    Table,
    /// A JSON list of objects with `code`, `severity`, `file`, `line`, `message`; for definitions also `location` (crds, templates or
    /// dependency) and `dependency`.
    Json,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// The operator refuses it, or does not do what it says.
    Error,
    /// It is probably not meant.
    Warning,
    /// Worth knowing.
    Info,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// PascalCase; where the operator would refuse the pack, its reason.
    code: &'static str,
    severity: Severity,
    /// Path in the pack; empty when it concerns the pack as a whole.
    file: String,
    /// From 1; 0 when unknown.
    line: u64,
    message: String,
    /// Of a definition: `crds`, `templates` or `dependency`.
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<&'static str>,
    /// The pack inside that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    dependency: Option<String>,
}

impl Finding {
    fn new(code: &'static str, severity: Severity, file: &str, message: impl Into<String>) -> Self {
        let (file, message) = (file.to_owned(), message.into());
        Self { code, severity, file, line: 0, message, location: None, dependency: None }
    }
}

/// Exit code 0 when nothing is wrong, 1 when there is a finding of severity error, 2 when the pack cannot be read.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "stdout is the result, stderr the story")]
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    let findings = match lint(&args.render) {
        Ok(findings) => findings,
        Err(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(2);
        }
    };
    match args.output {
        Output::Table => print!("{}", table(&findings)),
        // Strings in a struct always serialise.
        Output::Json => println!("{}", serde_json::to_string_pretty(&findings).unwrap_or_default()),
    }
    let wrong = findings.iter().any(|finding| finding.severity == Severity::Error);
    if findings.is_empty() {
        eprintln!("nothing is wrong");
    }
    ExitCode::from(u8::from(wrong))
}

fn table(findings: &[Finding]) -> String {
    let one = |finding: &Finding| {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
        };
        let place = match (finding.file.as_str(), finding.line) {
            ("", _) => String::new(),
            (file, 0) => format!("{file}: "),
            (file, line) => format!("{file}:{line}: "),
        };
        format!("{severity:7}  {}  {place}{}\n", finding.code, finding.message.replace('\n', " "))
    };
    findings.iter().map(one).collect()
}

fn lint(args: &render::Args) -> Result<Vec<Finding>, String> {
    let values = render::read_values(args).map_err(|(_, message)| message)?;
    let mut pack = match args.read(&values) {
        Ok(pack) => pack,
        Err(Unread::NoPack(_, error)) => return Ok(vec![of_pack(&error)]),
        Err(Unread::Failed(Failure { message, .. })) => return Err(message),
    };
    let mut findings = Vec::new();
    warnings(&pack, "", &mut findings);
    for unfit in crds::files(&pack, "", &mut findings) {
        // It is told of, and must not hide what else there is.
        pack.remove(&unfit);
    }
    if let Some(rendered) = rendered(args, pack.clone(), &values, &mut findings) {
        crds::rendered(&pack, &rendered, &mut findings);
        objects(rendered, args.namespace(), &mut findings);
    }
    findings
        .sort_by(|a, b| (a.severity, &a.file, a.line, a.code).cmp(&(b.severity, &b.file, b.line, b.code)));
    findings.dedup();
    Ok(findings)
}

/// What reading said of the pack and of those inside of it.
fn warnings(pack: &Pack, prefix: &str, findings: &mut Vec<Finding>) {
    for warning in &pack.warnings {
        let (file, message) = warning.split_once(": ").unwrap_or(("", warning));
        let code = if warning.contains("unknown key") { "UnknownKey" } else { "FileIgnored" };
        let file = if file.is_empty() { String::new() } else { format!("{prefix}{file}") };
        findings.push(Finding::new(code, Severity::Warning, &file, message));
    }
    for subpack in &pack.subpacks {
        let path = format!("{prefix}{}", subpack.path);
        match &subpack.content {
            Ok(inner) => warnings(inner, &format!("{path}/"), findings),
            // Only a render knows whether it is needed.
            Err(error) => {
                findings.push(Finding::new("DependencyInvalid", Severity::Warning, &path, error.to_string()));
            }
        }
        if subpack.content.as_ref().is_ok_and(|inner| {
            inner.kind == pack::Kind::Library && inner.files.keys().any(|path| is_output(path))
        }) {
            let message =
                "a library below charts/ renders nothing: only names that start with `_` make sense";
            findings.push(Finding::new("LibraryTemplates", Severity::Warning, &path, message));
        }
    }
}

fn is_output(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.starts_with("templates/")
        && !name.starts_with('_')
        && !name.to_ascii_lowercase().starts_with("notes.")
}

/// Renders. After each mistake once more without the template that has it, so that others are found too.
fn rendered(
    args: &render::Args,
    mut pack: Pack,
    values: &Value,
    findings: &mut Vec<Finding>,
) -> Option<Rendered> {
    for attempt in 0..MANY {
        let error = match render::render_with(args, &pack, values) {
            Ok(rendered) if attempt == 0 => return Some(rendered),
            // Half of a manifest would be blamed for what is missing.
            Ok(_) => return None,
            Err(error) => error,
        };
        let finding = of_render(&error);
        let file = finding.file.clone();
        findings.push(finding);
        let go_on = match &error {
            Error::Pack(pack::Error::Violations { .. }) => pack.schema.take().is_some(),
            _ => pack.remove(&file),
        };
        if !go_on {
            return None;
        }
    }
    None
}

/// A mistake that was found while the pack was read.
fn of_pack(error: &pack::Error) -> Finding {
    let file = match error {
        pack::Error::Schema { file, .. }
        | pack::Error::SchemaReference { file, .. }
        | pack::Error::Values { file, .. }
        | pack::Error::Violations { file, .. } => file.as_str(),
        pack::Error::Definition { .. } | pack::Error::Syntax { .. } | pack::Error::NoPackYaml => "Pack.yaml",
        pack::Error::ManifestMismatch { .. } => "MANIFEST",
        pack::Error::DependencyMissing { .. } | pack::Error::DependencyInvalid { .. } => "Pack.yaml",
        _ => "",
    };
    // Some know the line, and write it behind the name.
    let (file, line) = match file.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
        Some((file, Ok(line))) => (file, line),
        _ => (file, 0),
    };
    let message = error.to_string();
    let message = message.strip_prefix(&format!("{file}: ")).unwrap_or(&message).to_owned();
    Finding { line, ..Finding::new(error.reason(), Severity::Error, file, message) }
}

fn of_render(error: &Error) -> Finding {
    let (file, line, message) = match error {
        Error::Template { file, line, message, .. } | Error::Limit { file, line, message, .. } => {
            (file.clone(), *line as u64, message.clone())
        }
        // The line is that of the output.
        Error::Manifest(manifest::Error::Yaml { file, line, message, .. }) => {
            (file.clone(), 0, format!("line {line} of its output: {message}"))
        }
        Error::Manifest(manifest::Error::NotAnObject { file, .. }) => (file.clone(), 0, error.to_string()),
        Error::Pack(error) => return of_pack(error),
        Error::KubeVersion { .. } | Error::KubeVersionRange { .. } | Error::Library { .. } => {
            ("Pack.yaml".to_owned(), 0, error.to_string())
        }
        _ => (String::new(), 0, error.to_string()),
    };
    Finding { line, ..Finding::new(error.reason(), Severity::Error, &file, message) }
}

/// Judges what was rendered.
fn objects(rendered: Rendered, namespace: &str, findings: &mut Vec<Finding>) {
    let shipped = rendered.definitions.into_iter().map(|shipped| (shipped.body, shipped.file));
    let all: Vec<(Value, String)> =
        shipped.chain(rendered.objects.into_iter().zip(rendered.origins)).collect();
    let names = annotations::names(all.iter().map(|(document, _)| document));
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut complete = Vec::new();
    for (mut document, file) in all {
        let before = findings.len();
        annotations::check(&document, &names, &file, findings);
        let wrong = findings.iter().skip(before).any(|finding| finding.code == reasons::ANNOTATION_INVALID);
        if let Err(error) = render::complete(&mut document, namespace) {
            findings.push(Finding::new(error.reason(), Severity::Error, &file, error.to_string()));
            continue;
        }
        let Ok(object) = Object::from_value(document) else { continue };
        if let Err(error) = plan::probes::probe(&object)
            && !wrong
        {
            findings.push(Finding::new(error.reason(), Severity::Error, &file, error.to_string()));
        }
        if plan::has_ttl(&object) && !is_hook(&object) {
            let message = format!(
                "{}: it runs once in a revision, and spec.ttlSecondsAfterFinished is set only when its end is written down; a \
                 Job that is to run with each upgrade is a hook",
                object.id
            );
            findings.push(Finding::new("JobTtl", Severity::Info, &file, message));
        }
        if let Some(first) = seen.insert(object.id.to_string(), file.clone()) {
            let message = format!("{} is also in {first}", object.id);
            findings.push(Finding::new("DuplicateObject", Severity::Error, &file, message));
        }
        complete.push(object);
    }
    // What the annotations say one by one is said already; here what they say together.
    let told = |code| findings.iter().any(|finding| finding.code == code);
    if let Err(error) = plan::split(complete).and_then(|parts| plan::roll_out(&parts, Occasion::Install))
        && !told(error.reason())
    {
        findings.push(Finding::new(error.reason(), Severity::Error, "", error.to_string()));
    }
}

fn is_hook(object: &Object) -> bool {
    [names::HOOK, names::HELM_HOOK].iter().any(|key| object.annotation(key).is_some())
}

#[cfg(test)]
mod tests;
