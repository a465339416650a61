//! How people write what they mean in a registry.

use super::artifact::{Artifact, Wanted};
use crate::api::is_digest;

/// Characters of a tag, by the distribution specification.
const TAG: usize = 128;

/// `oci://host[:port]/path[:tag][@sha256:…]`, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Without tag and digest.
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<String>,
}

impl Reference {
    /// Reads a reference. The repository itself is read by [`Artifact::parse`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("oci://").ok_or("it does not begin with oci://")?;
        let (place, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((_, digest)) if !is_digest(digest) => {
                return Err("after the `@` stands no digest: write sha256: and 64 hex digits".to_owned());
            }
            Some((place, digest)) => (place, Some(digest.to_owned())),
        };
        // A colon before the path belongs to the port.
        let (path, tag) = match place.rsplit_once('/') {
            Some((before, last)) => match last.split_once(':') {
                Some((name, tag)) => (format!("{before}/{name}"), Some(tag.to_owned())),
                None => (place.to_owned(), None),
            },
            None => (place.to_owned(), None),
        };
        if let Some(tag) = tag.as_deref().filter(|tag| !is_tag(tag)) {
            return Err(format!("`{}` is no tag: {TAGS}", crate::pack::shown(tag, 60)));
        }
        Ok(Self { repository: format!("oci://{path}"), tag, digest })
    }

    /// The artifact that it names; `otherwise` when it has neither tag nor digest. The digest counts where both are there.
    ///
    /// # Errors
    /// As [`Artifact::parse`].
    pub fn artifact(&self, otherwise: Wanted, plain: bool) -> Result<Artifact, String> {
        let wanted = match (&self.digest, &self.tag) {
            (Some(digest), _) => Wanted::Digest(digest.clone()),
            (None, Some(tag)) => Wanted::Tag(tag.clone()),
            (None, None) => otherwise,
        };
        Artifact::parse(&self.repository, wanted, plain)
    }
}

const TAGS: &str =
    "write at most 128 letters, digits, `_`, `.` and `-`, the first of them a letter, a digit or `_`";

/// Whether a text can be a tag.
#[must_use]
pub fn is_tag(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=TAG).contains(&text.len()) && !text.starts_with(['.', '-']) && text.bytes().all(plain)
}

/// The tag of a version: tags have no `+`, so it is `_`, as Helm writes it.
#[must_use]
pub fn tag_of_version(version: &semver::Version) -> String {
    version.to_string().replace('+', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::versions::version_of_tag;

    #[test]
    fn a_reference_is_taken_apart() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let with_digest = format!("oci://r/a@{digest}");
        let with_both = format!("oci://r:1/a/b:1.0@{digest}");
        for (text, repository, tag, has_digest) in [
            ("oci://r/a", "oci://r/a", None, false),
            ("oci://r:5000/a/b", "oci://r:5000/a/b", None, false),
            ("oci://r:5000/a/b:1.0.0_x", "oci://r:5000/a/b", Some("1.0.0_x"), false),
            ("oci://[::1]:5000/a:latest", "oci://[::1]:5000/a", Some("latest"), false),
            (with_digest.as_str(), "oci://r/a", None, true),
            (with_both.as_str(), "oci://r:1/a/b", Some("1.0"), true),
        ] {
            let read = Reference::parse(text).unwrap();
            assert_eq!(read.repository, repository, "{text}");
            assert_eq!((read.tag.as_deref(), read.digest.is_some()), (tag, has_digest), "{text}");
        }
        let both = Reference::parse(&with_both).unwrap().artifact(Wanted::Range("*".to_owned()), true);
        assert_eq!(both.unwrap().wanted, Wanted::Digest(digest));
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for text in
            ["r/a", "https://r/a", "oci://r/a:", "oci://r/a:b c", "oci://r/a@sha256:0", "oci://r/a:-b"]
        {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
        // What is no repository is found out later.
        let artifact = |text: &str| {
            Reference::parse(text).and_then(|read| read.artifact(Wanted::Tag("1".to_owned()), false))
        };
        for text in ["oci://r", "oci://r:5000", "oci://r/A", "oci://r/a:1:2", "oci://u:p@r/a"] {
            assert!(artifact(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_tag_of_a_version_stands_for_that_version() {
        for text in ["1.2.3", "1.2.3-rc.1+build.5"] {
            let version = semver::Version::parse(text).unwrap();
            let tag = tag_of_version(&version);
            assert!(is_tag(&tag), "{tag}");
            assert_eq!(version_of_tag(&tag), Some(version));
        }
    }
}
