//! Which blob of an artifact is the pack or chart, and how an artifact with a pack is written. Decides, and does no IO.

use std::collections::HashMap;
use std::str::FromStr as _;

use http::header::{CONTENT_TYPE, HeaderMap};
use oci_spec::image::{
    ANNOTATION_DESCRIPTION, ANNOTATION_TITLE, ANNOTATION_VERSION, Descriptor, Digest, ImageIndex,
    ImageManifest, ImageManifestBuilder, MediaType, SCHEMA_VERSION,
};
use serde::Deserialize;

use crate::source::blob::Blob;
use crate::source::cache::digest;

/// Media types of what a manifest is: OCI's and Docker's.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];
/// Media type of an archive with a pack.
const PACK: &str = "application/vnd.sherpack.pack.v1.tar+gzip";
/// Media type of an archive with a Helm chart, which the published Sherpack uses for packs as well.
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Media type of the `Pack.yaml` of a pack, as JSON.
const CONFIG: &str = "application/vnd.sherpack.pack.config.v1+json";
/// Types of an artifact or its config that are worth a look.
const OURS: [&str; 3] = [PACK, CONFIG, "application/vnd.cncf.helm.config.v1+json"];
/// Media type of the manifests that are written.
pub(super) const WRITTEN: &str = "application/vnd.oci.image.manifest.v1+json";
/// Manifests of an index that are looked at.
const MANIFESTS: usize = 16;

/// What was found under a reference.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// The archive.
    Blob(Blob),
    /// One of these has it, if any.
    AnyOf(Vec<Blob>),
}

/// A pack that shall become an artifact.
#[derive(Clone, Debug)]
pub struct Content {
    pub name: String,
    pub version: String,
    pub description: Option<String>,
    /// `Pack.yaml` as JSON.
    pub config: Vec<u8>,
    pub archive: Vec<u8>,
}

/// A manifest, and its digest.
#[derive(Debug)]
pub(super) struct Written {
    pub bytes: Vec<u8>,
    pub digest: String,
}

/// The manifest of a pack; the same for the same content.
pub(super) fn write(content: &Content) -> Result<Written, String> {
    let Content { name, version, description, config, archive } = content;
    let describe = |media_type: &str, bytes: &[u8]| -> Result<Descriptor, String> {
        let digest = Digest::from_str(&digest(bytes)).map_err(|error| error.to_string())?;
        Ok(Descriptor::new(MediaType::from(media_type), bytes.len() as u64, digest))
    };
    let mut layer = describe(PACK, archive)?;
    // Other tools write a layer to a file of this name.
    let file = format!("{name}-{version}.tgz");
    layer.set_annotations(Some(HashMap::from([(ANNOTATION_TITLE.to_owned(), file)])));
    let mut annotations = HashMap::from([
        (ANNOTATION_TITLE.to_owned(), name.clone()),
        (ANNOTATION_VERSION.to_owned(), version.clone()),
    ]);
    annotations.extend(description.iter().map(|text| (ANNOTATION_DESCRIPTION.to_owned(), text.clone())));
    let manifest = ImageManifestBuilder::default()
        .schema_version(SCHEMA_VERSION)
        .media_type(MediaType::ImageManifest)
        .config(describe(CONFIG, config)?)
        .layers(vec![layer])
        .annotations(annotations)
        .build()
        .map_err(|error| error.to_string())?;
    // By way of a value, whose maps are sorted.
    let value = serde_json::to_value(&manifest).map_err(|error| error.to_string())?;
    let bytes = value.to_string().into_bytes();
    Ok(Written { digest: digest(&bytes), bytes })
}

/// The content that a descriptor stands for, if its digest can be checked.
fn checkable(of: &Descriptor) -> Result<Blob, String> {
    let blob = Blob::from(of);
    if blob.digest.starts_with("sha256:") {
        Ok(blob)
    } else {
        Err(format!("it names the digest {}, and only SHA-256 is supported", blob.digest))
    }
}

/// Reads a manifest or an index. The error says what is there instead of a pack.
pub(super) fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Found, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Typed {
        media_type: Option<String>,
    }
    let typed: Typed =
        serde_json::from_slice(bytes).map_err(|error| format!("its manifest is no JSON object: {error}"))?;
    let header = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let header = header.map(|text| text.split(';').next().unwrap_or_default().trim().to_owned());
    let media_type = typed.media_type.or(header).unwrap_or_default();
    if INDEXES.contains(&media_type.as_str()) {
        let index: ImageIndex =
            serde_json::from_slice(bytes).map_err(|error| format!("its index is damaged: {error}"))?;
        return in_index(&index);
    }
    let manifest: ImageManifest =
        serde_json::from_slice(bytes).map_err(|error| format!("its manifest is damaged: {error}"))?;
    in_manifest(&manifest).map(Found::Blob)
}

fn in_index(index: &ImageIndex) -> Result<Found, String> {
    let worth =
        |of: &&Descriptor| of.artifact_type().as_ref().is_none_or(|kind| OURS.contains(&text(kind).as_str()));
    let some: Vec<Blob> =
        index.manifests().iter().filter(worth).take(MANIFESTS).map(checkable).collect::<Result<_, _>>()?;
    if some.is_empty() {
        return Err("its index names no manifest of a pack or chart".to_owned());
    }
    Ok(Found::AnyOf(some))
}

fn in_manifest(manifest: &ImageManifest) -> Result<Blob, String> {
    let is_archive = |layer: &&Descriptor| [PACK, CHART].contains(&text(layer.media_type()).as_str());
    let mut archives = manifest.layers().iter().filter(is_archive);
    match (archives.next(), archives.next()) {
        (Some(archive), None) => checkable(archive),
        (Some(_), Some(_)) => Err("its manifest has several layers with a pack or chart".to_owned()),
        (None, _) => {
            let kind = manifest.artifact_type().as_ref().unwrap_or_else(|| manifest.config().media_type());
            Err(format!("it is a `{}`, and no layer has the media type {PACK} or {CHART}", text(kind)))
        }
    }
}

fn text(kind: &MediaType) -> String {
    kind.to_string()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    fn blob(digit: char, size: u64) -> Value {
        json!({"mediaType": "x/y", "digest": format!("sha256:{}", digit.to_string().repeat(64)), "size": size})
    }

    fn layer(media_type: &str, digit: char) -> Value {
        let mut layer = blob(digit, 7);
        layer["mediaType"] = json!(media_type);
        layer
    }

    fn manifest(layers: &[Value]) -> Value {
        json!({"schemaVersion": 2, "config": layer("application/vnd.oci.image.config.v1+json", '0'), "layers": layers})
    }

    fn found(of: &Value, content_type: &'static str) -> Result<Found, String> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        read(&headers, of.to_string().as_bytes())
    }

    #[test]
    fn the_layer_with_a_pack_or_chart_is_taken_whatever_lies_beside_it() {
        let provenance = layer("application/vnd.cncf.helm.chart.provenance.v1.prov", '2');
        for kind in [PACK, CHART] {
            let of = manifest(&[provenance.clone(), layer(kind, '1')]);
            let wanted = Blob { digest: format!("sha256:{}", "1".repeat(64)), size: 7 };
            assert_eq!(found(&of, "application/octet-stream"), Ok(Found::Blob(wanted)));
        }
    }

    #[test]
    fn what_is_written_is_read_and_is_the_same_each_time() {
        let content = Content {
            name: "web".to_owned(),
            version: "1.0.0+a".to_owned(),
            description: Some("A web server".to_owned()),
            config: b"{}".to_vec(),
            archive: b"archive".to_vec(),
        };
        let first = write(&content).unwrap();
        let wanted = Blob { digest: digest(b"archive"), size: 7 };
        assert_eq!(read(&HeaderMap::new(), &first.bytes), Ok(Found::Blob(wanted)));
        for _ in 0..20 {
            assert_eq!(write(&content).unwrap().digest, first.digest);
        }
        let value: Value = serde_json::from_slice(&first.bytes).unwrap();
        assert_eq!(value["mediaType"], WRITTEN);
        assert_eq!(value["config"]["mediaType"], CONFIG);
        assert_eq!(value["layers"][0]["annotations"]["org.opencontainers.image.title"], "web-1.0.0+a.tgz");
        assert_eq!(value["annotations"]["org.opencontainers.image.version"], "1.0.0+a");
    }

    #[test]
    fn what_is_no_pack_is_named() {
        let image = manifest(&[layer("application/vnd.oci.image.layer.v1.tar+gzip", '1')]);
        let mut typed = image.clone();
        typed["artifactType"] = json!("application/vnd.example");
        let two = manifest(&[layer(PACK, '1'), layer(CHART, '2')]);
        let mut wrong = manifest(&[layer(PACK, '1')]);
        wrong["layers"][0]["digest"] = json!("../../etc");
        let mut long = manifest(&[layer(PACK, '1')]);
        long["layers"][0]["digest"] = json!(format!("sha512:{}", "1".repeat(128)));
        for (of, said) in [
            (&image, "`application/vnd.oci.image.config.v1+json`"),
            (&typed, "`application/vnd.example`"),
            (&two, "several layers"),
            (&wrong, "damaged"),
            (&long, "only SHA-256"),
            (&json!([]), "no JSON object"),
            (&json!({}), "damaged"),
        ] {
            let why = found(of, "application/vnd.oci.image.manifest.v1+json").unwrap_err();
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn an_index_is_searched_where_a_pack_may_be() {
        let other = json!({"artifactType": "application/vnd.dev.cosign.artifact.sig.v1+json"});
        let mut signature = blob('2', 5);
        signature["artifactType"] = other["artifactType"].clone();
        let mut typed = json!({"schemaVersion": 2, "manifests": [blob('1', 9), signature.clone()]});
        let wanted = Blob { digest: format!("sha256:{}", "1".repeat(64)), size: 9 };
        for kind in INDEXES {
            assert_eq!(found(&typed, kind), Ok(Found::AnyOf(vec![wanted.clone()])), "by the header");
        }
        typed["mediaType"] = json!(INDEXES[0]);
        assert_eq!(found(&typed, "text/plain"), Ok(Found::AnyOf(vec![wanted])), "by its own word");
        typed["manifests"] = json!([signature]);
        assert!(found(&typed, "text/plain").unwrap_err().contains("names no manifest"));
        typed["manifests"] = (0..40).map(|_| blob('3', 1)).collect();
        assert!(matches!(found(&typed, "text/plain"), Ok(Found::AnyOf(some)) if some.len() == MANIFESTS));
    }
}
