//! Registries and repositories, as the user of a command reaches them: any address, with what `docker login` has stored.

mod fetch;
pub(in crate::cli::packs) mod locked;
mod login;
pub(in crate::cli) mod named;
pub(in crate::cli) mod unread;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::ByteString;

use crate::cli::output::answer::Failure;
use crate::cluster::client::Proxies;
use crate::pack::Limits;
use crate::source::Error;
use crate::source::http::{Allowed, Client, Credentials, Options, Timing, Url};
use crate::source::oci::{Artifact, Reference};

/// Bytes of a file with certificates: those of all authorities of a system are a fifth of it.
const CERTIFICATES: u64 = 1 << 20;

/// How a server is spoken to.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Reach {
    /// Speak HTTP without TLS to the registry, as with `insecure` of `spec.pack.oci`
    #[arg(long)]
    plain_http: bool,

    /// Trust the certificate authorities of this file, in PEM form, besides those of the system
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// From where packs are had.
#[derive(Debug, clap::Args)]
pub(super) struct Origin {
    /// oci://HOST/PATH of a registry, for `pull` also with :TAG or @DIGEST behind it; with --repository the name of a pack
    #[arg(value_name = "REFERENCE")]
    reference: String,

    /// URL of a repository, below which its index.yaml is
    #[arg(long, value_name = "URL")]
    repository: Option<String>,

    #[command(flatten)]
    pub(super) reach: Reach,
}

/// Where a pack is.
pub(super) enum Place {
    /// In a registry.
    Oci(Reference),
    /// In the index of the repository with this URL, under this name.
    Listed(Url, String),
}

impl Origin {
    pub(super) fn place(&self) -> Result<Place, Failure> {
        place(&self.reference, self.repository.as_deref(), &self.reach)
    }
}

/// Where the pack is that a user names so: with a repository by its name, else by its reference.
fn place(reference: &str, repository: Option<&str>, reach: &Reach) -> Result<Place, Failure> {
    let Some(url) = repository else {
        let wrong = |why: String| format!("`{}`: {why}", shown(reference));
        return Ok(Place::Oci(Reference::parse(reference).map_err(wrong)?));
    };
    if reach.plain_http {
        return Err("--plain-http is for registries: begin the URL of --repository with http://"
            .to_owned()
            .into());
    }
    if reference.is_empty() || reference.contains(['/', ':']) {
        let message =
            format!("`{}` is no name of a pack, which stands before --repository", shown(reference));
        return Err(message.into());
    }
    let url = Url::parse(url).map_err(|why| format!("--repository: {why}"))?;
    Ok(Place::Listed(url, reference.to_owned()))
}

impl Reach {
    pub(super) fn is_plain(&self) -> bool {
        self.plain_http
    }

    /// What the registry of an artifact is shown and checked against.
    pub(super) fn login(&self, artifact: &Artifact) -> Result<Credentials, Failure> {
        let authorities = self.credentials()?.authorities;
        Ok(Credentials { authorities, ..login::credentials(artifact)? })
    }

    /// The same without a login.
    pub(super) fn credentials(&self) -> Result<Credentials, Failure> {
        let Some(file) = &self.ca_file else { return Ok(Credentials::default()) };
        let name = file.display();
        let bytes = bounded(file, CERTIFICATES)
            .map_err(|error| format!("{name} cannot be read: {error}"))?
            .ok_or_else(|| format!("{name} is no file with certificates: it has more than 1 MiB"))?;
        let data = BTreeMap::from([("ca.crt".to_owned(), ByteString(bytes))]);
        let wrong = |_| format!("{name} holds no certificate in PEM form");
        Ok(Credentials::read(&data).map_err(wrong)?)
    }
}

/// A client that asks whatever the user may ask, through the proxies of the environment.
pub(super) fn client(timing: Timing) -> Client {
    let options =
        Options { allow: vec![Allowed::every()], proxies: Proxies::of_environment(), ..Options::default() };
    Client::new(&options, timing, &Limits::default())
}

/// The failure that an error is for a command. `artifact`: what was asked for, in a registry.
pub(super) fn failure(error: Error, artifact: Option<&Artifact>, credentials: &Credentials) -> Failure {
    let cure = || match artifact.map(Artifact::registry) {
        None => "this command shows no credentials to a repository".to_owned(),
        Some(registry) if credentials.identify() => {
            format!("check the login that is stored for it, or renew it with `docker login {registry}`")
        }
        Some(registry) => format!("log in with `docker login {registry}`"),
    };
    let code = match &error {
        Error::Pack { .. }
        | Error::NotFound { .. }
        | Error::NoVersion { .. }
        | Error::Artifact { .. }
        | Error::Corrupt { .. } => 1,
        _ => 2,
    };
    let message = match error {
        Error::Unauthorized { url, status, .. } => {
            Error::Unauthorized { url, status, cure: cure() }.to_string()
        }
        Error::Denied { url, .. } => Error::Denied { url, cure: cure() }.to_string(),
        Error::Tls { .. } if credentials.authorities.is_empty() => {
            format!("{error}; this command takes the certificate of a private authority with --ca-file FILE")
        }
        other => other.to_string(),
    };
    Failure { code, message }
}

/// The content of a file, or nothing when it is longer than `limit`.
fn bounded(path: &Path, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    use std::io::Read as _;

    let mut content = Vec::new();
    std::fs::File::open(path)?.take(limit + 1).read_to_end(&mut content)?;
    Ok(Some(content).filter(|content| content.len() as u64 <= limit))
}

fn shown(text: &str) -> String {
    crate::pack::shown(text, 120)
}
