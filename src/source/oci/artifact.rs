//! Which artifact of which registry is wanted.

use std::fmt;

use crate::source::http::Url;

/// Docker Hub's name, and where its registry is.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";

/// An artifact in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Artifact {
    /// Host and port as they were written.
    registry: String,
    /// Path without the host.
    repository: String,
    pub wanted: Wanted,
    /// Without TLS.
    plain: bool,
}

/// Which one of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    Tag(String),
    /// The newest tag in this range of versions.
    Range(String),
    /// The manifest with this digest: `sha256:` and 64 hex digits.
    Digest(String),
}

impl Artifact {
    /// Reads `oci://host[:port]/path`. `plain`: the registry speaks HTTP without TLS.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(repository: &str, wanted: Wanted, plain: bool) -> Result<Self, String> {
        let rest = repository.strip_prefix("oci://").ok_or("it does not begin with oci://")?;
        let (registry, path) = rest.split_once('/').ok_or("it names no repository after the host")?;
        let path = path.strip_suffix('/').unwrap_or(path);
        if path.is_empty() || !path.split('/').all(is_component) {
            return Err(format!(
                "`{path}` is no path of a repository: write small letters, digits and single separators, without tag or digest"
            ));
        }
        let path = if registry == DOCKER_HUB && !path.contains('/') {
            format!("library/{path}")
        } else {
            path.to_owned()
        };
        let artifact = Self { registry: registry.to_owned(), repository: path, wanted, plain };
        // The host is checked as that of every URL, and is nothing more than a host.
        let url = artifact.url("tags/list")?;
        if registry != DOCKER_HUB && url.authority() != registry {
            return Err(format!("`{registry}` is no host"));
        }
        Ok(artifact)
    }

    /// Host and port, as they were written: credentials are kept under this name.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// Path of the repository in the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// What a token has to be good for.
    pub(super) fn scope(&self) -> String {
        format!("repository:{}:pull", self.repository)
    }

    /// The same to push.
    pub(super) fn scope_of_push(&self) -> String {
        format!("repository:{}:pull,push", self.repository)
    }

    /// What never changes needs to be looked at once only.
    #[must_use]
    pub fn is_fixed(&self) -> bool {
        matches!(self.wanted, Wanted::Digest(_))
    }

    /// A URL of the repository, such as `tags/list`.
    pub(super) fn url(&self, rest: &str) -> Result<Url, String> {
        let scheme = if self.plain { "http" } else { "https" };
        let host = if self.registry == DOCKER_HUB { DOCKER_HUB_HOST } else { &self.registry };
        Url::parse(&format!("{scheme}://{host}/v2/{}/{rest}", self.repository))
    }

    /// One text for it, with all that tells it from another one.
    pub(in crate::source) fn text(&self) -> String {
        if self.plain { format!("{self} http") } else { self.to_string() }
    }
}

/// As messages show it.
impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, repository, .. } = self;
        write!(f, "oci://{registry}/{repository}")?;
        match &self.wanted {
            Wanted::Tag(tag) => write!(f, ":{tag}"),
            Wanted::Range(range) => write!(f, " in `{range}`"),
            Wanted::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

/// A part of a repository's path: small letters and digits, with `.`, `_`, `__` or dashes between them.
fn is_component(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase();
    let ends = text.bytes().next().is_some_and(word) && text.bytes().last().is_some_and(word);
    let separators = text.split(|c: char| c.is_ascii_digit() || c.is_ascii_lowercase());
    ends && separators
        .into_iter()
        .all(|between| matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Artifact, String> {
        Artifact::parse(text, Wanted::Tag("1.0.0".to_owned()), false)
    }

    #[test]
    fn an_artifact_is_where_it_is_said_to_be() {
        for (text, url, shown) in [
            ("oci://ghcr.io/org/app", "https://ghcr.io/v2/org/app/tags/list", "oci://ghcr.io/org/app:1.0.0"),
            (
                "oci://r:5000/a/b__c/d-e.f/",
                "https://r:5000/v2/a/b__c/d-e.f/tags/list",
                "oci://r:5000/a/b__c/d-e.f:1.0.0",
            ),
            ("oci://[::1]:5000/a", "https://[::1]:5000/v2/a/tags/list", "oci://[::1]:5000/a:1.0.0"),
            (
                "oci://docker.io/nginx",
                "https://registry-1.docker.io/v2/library/nginx/tags/list",
                "oci://docker.io/library/nginx:1.0.0",
            ),
        ] {
            let artifact = parsed(text).unwrap();
            assert_eq!(artifact.url("tags/list").unwrap().to_string(), url);
            assert_eq!(artifact.to_string(), shown);
        }
        let plain = Artifact::parse("oci://r/a", Wanted::Digest("sha256:00".to_owned()), true).unwrap();
        assert_eq!(plain.url("x").unwrap().to_string(), "http://r/v2/a/x");
        assert!(plain.is_fixed() && !parsed("oci://r/a").unwrap().is_fixed());
        assert_ne!(plain.text(), plain.to_string(), "another source than the one with TLS");
    }

    #[test]
    fn what_is_no_repository_is_refused() {
        for text in [
            "https://r/a",
            "oci://r",
            "oci://r/",
            "oci:///a",
            "oci://r/A",
            "oci://r/a:1.0",
            "oci://r/a@sha256:0",
            "oci://r/a//b",
            "oci://r/../a",
            "oci://r/a%2fb",
            "oci://u:p@r/a",
            "oci://r/a?b",
            "oci://r/-a",
            "oci://r/a._b",
            "oci://r:99999/a",
            "oci://r?x/a",
            "oci://r#/a",
            "oci://r%2f/a",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
