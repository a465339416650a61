//! What a pack says of its CustomResourceDefinitions: `crds` of `Pack.yaml`.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Error;
use crate::api::{CrdUpgrade, duration};

/// The wishes of one pack. What it does not say is for the release, and then for the operator, to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinitionWishes {
    /// `install`: definitions that do not exist are made.
    pub install: Option<bool>,
    /// `upgrade.strategy`; `Skip` also for `upgrade.enabled: false`.
    pub upgrade: Option<CrdUpgrade>,
    /// `uninstall.keep`: definitions outlive the release.
    pub keep: Option<bool>,
    /// `waitReady`: what they define is waited for.
    pub wait_ready: Option<bool>,
    /// `waitTimeout`: how long.
    pub wait_timeout: Option<Duration>,
    /// The pack around it does not want them.
    pub left_out: bool,
}

/// `crds` of a dependency.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DependencyDefinitions {
    /// False: they are neither applied nor waited for.
    pub import: bool,
    /// Whether what they define is waited for; unset: as everywhere.
    pub wait_ready: Option<bool>,
}

impl Default for DependencyDefinitions {
    fn default() -> Self {
        Self { import: true, wait_ready: None }
    }
}

impl DefinitionWishes {
    /// The wishes for a pack inside of one with these: what the outer one says counts.
    #[must_use]
    pub fn inside(&self, inner: &Self, crds: Option<&DependencyDefinitions>) -> Self {
        Self {
            install: self.install.or(inner.install),
            upgrade: self.upgrade.or(inner.upgrade),
            keep: self.keep.or(inner.keep),
            wait_ready: crds.and_then(|crds| crds.wait_ready).or(self.wait_ready).or(inner.wait_ready),
            wait_timeout: self.wait_timeout.or(inner.wait_timeout),
            left_out: self.left_out || crds.is_some_and(|crds| !crds.import),
        }
    }
}

/// Reads `crds` of `Pack.yaml`.
pub(super) fn read(crds: Option<&Value>) -> Result<DefinitionWishes, Error> {
    let Some(crds) = section(crds, "crds")? else { return Ok(DefinitionWishes::default()) };
    let upgrade = section(crds.get("upgrade"), "crds.upgrade")?;
    let uninstall = section(crds.get("uninstall"), "crds.uninstall")?;
    let enabled = truth(upgrade, "enabled", "crds.upgrade.enabled")?;
    let strategy = match upgrade.and_then(|upgrade| upgrade.get("strategy")) {
        None | Some(Value::Null) => None,
        Some(strategy) => Some(match strategy.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("safe") => CrdUpgrade::Safe,
            Some("force") => CrdUpgrade::Force,
            Some("skip") => CrdUpgrade::Skip,
            _ => return Err(wrong("crds.upgrade.strategy", strategy, "safe, force or skip")),
        }),
    };
    let wait_timeout = match crds.get("waitTimeout") {
        None | Some(Value::Null) => None,
        Some(timeout) => {
            let read = timeout.as_str().and_then(|text| duration::parse(text).ok());
            let read = read.filter(|timeout| !timeout.is_zero());
            Some(read.ok_or_else(|| wrong("crds.waitTimeout", timeout, "a duration such as 60s"))?)
        }
    };
    Ok(DefinitionWishes {
        install: truth(Some(crds), "install", "crds.install")?,
        upgrade: if enabled == Some(false) { Some(CrdUpgrade::Skip) } else { strategy },
        keep: truth(uninstall, "keep", "crds.uninstall.keep")?,
        wait_ready: truth(Some(crds), "waitReady", "crds.waitReady")?,
        wait_timeout,
        left_out: false,
    })
}

fn section<'v>(value: Option<&'v Value>, name: &str) -> Result<Option<&'v Map<String, Value>>, Error> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(other) => Err(wrong(name, other, "an object")),
    }
}

fn truth(section: Option<&Map<String, Value>>, key: &str, name: &str) -> Result<Option<bool>, Error> {
    match section.and_then(|section| section.get(key)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(other) => Err(wrong(name, other, "true or false")),
    }
}

fn wrong(name: &str, found: &Value, wanted: &str) -> Error {
    let found: String = found.to_string().chars().take(80).collect();
    Error::Definition { message: format!("`{name}` is {found}, not {wanted}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_wish_is_read() {
        let read = |crds: Value| read(Some(&crds)).unwrap();
        let all = json!({
            "install": false, "upgrade": {"enabled": true, "strategy": "force"}, "uninstall": {"keep": false},
            "waitReady": false, "waitTimeout": "90s",
        });
        let wanted = DefinitionWishes {
            install: Some(false),
            upgrade: Some(CrdUpgrade::Force),
            keep: Some(false),
            wait_ready: Some(false),
            wait_timeout: Some(Duration::from_secs(90)),
            left_out: false,
        };
        assert_eq!(read(all), wanted);
        assert_eq!(read(json!({})), DefinitionWishes::default());
        assert_eq!(read(json!(null)), DefinitionWishes::default());
        for (upgrade, wanted) in [
            (json!({"strategy": "Safe"}), Some(CrdUpgrade::Safe)),
            (json!({"enabled": false, "strategy": "force"}), Some(CrdUpgrade::Skip)),
            (json!({"enabled": true}), None),
        ] {
            assert_eq!(read(json!({"upgrade": upgrade})).upgrade, wanted);
        }
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (crds, named) in [
            (json!("yes"), "`crds`"),
            (json!({"install": "yes"}), "`crds.install`"),
            (json!({"upgrade": true}), "`crds.upgrade`"),
            (json!({"upgrade": {"strategy": "careful"}}), "`crds.upgrade.strategy`"),
            (json!({"upgrade": {"enabled": 1}}), "`crds.upgrade.enabled`"),
            (json!({"uninstall": {"keep": "no"}}), "`crds.uninstall.keep`"),
            (json!({"waitTimeout": "soon"}), "`crds.waitTimeout`"),
            (json!({"waitTimeout": "0s"}), "`crds.waitTimeout`"),
        ] {
            let message = read(Some(&crds)).unwrap_err().to_string();
            assert!(message.contains(named), "{message}");
        }
    }
}
