//! `key`: the keys that seal revisions, for people: a new one where the old one is lost, rotation, backup.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kube::Client;
use serde::{Deserialize, Serialize};

use crate::cli::cluster::{Connection, on_runtime};
use crate::cli::output::answer::{Answer, Failure, confirm, finish, story};
use crate::storage::{self, KeyRing, MacKey, RECORD_KEY_SECRET};

/// What `import` expects of the field `format`.
const FORMAT: &str = "sherpack-operator/keys/v1";

/// Make, rotate, export or import the keys that seal revisions.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Make a key where there is none and the old one is lost.
    ///
    /// Says what that means and asks. The operator does so by itself only as long as no release has revisions.
    New(New),
    /// Seal new revisions with a new key from now on; the keys of before still open what they sealed.
    Rotate(Where),
    /// Write all keys to a file that you alone can read.
    Export(Export),
    /// Add the keys of a file that `key export` wrote. The first one becomes the one that seals where there is none.
    Import(Import),
}

/// Where the keys are.
#[derive(Debug, clap::Args)]
struct Where {
    /// Where the operator keeps the keys that seal revisions
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", default_value = "sherpack-system")]
    operator_namespace: String,

    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, clap::Args)]
struct New {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct Export {
    /// The file; it must not be there yet
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    place: Where,
}

#[derive(Debug, clap::Args)]
struct Import {
    /// The file
    file: PathBuf,

    #[command(flatten)]
    place: Where,
}

/// The file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Keyring {
    format: String,
    /// Hexadecimal; the one that seals first.
    keys: Vec<String>,
}

/// Exit code 0 when it is done, 1 when there is nothing to do or the answer is no, 2 when it cannot be done.
pub(in crate::cli) fn run(args: Args) -> ExitCode {
    finish(match args.verb {
        Verb::New(args) => on_runtime(new(args)),
        Verb::Rotate(place) => on_runtime(rotate(place)),
        Verb::Export(args) => on_runtime(export(args)),
        Verb::Import(args) => on_runtime(import(args)),
    })
}

impl Where {
    async fn open(&self) -> Result<Client, Failure> {
        Ok(self.connection.open().await?.0)
    }

    async fn keys(&self, client: &Client) -> Result<Option<KeyRing>, Failure> {
        let namespace = &self.operator_namespace;
        if storage::keys_are_missing(client, namespace).await.map_err(failed)? {
            return Ok(None);
        }
        storage::read_keys(client, namespace).await.map_err(failed)
    }

    async fn there(&self, client: &Client) -> Result<KeyRing, Failure> {
        let found = self.keys(client).await?;
        found.ok_or_else(|| Failure::finding(format!("there is no Secret {}", self.secret())))
    }

    fn secret(&self) -> String {
        format!("{}/{RECORD_KEY_SECRET}", self.operator_namespace)
    }
}

fn failed(error: storage::Error) -> Failure {
    Failure::from(error.to_string())
}

async fn new(args: New) -> Result<Answer, Failure> {
    let New { yes, place } = args;
    let client = place.open().await?;
    if place.keys(&client).await?.is_some() {
        return Err(Failure::finding(format!(
            "Secret {} holds a key: `key rotate` adds another one",
            place.secret()
        )));
    }
    match storage::finalized(&client, None).await.map_err(failed)? {
        None => story("no release has revisions: a new key loses nothing"),
        Some(release) => {
            story(&format!(
                "Secret {} is missing, and it seals the revisions of releases such as {release}. With a new key each \
                 of them is held as RecordKeyLost: it keeps running and is not locked, upgraded or deleted until \
                 a user vouches for its record. What the old key sealed can be read again whenever that is \
                 restored with `key import`. Restore it from a backup if there is one.",
                place.secret()
            ));
            if !yes {
                confirm("make a new key?", "add --yes")?;
            }
        }
    }
    let ring = storage::make_key(&client, &place.operator_namespace, None).await.map_err(failed)?;
    Ok(format!("key {} is made\n", ring.current().id()).into())
}

async fn rotate(place: Where) -> Result<Answer, Failure> {
    let client = place.open().await?;
    place.there(&client).await?;
    let key = storage::random().map_err(failed)?;
    let ring = storage::add_key(&client, &place.operator_namespace, key, true).await.map_err(failed)?;
    story("back the keys up again: Secret sherpack-operator-record-keys holds all of them");
    Ok(format!("key {} seals from now on\n", ring.current().id()).into())
}

async fn export(args: Export) -> Result<Answer, Failure> {
    let Export { output, place } = args;
    let client = place.open().await?;
    let ring = place.there(&client).await?;
    let keys: Vec<String> = ring.keys().map(MacKey::to_hex).collect();
    let count = keys.len();
    write(&Keyring { format: FORMAT.to_owned(), keys }, &output)?;
    story(&format!(
        "{}: {count} keys; who has it can write records as the operator: keep it as secret as that",
        output.display()
    ));
    Ok(Answer::default())
}

async fn import(args: Import) -> Result<Answer, Failure> {
    let Import { file, place } = args;
    let keys = read(&file)?;
    let client = place.open().await?;
    let mut text = String::new();
    for key in keys {
        let id = key.id();
        let done = match place.keys(&client).await? {
            None => {
                storage::make_key(&client, &place.operator_namespace, Some(key)).await.map_err(failed)?;
                "is stored, and seals"
            }
            Some(ring) if ring.holds(&key) => "is there",
            Some(_) => {
                storage::add_key(&client, &place.operator_namespace, key, false).await.map_err(failed)?;
                "is added"
            }
        };
        text.push_str(&format!("key {id} {done}\n"));
    }
    Ok(text.into())
}

fn write(keyring: &Keyring, path: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::from(format!("{}: {error}", path.display()));
    let text = serde_json::to_vec(keyring).map_err(|error| failed(error.into()))?;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)
}

fn read(path: &Path) -> Result<Vec<MacKey>, Failure> {
    let name = path.display();
    let text = std::fs::read(path).map_err(|error| Failure::from(format!("{name}: {error}")))?;
    // What stands in the file is never told, not even by the parser.
    let strange = || Failure::from(format!("{name} is not what `key export` of this version writes"));
    let keyring: Keyring = serde_json::from_slice(&text).map_err(|_| strange())?;
    if keyring.format != FORMAT || keyring.keys.is_empty() {
        return Err(strange());
    }
    keyring.keys.iter().map(|key| MacKey::from_hex(key).ok_or_else(strange)).collect()
}
