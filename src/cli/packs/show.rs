//! `show`: what a registry or repository has.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::remote::{Origin, Place, client, failure};
use crate::cli::cluster::on_runtime;
use crate::cli::output::answer::{Answer, Failure, Format, finish, pretty};
use crate::cli::output::table::clean;
use crate::source::http::Timing;
use crate::source::oci::{Reference, Wanted, tags};
use crate::source::repository::{self, Listed};
use crate::source::versions::newest_first;

/// Say what a registry or a repository has of a pack.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Versions(Box<Versions>),
}

/// Print the versions of a pack, the newest first, as the registry or the repository writes them.
///
/// Tags that are no version are left out. Exit code 1 when there is none.
#[derive(Debug, clap::Args)]
struct Versions {
    #[command(flatten)]
    origin: Origin,

    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(in crate::cli) fn run(args: Args) -> ExitCode {
    let What::Versions(args) = args.what;
    finish(versions(&args))
}

fn versions(args: &Versions) -> Result<Answer, Failure> {
    let (listed, key) = match args.origin.place()? {
        Place::Oci(reference) => (of_registry(args, &reference)?, "tag"),
        Place::Listed(repository, name) => {
            let credentials = args.origin.reach.credentials()?;
            let listed = Listed { repository, name, range: None, pass_credentials: false };
            let asked = async {
                let client = client(Timing::default());
                repository::versions(&client, &listed, &credentials)
                    .await
                    .map_err(|error| failure(error, None, &credentials))
            };
            (on_runtime(asked)?, "name")
        }
    };
    let versions = newest_first(listed.iter().map(String::as_str));
    let text = match args.output {
        Format::Table => versions.iter().map(|(_, text)| clean(text) + "\n").collect(),
        Format::Json => {
            let row = |version: &str, text: &str| json!({"version": version, key: text});
            let rows: Vec<Value> =
                versions.iter().map(|(version, text)| row(&version.to_string(), text)).collect();
            pretty(&rows)
        }
    };
    Ok(Answer { text, findings: versions.is_empty() })
}

fn of_registry(args: &Versions, reference: &Reference) -> Result<Vec<String>, Failure> {
    if reference.tag.is_some() || reference.digest.is_some() {
        let message = format!("name the repository alone, without tag and digest: {}", reference.repository);
        return Err(message.into());
    }
    let reach = &args.origin.reach;
    let artifact = reference.artifact(Wanted::Range("*".to_owned()), reach.is_plain())?;
    let credentials = reach.login(&artifact)?;
    on_runtime(async {
        let client = client(Timing::default());
        tags(&client, &artifact, &credentials)
            .await
            .map_err(|error| failure(error, Some(&artifact), &credentials))
    })
}
