//! A revision of Helm 3 or Helm 4 as its Secret holds it: read only, and pure.
//!
//! `data.release` is base64 of gzip of JSON, before the base64 of the API. What it says of itself is believed only if
//! it agrees with the Secret's own name and namespace. Nothing but what is asked for is kept in memory: of the chart
//! that each revision carries, its name and versions.

pub(super) mod records;

use k8s_openapi::api::core::v1::Secret;
use serde::Deserialize;

use super::codec::{self, Compression, MAX_JSON_BYTES};
use super::head::slim::NAME_BYTES;
use super::unreadable::{Fault, Unreadable};
use crate::api::{conditions, names};

/// Base64 of the first bytes of gzip. Without them the JSON is not compressed, as Helm itself reads it.
const GZIP: &[u8] = b"H4sI";

/// What Helm remembers of one revision, as far as it matters to a lock of its objects.
#[derive(Clone, PartialEq, Eq)]
pub struct HelmRelease {
    pub namespace: String,
    pub name: String,
    pub revision: u32,
    /// Such as `deployed`, `pending-upgrade`, `superseded`.
    pub status: String,
    /// The rendered documents without hooks and without what stands in `crds/`.
    pub manifest: String,
    /// The chart: name, version, and version of what it installs.
    pub chart: Option<(String, String, Option<String>)>,
    /// It was written by server-side apply, which only Helm 4 does.
    pub server_side: bool,
}

/// Name of the Secret that holds one revision.
#[must_use]
pub fn helm_key(release: &str, revision: u32) -> String {
    format!("{}.{release}.v{revision}", names::HELM_RECORD_PREFIX)
}

/// The inverse of [`helm_key`].
#[must_use]
pub fn helm_revision(key: &str) -> Option<(&str, u32)> {
    let (release, digits) =
        key.strip_prefix(names::HELM_RECORD_PREFIX)?.strip_prefix('.')?.rsplit_once(".v")?;
    let revision: u32 = digits.parse().ok()?;
    let canonical = revision.to_string() == digits;
    (canonical && !release.is_empty()).then_some((release, revision))
}

impl HelmRelease {
    /// Reads a Secret.
    ///
    /// # Errors
    /// Why it is no revision that can be believed. Nothing of its content is quoted.
    pub fn decode(secret: &Secret) -> Result<Self, Unreadable> {
        Self::decode_within(secret, MAX_JSON_BYTES)
    }

    /// As [`decode`](Self::decode), if it unpacks to `room` bytes of JSON at most.
    pub(super) fn decode_within(secret: &Secret, room: usize) -> Result<Self, Unreadable> {
        let meta = &secret.metadata;
        let own = meta.name.as_deref().and_then(helm_revision);
        let namespace = meta.namespace.clone().unwrap_or_default();
        let unreadable = |reason, message: &str| Unreadable {
            namespace: namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            release: own.map(|(release, _)| release.to_owned()),
            revision: own.map(|(_, revision)| revision),
            reason,
            message: message.to_owned(),
        };
        if secret.type_.as_deref() != Some(names::HELM_RECORD_TYPE) {
            return Err(unreadable(Fault::WrongType, "it is not of the type that Helm gives its revisions"));
        }
        let data = secret.data.as_ref().and_then(|data| data.get(names::DATA_RELEASE));
        let text = data.ok_or_else(|| unreadable(Fault::Damaged, "it has no data key `release`"))?;
        let compression = if text.0.starts_with(GZIP) { Compression::Gzip } else { Compression::None };
        let json =
            codec::unpack(&text.0, compression, room).map_err(|(fault, why)| unreadable(fault, &why))?;
        let wire: Wire = serde_json::from_slice(&json).map_err(|error| {
            // The message of the error itself may quote what it could not read.
            let why =
                format!("its JSON is no revision of Helm: line {}, column {}", error.line(), error.column());
            unreadable(Fault::Damaged, &why)
        })?;
        let Wire { name, namespace: inside, version, info, manifest, chart, apply_method } = wire;
        if own != Some((name.as_str(), version)) || inside != namespace {
            return Err(unreadable(
                Fault::ForeignName,
                "it speaks of another release or revision than its own name",
            ));
        }
        // They are shown, and any user who may write Secrets chooses how long they are.
        let name_of = |text: String| conditions::cut(&text, NAME_BYTES);
        let chart = chart
            .and_then(|chart| chart.metadata)
            .map(|meta| (name_of(meta.name), name_of(meta.version), meta.app_version.map(name_of)));
        let server_side = apply_method.as_deref() == Some("ssa");
        let status = name_of(info.status);
        Ok(Self { namespace, name, revision: version, status, manifest, chart, server_side })
    }

    /// What is installed is what this revision says.
    #[must_use]
    pub fn is_deployed(&self) -> bool {
        self.status == "deployed"
    }
}

/// What is read of the JSON.
#[derive(Deserialize)]
struct Wire {
    name: String,
    #[serde(default)]
    namespace: String,
    version: u32,
    info: Info,
    #[serde(default)]
    manifest: String,
    #[serde(default)]
    chart: Option<Chart>,
    #[serde(default)]
    apply_method: Option<String>,
}

#[derive(Deserialize)]
struct Info {
    status: String,
}

#[derive(Deserialize)]
struct Chart {
    #[serde(default)]
    metadata: Option<ChartMetadata>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChartMetadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    app_version: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use flate2::write::GzEncoder;
    use serde_json::{Value, json};

    use super::*;

    fn gzip(json: &[u8]) -> String {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(json).unwrap();
        STANDARD.encode(encoder.finish().unwrap())
    }

    fn secret(name: &str, text: &str) -> Secret {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "apps"}, "type": "helm.sh/release.v1",
            "data": {"release": STANDARD.encode(text)},
        }))
        .unwrap()
    }

    fn release() -> Value {
        json!({
            "name": "web", "namespace": "apps", "version": 3,
            "info": {"status": "deployed", "description": "Upgrade complete", "notes": "hunter2"},
            "chart": {"metadata": {"name": "shop", "version": "1.2.3", "appVersion": "9"}, "templates": [{"data": "aGk="}]},
            "manifest": "---\n# Source: a\nkind: ConfigMap\n", "hooks": [], "apply_method": "ssa",
        })
    }

    #[test]
    fn a_revision_is_read_compressed_or_not() {
        let json = release().to_string();
        for text in [gzip(json.as_bytes()), STANDARD.encode(&json)] {
            let read = HelmRelease::decode(&secret("sh.helm.release.v1.web.v3", &text)).ok().unwrap();
            assert!(read.is_deployed() && read.server_side);
            assert_eq!((read.revision, read.name.as_str()), (3, "web"));
            assert_eq!(read.chart, Some(("shop".into(), "1.2.3".into(), Some("9".into()))));
            assert!(read.manifest.starts_with("---\n"));
        }
    }

    #[test]
    fn what_is_not_its_own_is_not_believed_and_nothing_is_quoted() {
        let of = |name: &str, release: &Value| {
            HelmRelease::decode(&secret(name, &gzip(release.to_string().as_bytes()))).err()
        };
        let own = "sh.helm.release.v1.web.v3";
        assert!(of(own, &release()).is_none());
        for (key, value) in [("name", json!("shop")), ("namespace", json!("other")), ("version", json!(4))] {
            let mut other = release();
            other[key] = value;
            assert_eq!(of(own, &other).unwrap().reason, Fault::ForeignName, "{key}");
        }
        let mut odd = release();
        odd["version"] = json!("hunter2");
        let why = of(own, &odd).unwrap();
        assert_eq!(why.reason, Fault::Damaged);
        assert!(!why.to_string().contains("hunter2"), "{why}");
        let bomb = gzip(&vec![b' '; MAX_JSON_BYTES + 1]);
        assert_eq!(HelmRelease::decode(&secret(own, &bomb)).err().unwrap().reason, Fault::TooLarge);
        let mut opaque = secret(own, &gzip(release().to_string().as_bytes()));
        opaque.type_ = Some("Opaque".to_owned());
        assert_eq!(HelmRelease::decode(&opaque).err().unwrap().reason, Fault::WrongType);
        for cut in ["", "H4sI", "%%%", "e30="] {
            assert!(HelmRelease::decode(&secret(own, cut)).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_is_shown_of_a_chart_is_short_whoever_wrote_it() {
        let mut long = release();
        for part in ["name", "version", "appVersion"] {
            long["chart"]["metadata"][part] = json!("é".repeat(100_000));
        }
        long["info"]["status"] = json!("x".repeat(100_000));
        let text = gzip(long.to_string().as_bytes());
        let read = HelmRelease::decode(&secret("sh.helm.release.v1.web.v3", &text)).ok().unwrap();
        let (name, version, app_version) = read.chart.unwrap();
        for text in [name, version, app_version.unwrap(), read.status] {
            assert!(text.len() <= NAME_BYTES && text.ends_with('…'), "{} bytes", text.len());
        }
    }

    #[test]
    fn names_of_revisions_are_read_as_they_are_written() {
        assert_eq!(helm_revision(&helm_key("a.v1.b", 12)), Some(("a.v1.b", 12)));
        for other in
            ["sh.helm.release.v1.web.v03", "sh.helm.release.v1..v1", "sh.sherpack.release.v1.web.v1", "web"]
        {
            assert_eq!(helm_revision(other), None, "{other}");
        }
    }
}
