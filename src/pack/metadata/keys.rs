//! The keys of `Pack.yaml`, and warnings of others.

use serde_json::{Map, Value};

use crate::pack::shown;

pub(super) const ROOT_KEYS: &[&str] = &["apiVersion", "kind", "metadata", "dependencies", "engine", "crds"];
pub(super) const METADATA_KEYS: &[&str] = &[
    "name",
    "version",
    "description",
    "appVersion",
    "kubeVersion",
    "home",
    "icon",
    "sources",
    "keywords",
    "maintainers",
    "annotations",
];
pub(super) const MAINTAINER_KEYS: &[&str] = &["name", "email", "url"];
pub(super) const DEPENDENCY_KEYS: &[&str] =
    &["name", "version", "repository", "enabled", "condition", "resolve", "tags", "alias", "crds", "wait"];
pub(super) const ENGINE_KEYS: &[&str] = &["strict"];
pub(super) const CRDS_KEYS: &[&str] = &["install", "upgrade", "uninstall", "waitReady", "waitTimeout"];
pub(super) const CRDS_UPGRADE_KEYS: &[&str] = &["enabled", "strategy"];
pub(super) const CRDS_UNINSTALL_KEYS: &[&str] = &["keep"];
pub(super) const DEPENDENCY_CRDS_KEYS: &[&str] = &["import", "waitReady"];

/// The keys of each section of `Pack.yaml`, by the path of the section.
#[cfg(test)]
pub(crate) const SECTIONS: [(&str, &[&str]); 9] = [
    ("", ROOT_KEYS),
    ("metadata", METADATA_KEYS),
    ("metadata.maintainers", MAINTAINER_KEYS),
    ("dependencies", DEPENDENCY_KEYS),
    ("dependencies.crds", DEPENDENCY_CRDS_KEYS),
    ("engine", ENGINE_KEYS),
    ("crds", CRDS_KEYS),
    ("crds.upgrade", CRDS_UPGRADE_KEYS),
    ("crds.uninstall", CRDS_UNINSTALL_KEYS),
];

/// A hostile file may have thousands of unknown keys.
pub(super) const WARNINGS: usize = 20;

#[derive(Default)]
pub(super) struct Warnings {
    list: Vec<String>,
    more: usize,
}

impl Warnings {
    pub(super) fn done(mut self) -> Vec<String> {
        if self.more > 0 {
            self.list.push(format!("Pack.yaml: and {} more unknown keys", self.more));
        }
        self.list
    }

    /// Notes the keys of a section that nothing reads. `prefix` is its path with the dot behind it.
    pub(super) fn unknown(&mut self, map: &Map<String, Value>, prefix: &str, known: &[&str]) {
        for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
            if self.list.len() < WARNINGS {
                let key = shown(key, 80);
                self.list.push(format!("Pack.yaml: unknown key `{prefix}{key}` is ignored"));
            } else {
                self.more += 1;
            }
        }
    }
}
