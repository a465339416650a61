//! Where a pack comes from: the sources of `spec.pack`, what of each is valid, and with which operator.
//!
//! A source has here what the rest of the crate acts on, its line in `set_of`, and the function that checks its field.

use super::policy::Policy;
use crate::api::schema::source::{
    ArtifactKind, ArtifactSource, HttpSource, ObjectKey, OciSource, PackSource, RepositorySource,
    SecretReference, SignatureProvider, Verify,
};
use crate::api::{Invalid, ReferenceKind, is_digest};

/// Where a pack is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PackFrom {
    Object(FromObject),
    Http(FromHttp),
    Oci(FromOci),
    Repository(FromRepository),
    Artifact(FromArtifact),
    Path(FromPath),
}

/// Whose signature a pack needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Signatures {
    #[default]
    Unasked,
    /// That of a key of this Secret, in the release's own namespace.
    By { provider: SignatureProvider, secret: String },
    /// The operator wants one of every pack, and the spec names no keys.
    Missing,
}

/// An archive in an object of the release's own namespace (not the target's).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromObject {
    pub kind: ReferenceKind,
    pub name: String,
    /// The key; unset when there is only one.
    pub key: Option<String>,
}

/// An archive behind a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromHttp {
    /// Absolute, with scheme `http` or `https`, and without credentials.
    pub url: String,
    /// The digest that the archive must have: `sha256:` and 64 hex digits.
    pub digest: Option<String>,
    /// Name of the Secret with credentials, in the release's own namespace.
    pub secret: Option<String>,
}

/// An artifact in an OCI registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromOci {
    /// `oci://host[:port]/path`.
    pub repository: String,
    pub which: WhichTag,
    /// Name of the Secret with credentials, in the release's own namespace.
    pub secret: Option<String>,
    /// The registry speaks HTTP without TLS.
    pub insecure: bool,
}

/// An archive that the `index.yaml` of a repository names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromRepository {
    /// URL of the directory with the index: absolute, with scheme `http` or `https`, and without credentials.
    pub url: String,
    /// Name of the pack in the index.
    pub name: String,
    /// A version, or a range of versions; unset: the newest that is no pre-release.
    pub version: Option<String>,
    /// Name of the Secret with credentials, in the release's own namespace.
    pub secret: Option<String>,
    /// Credentials go to whatever host the index names.
    pub pass_credentials: bool,
}

/// The artifact of a Flux source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromArtifact {
    pub kind: ArtifactKind,
    pub name: String,
    /// Unset: the release's own.
    pub namespace: Option<String>,
    /// Directory of the pack in the artifact: a relative path without `.` or `..` parts. Unset: its root.
    pub path: Option<String>,
}

/// Which artifact of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichTag {
    Tag(String),
    /// The newest tag in this range of versions.
    Range(String),
    /// The manifest with this digest: `sha256:` and 64 hex digits.
    Digest(String),
}

/// A directory or archive below the operator's pack directory: a relative path without `.` or `..` parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromPath(pub String);

impl PackFrom {
    /// What a release without a pack has: no source finds anything there.
    pub(super) fn nowhere() -> Self {
        Self::Path(FromPath(String::new()))
    }
}

/// One line for each source, in the order of the schema: where its pack is, or why it is not valid. Given are those that are set.
fn set_of(pack: &PackSource, policy: &Policy) -> Vec<Result<PackFrom, Invalid>> {
    // Without `..`: a new source does not compile until it has its line.
    let PackSource {
        config_map,
        secret,
        http: url,
        repository: listed,
        oci: artifact_of,
        artifact,
        path: relative,
        // `signatures` reads it.
        verify: _,
    } = pack;
    let lines = [
        config_map.as_ref().map(|of| object(ReferenceKind::ConfigMap, "spec.pack.configMap.name", of)),
        secret.as_ref().map(|of| object(ReferenceKind::Secret, "spec.pack.secret.name", of)),
        url.as_ref().map(http),
        listed.as_ref().map(repository),
        artifact_of.as_ref().map(oci),
        artifact.as_ref().map(flux),
        relative.as_ref().map(|relative| path(relative, policy)),
    ];
    lines.into_iter().flatten().collect()
}

/// Where the one source that is set is, and whose signature its pack needs.
pub(super) fn checked(pack: &PackSource, policy: &Policy) -> Result<(PackFrom, Signatures), Invalid> {
    let mut set = set_of(pack, policy);
    let from = match (set.pop(), set.len()) {
        (None, _) => return Err(Invalid::spec("spec.pack", "no source is set: set one, such as configMap")),
        (Some(only), 0) => only?,
        (Some(_), others) => {
            let message = format!("{} sources are set: exactly one must be", others + 1);
            return Err(Invalid::spec("spec.pack", message));
        }
    };
    let signatures = signatures(pack.verify.as_ref(), &from, policy)?;
    Ok((from, signatures))
}

/// Whose signature a pack needs.
fn signatures(verify: Option<&Verify>, from: &PackFrom, policy: &Policy) -> Result<Signatures, Invalid> {
    let Some(Verify { provider, secret_ref }) = verify else {
        return Ok(if policy.require_signatures { Signatures::Missing } else { Signatures::Unasked });
    };
    let refused = match (from, provider) {
        (PackFrom::Artifact(_), _) => {
            Some("is set, and Flux verifies what its sources take: set spec.verify of the source")
        }
        (PackFrom::Oci(_), SignatureProvider::Minisign) => {
            Some("is minisign, and packs of a registry are signed by cosign")
        }
        (PackFrom::Oci(_), SignatureProvider::Cosign) | (_, SignatureProvider::Minisign) => None,
        (_, SignatureProvider::Cosign) => {
            Some("is cosign, and only packs of spec.pack.oci have signatures of it: use minisign")
        }
    };
    if let Some(why) = refused {
        return Err(Invalid::spec("spec.pack.verify.provider", why));
    }
    let secret = secret_name("spec.pack.verify.secretRef.name", secret_ref)?;
    Ok(Signatures::By { provider: *provider, secret })
}

/// The archive in a ConfigMap or Secret. `field` is where its name stands.
fn object(kind: ReferenceKind, field: &str, object: &ObjectKey) -> Result<PackFrom, Invalid> {
    let ObjectKey { name, key } = object;
    if name.is_empty() {
        return Err(Invalid::spec(field, format!("is empty: name the {}", kind.as_str())));
    }
    Ok(PackFrom::Object(FromObject { kind, name: name.clone(), key: key.clone() }))
}

/// The archive behind a URL.
fn http(http: &HttpSource) -> Result<PackFrom, Invalid> {
    let HttpSource { url, digest, secret_ref } = http;
    is_url("spec.pack.http.url", url)?;
    if let Some(digest) = digest {
        checked_digest("spec.pack.http.digest", digest)?;
    }
    let secret = secret("spec.pack.http.secretRef.name", secret_ref.as_ref())?;
    let from = FromHttp { url: url.clone(), digest: digest.clone(), secret };
    Ok(PackFrom::Http(from))
}

/// The artifact in a registry.
fn oci(oci: &OciSource) -> Result<PackFrom, Invalid> {
    let OciSource { repository, tag, semver, digest, secret_ref, insecure } = oci;
    let field = "spec.pack.oci.repository";
    let rest = repository.strip_prefix("oci://").unwrap_or_default();
    match rest.split_once('/') {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            if host.contains('@') {
                // Not shown: it is a password.
                let message = "holds credentials, which everybody can read here: put them into a Secret and name it in secretRef";
                return Err(Invalid::spec(field, message));
            }
            if path.contains([':', '@']) {
                let message =
                    "holds a tag or a digest: write it to spec.pack.oci.tag or spec.pack.oci.digest";
                return Err(Invalid::spec(field, message));
            }
        }
        _ => {
            let message = "is no repository of a registry: write oci://, the host and the path";
            return Err(Invalid::spec(field, message));
        }
    }
    let which = match (digest, semver, tag) {
        (Some(digest), ..) => {
            checked_digest("spec.pack.oci.digest", digest)?;
            WhichTag::Digest(digest.clone())
        }
        (None, Some(range), _) => WhichTag::Range(range.clone()),
        (None, None, tag) => {
            let tag = tag.as_deref().unwrap_or("latest");
            let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
            if tag.is_empty() || tag.starts_with(['.', '-']) || !tag.chars().all(plain) {
                let message = format!("`{tag}` is no tag: write letters, digits, `_`, `.` and `-`");
                return Err(Invalid::spec("spec.pack.oci.tag", message));
            }
            WhichTag::Tag(tag.to_owned())
        }
    };
    let secret = secret("spec.pack.oci.secretRef.name", secret_ref.as_ref())?;
    let insecure = insecure.unwrap_or_default();
    Ok(PackFrom::Oci(FromOci { repository: repository.clone(), which, secret, insecure }))
}

/// The pack of a repository.
fn repository(repository: &RepositorySource) -> Result<PackFrom, Invalid> {
    let RepositorySource { url, name, version, secret_ref, pass_credentials } = repository;
    is_url("spec.pack.repository.url", url)?;
    if name.is_empty() {
        return Err(Invalid::spec("spec.pack.repository.name", "is empty: name the pack"));
    }
    let secret = secret("spec.pack.repository.secretRef.name", secret_ref.as_ref())?;
    let pass_credentials = pass_credentials.unwrap_or_default();
    let (url, name, version) = (url.clone(), name.clone(), version.clone());
    Ok(PackFrom::Repository(FromRepository { url, name, version, secret, pass_credentials }))
}

fn is_url(field: &str, url: &str) -> Result<(), Invalid> {
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))
        .ok_or_else(|| Invalid::spec(field, "is no URL: start it with https:// or http://"))?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        // Not shown: it is a password.
        let message = "holds credentials, which everybody can read here: put them into a Secret and name it in secretRef";
        return Err(Invalid::spec(field, message));
    }
    if authority.is_empty() {
        return Err(Invalid::spec(field, "names no host"));
    }
    Ok(())
}

fn checked_digest(field: &str, digest: &str) -> Result<(), Invalid> {
    if is_digest(digest) {
        return Ok(());
    }
    let message = format!("`{digest}` is no digest: write sha256: and 64 lower-case hex digits");
    Err(Invalid::spec(field, message))
}

/// The name of the Secret with credentials.
fn secret(field: &str, reference: Option<&SecretReference>) -> Result<Option<String>, Invalid> {
    reference.map(|reference| secret_name(field, reference)).transpose()
}

fn secret_name(field: &str, SecretReference { name }: &SecretReference) -> Result<String, Invalid> {
    if name.is_empty() {
        return Err(Invalid::spec(field, "is empty: name the Secret"));
    }
    Ok(name.clone())
}

/// The artifact of a Flux source.
fn flux(artifact: &ArtifactSource) -> Result<PackFrom, Invalid> {
    let ArtifactSource { kind, name, namespace, path } = artifact;
    if name.is_empty() {
        let message = format!("is empty: name the {}", kind.as_str());
        return Err(Invalid::spec("spec.pack.artifact.name", message));
    }
    if let Some(path) = path.as_deref().filter(|path| !is_plain(path)) {
        let message =
            format!("`{path}` is not a plain relative path: write it without `.`, `..` or a leading `/`");
        return Err(Invalid::spec("spec.pack.artifact.path", message));
    }
    let (kind, name, namespace, path) = (*kind, name.clone(), namespace.clone(), path.clone());
    Ok(PackFrom::Artifact(FromArtifact { kind, name, namespace, path }))
}

fn is_plain(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']))
}

/// The directory or archive below the pack directory.
fn path(path: &str, policy: &Policy) -> Result<PackFrom, Invalid> {
    if !policy.pack_dir_enabled {
        return Err(Invalid::spec(
            "spec.pack.path",
            "the operator was started without a pack directory: start it with --pack-dir, or use another source",
        ));
    }
    if !is_plain(path) {
        let message = format!(
            "`{path}` is not a plain relative path: write it below --pack-dir, without `.`, `..` or a leading `/`"
        );
        return Err(Invalid::spec("spec.pack.path", message));
    }
    Ok(PackFrom::Path(FromPath(path.to_owned())))
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
