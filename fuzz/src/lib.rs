//! What must hold for any bytes. Each function panics when it does not; the fuzzer looks for such bytes, and
//! `tests/behaviour/corpus.rs` replays what is kept of them with every test run.

pub mod index;
pub mod layers;
pub mod parts;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sherpack_operator::api::names;
use sherpack_operator::manifest::yaml;
use sherpack_operator::pack::render::{self, Capabilities, Input, Lookup, NoCluster, Secrets, Source, Stop};
use sherpack_operator::pack::{self, Files, Limits, Pack, values};
use sherpack_operator::storage::codec::{self, Compression, MacKey};

type Target = fn(&[u8]);

/// Every target by the name of its corpus folder.
pub const TARGETS: [(&str, Target); 10] = [
    ("archive", archive),
    ("yaml", yaml),
    ("template", template),
    ("record", record),
    ("pack_yaml", pack_yaml),
    ("values", values),
    ("schema", schema),
    ("parts", parts::parts),
    ("layers", layers::layers),
    ("index", index::index),
];

const DEFINITION: &[u8] = b"apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n";

/// Small, so that the fuzzer reaches them.
const LIMITS: Limits = Limits { compressed: 1 << 16, unpacked: 1 << 18, entries: 100, path: 100 };

/// An archive, as it is and, when it is no gzip, as the content of one: the fuzzer never finds a right checksum.
pub fn archive(bytes: &[u8]) {
    let packed;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        bytes
    } else {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let _ = encoder.write_all(bytes);
        packed = encoder.finish().unwrap_or_default();
        &packed
    };
    let Ok(pack) = pack::read_archive(bytes, &LIMITS) else { return };
    let size: usize = pack.files.values().map(Vec::len).sum();
    assert!(size as u64 <= LIMITS.unpacked && pack.files.len() <= LIMITS.entries);
    for path in pack.files.keys() {
        assert!(pack::clean(path, LIMITS.path).is_ok(), "{path:?}");
    }
    let again = pack::write_archive(&pack.files).expect("what was read can be written");
    let again = pack::read_archive(&again, &Limits::default()).expect("what was written can be read");
    assert_eq!(again.digest, pack.digest);
}

/// A stream of documents: what is read means the same after it was written.
pub fn yaml(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = yaml::parse_lenient(text, "a.yaml");
    let _ = yaml::parse_value(text, "a.yaml");
    let Ok(documents) = yaml::parse_documents(text, "a.yaml") else { return };
    let written = yaml::join(&documents);
    let again = yaml::parse_documents(&written, "a.yaml");
    assert_eq!(again.as_ref(), Ok(&documents), "{written}");
}

/// A template, strict and not: it ends, never in a panic, and twice in the same.
pub fn template(bytes: &[u8]) {
    for strict in ["true", "false"] {
        let definition = [DEFINITION, b"engine: {strict: ", strict.as_bytes(), b"}\n"].concat();
        let files = Files::from([
            ("Pack.yaml".to_owned(), definition),
            ("templates/a.yaml".to_owned(), bytes.to_vec()),
            ("templates/_lib.j2".to_owned(), b"{% macro m(x) %}{{ x }}{% endmacro %}".to_vec()),
        ]);
        let pack = pack::from_files(files, &Limits::default()).expect("a pack");
        let first = rendered(&pack);
        if let Err(error) = &first {
            assert!(!matches!(error, render::Error::Aborted { .. }), "{error}");
        }
        let second = rendered(&pack);
        assert_eq!(first.map_err(|error| error.to_string()), second.map_err(|error| error.to_string()));
    }
}

fn rendered(pack: &Pack) -> Result<render::Rendered, render::Error> {
    let values = json!({"a": {"b": [1, "two", null, 3.5]}, "self": "{{ tpl(values.self) }}", "text": "äöü ß\n---\n", "yes": true});
    let capabilities =
        Capabilities { kube_version: "v1.33.0".to_owned(), api_versions: vec!["v1".to_owned()] };
    render::render(
        pack,
        &Input {
            release_name: "web",
            namespace: "apps",
            revision: 1,
            is_upgrade: false,
            values: &values,
            capabilities: &capabilities,
            now: Default::default(),
            seed: "seed",
            secrets: Source { kept: &Secrets::new(), random: &[7; 32], made: None },
            lookup: &(Arc::new(NoCluster) as Arc<dyn Lookup>),
            stop: &Stop::default(),
        },
    )
}

/// The content of a record's Secret. The first byte says what of it: the whole blob, or the JSON inside.
pub fn record(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let key = MacKey::new([7; codec::KEY_BYTES]);
    let compression = [Compression::Zstd, Compression::Gzip, Compression::None][usize::from(kind % 3)];
    let label = ["zstd", "gzip", "none"][usize::from(kind % 3)];
    let text = |bytes: &[u8]| base64(bytes).into_bytes();
    let (blob, label) = match kind / 3 % 4 {
        0 => (bytes.to_vec(), label),
        1 => (text(bytes), label),
        // JSON that needs no compression reaches the deepest.
        _ => (text(bytes), "none"),
    };
    let private = (kind / 12 % 2 == 1).then(|| bytes.to_vec());
    let secret = secret(blob, private, label);
    let Ok(decoded) = codec::decode(&secret, &key) else { return };
    assert!(decoded.private.is_none(), "nobody but us can seal");
    let Ok(again) = codec::encode(&decoded.record, None, compression, &key, false) else { return };
    let again = codec::decode(&again, &key).expect("what was written can be read");
    assert_eq!(
        serde_json::to_value(&again.record).expect("JSON"),
        serde_json::to_value(&decoded.record).expect("JSON")
    );
}

fn secret(release: Vec<u8>, private: Option<Vec<u8>>, compression: &str) -> Secret {
    let mut data = BTreeMap::from([(names::DATA_RELEASE.to_owned(), ByteString(release))]);
    data.extend(private.map(|private| (names::DATA_PRIVATE.to_owned(), ByteString(private))));
    Secret {
        metadata: ObjectMeta {
            name: Some("sh.sherpack.release.v1.web.v1".to_owned()),
            namespace: Some("apps".to_owned()),
            labels: Some(BTreeMap::from([(names::COMPRESSION.to_owned(), compression.to_owned())])),
            ..ObjectMeta::default()
        },
        type_: Some(names::RECORD_TYPE.to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// Standard, padded.
fn base64(bytes: &[u8]) -> String {
    let Ok(Value::String(text)) = serde_json::to_value(ByteString(bytes.to_vec())) else {
        return String::new();
    };
    text
}

/// `Pack.yaml`.
pub fn pack_yaml(bytes: &[u8]) {
    let files = Files::from([("Pack.yaml".to_owned(), bytes.to_vec())]);
    let Ok(pack) = pack::from_files(files, &Limits::default()) else { return };
    assert!(!pack.metadata.name.is_empty());
    if let Some(range) = &pack.metadata.kube_version {
        let _ = pack::version::matches(range, "v1.33.0");
    }
}

/// Two texts of values and a `--set` expression, between lines of `%%`.
pub fn values(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.split("%%\n");
    let mut next = || values::parse(parts.next().unwrap_or_default().as_bytes(), "values.yaml");
    let (Ok(base), Ok(over)) = (next(), next()) else { return };
    if let Some(expression) = parts.next() {
        let _ = values::set(base.clone(), expression);
    }
    let merged = values::merge(base.clone(), over.clone());
    assert!(!has_null_below(&merged, &base), "a null of the upper layer removes");
    assert_eq!(values::merge(merged.clone(), over.clone()), merged, "merging twice changes nothing");
    let layers = values::overlay(base.clone(), over.clone());
    let empty = || json!({});
    assert_eq!(
        values::merge(values::merge(empty(), base), over),
        values::merge(empty(), layers),
        "layer by layer or joined is the same"
    );
}

/// A schema and values, between lines of `%%`: holding the one to the other ends, and twice in the same.
pub fn schema(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (schema, values) = text.split_once("%%\n").unwrap_or((text, ""));
    for file in ["values.schema.json", "values.schema.yaml"] {
        let files = Files::from([
            ("Pack.yaml".to_owned(), DEFINITION.to_vec()),
            ("values.yaml".to_owned(), values.as_bytes().to_vec()),
            (file.to_owned(), schema.as_bytes().to_vec()),
        ]);
        let Ok(pack) = pack::from_files(files, &Limits::default()) else { continue };
        let first = rendered(&pack).map_err(|error| error.to_string());
        assert_eq!(first, rendered(&pack).map_err(|error| error.to_string()));
    }
}

/// Whether there is a null that the defaults did not bring.
fn has_null_below(value: &Value, base: &Value) -> bool {
    match value {
        Value::Null => !base.is_null(),
        Value::Object(map) => map.iter().any(|(key, value)| has_null_below(value, &base[key.as_str()])),
        _ => false,
    }
}
