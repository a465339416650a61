//! `Pack.lock`: which archive each dependency is that `Pack.yaml` takes from elsewhere.
//!
//! A command resolves versions and writes it; the operator resolves nothing, and fetches what is written here by its digest. [`missing()`]
//! says what has to be fetched, [`vendor`] puts it where packs below `charts/` are.
//!
//! The same dependencies give the same bytes, so that a review shows what has changed.

mod missing;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::is_digest;
use crate::manifest;
use crate::pack::{Dependency, Error, Files, Pack, shown, values, version};
pub use missing::{Missing, missing, vendor};

/// Name of the file.
pub const FILE: &str = "Pack.lock";
const API_VERSION: &str = "sherpack/v1";
/// Bytes of it.
const MAX_BYTES: usize = 256 << 10;
/// Dependencies of one pack.
const MAX_ENTRIES: usize = 200;

/// What a `Pack.lock` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    api_version: String,
    /// In the order of `Pack.yaml`.
    pub dependencies: Vec<Locked>,
}

/// One dependency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The one that was chosen.
    pub version: String,
    pub repository: String,
    /// The range in `Pack.yaml` that it was chosen from.
    pub constraint: String,
    /// Of the manifest in a registry, else of the archive: `sha256:` and 64 hex digits.
    pub digest: String,
}

impl Locked {
    /// Whether an archive holds what is locked.
    ///
    /// # Errors
    /// It is another pack or version.
    pub fn check(&self, found: &Pack) -> Result<(), Error> {
        let (Self { name, version, .. }, found) = (self, &found.metadata);
        if found.name == *name && found.version.to_string() == *version {
            return Ok(());
        }
        let message = format!(
            "Pack.lock says {name} {version}, and the archive holds {} {}: run `dependency update`",
            found.name, found.version
        );
        Err(Error::DependencyInvalid { name: name.clone(), message })
    }

    /// The error that the content has another digest where it is fetched.
    #[must_use]
    pub fn changed(&self, at: &str, found: &str) -> Error {
        let message = format!(
            "Pack.lock says that its digest is {}, and {at} gives {found}: one of the two was changed",
            self.digest
        );
        Error::DependencyInvalid { name: self.name.clone(), message }
    }

    /// The range of versions that has this one alone.
    #[must_use]
    pub fn exactly(&self) -> String {
        format!("={}", self.version)
    }
}

/// Where a dependency is taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Below `charts/` of the pack itself.
    Local,
    /// A repository with an `index.yaml`, by its URL.
    Repository(String),
    /// `oci://host/path` of the pack, to which its name was added as Helm does.
    Oci(String),
}

impl Origin {
    /// # Errors
    /// The repository is of a form that is not supported.
    pub fn of(name: &str, repository: Option<&str>) -> Result<Self, Error> {
        let invalid = |message: String| Error::DependencyInvalid { name: name.to_owned(), message };
        match repository.map(|repository| repository.trim_end_matches('/')) {
            None | Some("") => Ok(Self::Local),
            Some(url) if url.starts_with("https://") || url.starts_with("http://") => {
                Ok(Self::Repository(url.to_owned()))
            }
            Some(url) if url.starts_with("oci://") => Ok(Self::Oci(format!("{url}/{name}"))),
            Some(other) => Err(invalid(format!(
                "its repository is `{}`: write https://, http:// or oci://, or put the pack below charts/ and leave the repository out",
                shown(other, 80)
            ))),
        }
    }
}

impl Lock {
    /// # Errors
    /// There are more than a pack may have.
    pub fn of(dependencies: Vec<Locked>) -> Result<Self, Error> {
        let lock = Self { api_version: API_VERSION.to_owned(), dependencies };
        lock.checked()
    }

    /// That of a pack, if it has one.
    ///
    /// # Errors
    /// It is no `Pack.lock`.
    pub fn read(files: &Files) -> Result<Option<Self>, Error> {
        let Some(bytes) = files.get(FILE) else { return Ok(None) };
        if bytes.len() > MAX_BYTES {
            return Err(invalid(format!("it is larger than {MAX_BYTES} bytes")));
        }
        let value = values::parse(bytes, FILE).map_err(|error| invalid(error.to_string()))?;
        let lock: Self = serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        lock.checked().map(Some)
    }

    fn checked(self) -> Result<Self, Error> {
        if self.api_version != API_VERSION {
            return Err(invalid(format!(
                "`apiVersion` is `{}`, not `{API_VERSION}`",
                shown(&self.api_version, 80)
            )));
        }
        if self.dependencies.len() > MAX_ENTRIES {
            return Err(invalid(format!("it has more than {MAX_ENTRIES} dependencies")));
        }
        let mut names = BTreeMap::new();
        for (index, locked) in self.dependencies.iter().enumerate() {
            if !is_digest(&locked.digest) {
                let message = format!("`dependencies[{index}].digest` is not sha256: and 64 hex digits");
                return Err(invalid(message));
            }
            let name = locked.alias.as_ref().unwrap_or(&locked.name);
            if let Some(other) = names.insert(name, index) {
                return Err(invalid(format!(
                    "`dependencies[{index}]` and `dependencies[{other}]` are both called `{}`",
                    shown(name, 80)
                )));
            }
        }
        Ok(self)
    }

    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        // It has nothing but texts, so it is valid JSON.
        let value = serde_json::to_value(self).unwrap_or(Value::Null);
        format!("# Written by `sherpack-operator dependency update`.\n{}", manifest::yaml::to_yaml(&value))
    }

    /// What is locked for a dependency.
    ///
    /// # Errors
    /// [`Error::DependencyLockStale`]: `Pack.yaml` asks for something else.
    pub fn entry(&self, dependency: &Dependency) -> Result<&Locked, Error> {
        let name = dependency.effective_name();
        let stale = |why: String| Error::DependencyLockStale { name: name.to_owned(), message: why };
        let called = |locked: &&Locked| locked.alias.as_ref().unwrap_or(&locked.name) == name;
        let locked = self
            .dependencies
            .iter()
            .find(called)
            .ok_or_else(|| stale("Pack.lock does not have it".to_owned()))?;
        let repository = dependency.repository.as_deref().unwrap_or_default();
        for (what, wants, has) in [
            ("name", &*dependency.name, &*locked.name),
            ("repository", repository, &*locked.repository),
            ("version", &*dependency.version, &*locked.constraint),
        ] {
            if wants != has {
                let (wants, has) = (shown(wants, 120), shown(has, 120));
                return Err(stale(format!("Pack.yaml says {what} `{wants}`, and Pack.lock `{has}`")));
            }
        }
        match version::matches(&dependency.version, &locked.version) {
            Ok(true) => Ok(locked),
            Ok(false) => Err(stale(format!(
                "Pack.lock says version {}, which is not in `{}`",
                shown(&locked.version, 80),
                shown(&dependency.version, 80)
            ))),
            Err(why) => Err(stale(format!("Pack.lock: {why}"))),
        }
    }
}

fn invalid(message: String) -> Error {
    Error::DependencyLockInvalid { message }
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
