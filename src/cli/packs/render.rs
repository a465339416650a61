use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::remote::named::{self, Elsewhere};
use super::remote::unread::Unread;
use crate::cli::output::answer::Failure;
use crate::manifest::{self, Object, group_of, yaml};
use crate::pack::render::{
    self, Capabilities, Input, Lookup, NoCluster, Rendered, Secrets, Source, Stop, render,
};
use crate::pack::{self, Pack, values};
use crate::plan;
use crate::source;

/// What to assume of a cluster that is not asked: the oldest version that the operator supports.
const KUBE_VERSION: &str = "v1.33.0";
/// Group versions that every cluster of that version serves.
const API_VERSIONS: [&str; 20] = [
    "v1",
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
];

#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Args {
    /// Pack: a directory with Pack.yaml, an archive, its http:// or https:// URL, oci://HOST/PATH of a registry, also with :TAG or
    /// @DIGEST behind it, or with --repository its name there.
    pub(in crate::cli) pack: PathBuf,
    /// Name of the release; default: the name of the pack.
    #[arg(long)]
    pub(in crate::cli) name: Option<String>,
    /// Namespace of the release [default: `default`; with a cluster that of the kubeconfig's context]
    #[arg(short, long)]
    pub(in crate::cli) namespace: Option<String>,
    /// File with values, laid on the defaults of the pack; may be repeated, the last one wins.
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// One value, laid on everything else: a.b=c; `\.` is a dot in a key, `a[0]` a list item. `true`,
    /// `false`, `null` (removes the key) and plain integers are typed, everything else is text.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// What `now()` gives, so that the output is the same each time.
    #[arg(long, value_name = "TIME", default_value = "2000-01-01T00:00:00Z")]
    now: Timestamp,
    /// `uuidv4()` and `generate_secret()` are computed from this text, so that the output is the same each time: what they
    /// give here is no secret. The operator draws random ones.
    #[arg(long, value_name = "TEXT", default_value = "")]
    seed: String,
    /// Version of Kubernetes that the templates see.
    #[arg(long, value_name = "VERSION", default_value = KUBE_VERSION)]
    kube_version: String,
    /// API group version that the templates see, beside those of every cluster; may be repeated.
    #[arg(long = "api-version", value_name = "GROUP/VERSION")]
    api_versions: Vec<String>,
    #[command(flatten)]
    from: Elsewhere,
}

/// `render`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Command {
    #[command(flatten)]
    args: Args,
    /// Also the definitions below `crds/`, before everything else. The operator applies them first.
    #[arg(long)]
    include_crds: bool,
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line prints")]
pub(in crate::cli) fn run(command: Command) -> ExitCode {
    let Command { args, include_crds } = command;
    let (pack, rendered) = match execute(&args) {
        Ok(done) => done,
        Err((code, message)) => {
            eprintln!("error: {message}");
            return ExitCode::from(code);
        }
    };
    for warning in &pack.warnings {
        eprintln!("warning: {warning}");
    }
    if let Some(notes) = &rendered.notes {
        eprintln!("{}", notes.trim_end());
    }
    let definitions = rendered.definitions.into_iter().filter(|_| include_crds).map(|shipped| shipped.body);
    print!("{}", yaml::join(&definitions.chain(rendered.objects).collect::<Vec<Value>>()));
    ExitCode::SUCCESS
}

/// The exit code is 1 when the pack or the values are at fault, 2 for usage and IO.
pub(in crate::cli) fn execute(args: &Args) -> Result<(Pack, Rendered), (u8, String)> {
    let values = read_values(args)?;
    let pack = args.read(&values).map_err(|unread| {
        let Failure { code, message } = unread.into();
        (code, message)
    })?;
    let mut rendered = render_with(args, &pack, &values).map_err(|error| (1, shown(&error)))?;
    for document in &mut rendered.objects {
        complete(document, args.namespace()).map_err(|error| (1, error.to_string()))?;
    }
    Ok((pack, rendered))
}

impl Args {
    /// The pack, with what these values switch on. Blocks, and has a runtime of its own where a registry is asked.
    pub(in crate::cli) fn read(&self, values: &Value) -> Result<Pack, Unread> {
        named::read(&self.pack, &self.from, values)
    }

    /// Namespace of the release.
    pub(in crate::cli) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or("default")
    }
}

/// What a render sees beside the pack and the arguments.
pub(in crate::cli) struct Around {
    pub(in crate::cli) capabilities: Capabilities,
    pub(in crate::cli) lookup: Arc<dyn Lookup>,
    pub(in crate::cli) revision: u32,
    /// Generated before.
    pub(in crate::cli) kept: Secrets,
}

/// Renders for the release and cluster that the arguments describe.
pub(in crate::cli) fn render_with(
    args: &Args,
    pack: &Pack,
    values: &Value,
) -> Result<Rendered, render::Error> {
    let capabilities = Capabilities {
        kube_version: args.kube_version.clone(),
        api_versions: API_VERSIONS
            .iter()
            .map(|name| (*name).to_owned())
            .chain(args.api_versions.clone())
            .collect(),
    };
    let around = Around { capabilities, lookup: Arc::new(NoCluster), revision: 1, kept: Secrets::new() };
    render_within(args, pack, values, &around)
}

/// Renders for the release that the arguments describe, and for the given cluster.
pub(in crate::cli) fn render_within(
    args: &Args,
    pack: &Pack,
    values: &Value,
    around: &Around,
) -> Result<Rendered, render::Error> {
    let Around { capabilities, lookup, revision, kept } = around;
    let input = Input {
        release_name: args.name.as_deref().unwrap_or(&pack.metadata.name),
        namespace: args.namespace(),
        revision: *revision,
        is_upgrade: *revision > 1,
        values,
        capabilities,
        now: args.now,
        seed: &args.seed,
        secrets: Source { kept, random: &Sha256::digest(&args.seed).into(), made: None },
        lookup,
        // The user at the terminal can end it.
        stop: &Stop::default(),
    };
    let mut rendered = render(pack, &input)?;
    plan::name_hooks(&mut rendered.objects, input.release_name);
    Ok(rendered)
}

/// The error, and the line of the template with carets below what failed.
pub(in crate::cli) fn shown(error: &render::Error) -> String {
    error.excerpt().map_or_else(|| error.to_string(), |excerpt| format!("{error}\n{excerpt}"))
}

/// The form in which the operator applies it; `namespace` is that of the release. The namespace of a custom resource stays as its template says: only a
/// cluster knows whether it has one.
pub(in crate::cli) fn complete(document: &mut Value, namespace: &str) -> Result<(), manifest::Error> {
    manifest::normalise(document);
    let object = Object::from_value(document.take())?;
    let scope = manifest::is_cluster_scoped(group_of(&object.api_version), &object.id.kind);
    let open = scope == Some(false) && object.id.namespace.is_none();
    *document = if open { object.with_namespace(Some(namespace)).body } else { object.body };
    Ok(())
}

/// The values that the arguments give, without the defaults of the pack.
pub(in crate::cli) fn read_values(args: &Args) -> Result<Value, (u8, String)> {
    let mut values = Value::Object(serde_json::Map::new());
    for file in &args.files {
        let name = file.display().to_string();
        let text = std::fs::read(file).map_err(|error| (2, format!("{name} cannot be read: {error}")))?;
        let over = values::parse(&text, &name).map_err(|error| (1, error.to_string()))?;
        values = values::overlay(values, over);
    }
    for expression in &args.sets {
        values = values::set(values, expression).map_err(|error: pack::Error| (2, error.to_string()))?;
    }
    Ok(values)
}

/// Exit code and message of a failed source.
pub(in crate::cli) fn source_failure(error: source::Error) -> (u8, String) {
    let code = if matches!(error, source::Error::Pack { .. }) { 1 } else { 2 };
    (code, error.to_string())
}
