//! A pack archive in `binaryData` of a ConfigMap.

use k8s_openapi::api::core::v1::ConfigMap;

use super::Error;
use crate::pack::{Limits, Pack, read_archive};

/// The archive in a ConfigMap and the key under which it stands.
///
/// # Errors
/// [`Error::NotFound`] when the key, or any entry, is missing; [`Error::Invalid`] when no key was
/// given and there are several entries, or when the entry is text.
pub fn archive<'c>(config_map: &'c ConfigMap, key: Option<&str>) -> Result<(&'c str, &'c [u8]), Error> {
    let what = name(config_map);
    let mut entries = config_map.binary_data.iter().flatten();
    if let Some(key) = key {
        let is_text = config_map.data.as_ref().is_some_and(|data| data.contains_key(key));
        return match entries.find(|(name, _)| *name == key) {
            Some((name, bytes)) => Ok((name, &bytes.0)),
            None if is_text => Err(Error::Invalid {
                what,
                why: format!("`{key}` is text: put the archive into `binaryData`"),
            }),
            None => Err(Error::NotFound { what: format!("key `{key}` of {what}") }),
        };
    }
    match (entries.next(), entries.next()) {
        (Some((name, bytes)), None) => Ok((name, &bytes.0)),
        (Some(_), Some(_)) => Err(Error::Invalid {
            what,
            why: "it has several entries in `binaryData`: name one in `spec.pack.configMap.key`".to_owned(),
        }),
        (None, _) => Err(Error::NotFound { what: format!("an archive in `binaryData` of {what}") }),
    }
}

/// The pack in a ConfigMap.
///
/// # Errors
/// Those of [`archive`], and [`Error::Pack`] when the bytes are not a pack.
pub fn pack_from(config_map: &ConfigMap, key: Option<&str>, limits: &Limits) -> Result<Pack, Error> {
    let (key, bytes) = archive(config_map, key)?;
    read_archive(bytes, limits)
        .map_err(|error| Error::Pack { what: format!("key `{key}` of {}", name(config_map)), error })
}

fn name(config_map: &ConfigMap) -> String {
    let namespace = config_map.metadata.namespace.as_deref().unwrap_or_default();
    let name = config_map.metadata.name.as_deref().unwrap_or_default();
    format!("ConfigMap {namespace}/{name}")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::pack::{Files, write_archive};

    fn archive_bytes() -> Vec<u8> {
        let text = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n";
        write_archive(&Files::from([("Pack.yaml".to_owned(), text.into())])).unwrap()
    }

    fn config_map(entries: &[(&str, &[u8])]) -> ConfigMap {
        let mut config_map = ConfigMap::default();
        config_map.metadata.name = Some("web-pack".to_owned());
        config_map.metadata.namespace = Some("apps".to_owned());
        config_map.data = Some([("notes".to_owned(), "text".to_owned())].into());
        config_map.binary_data = Some(
            entries.iter().map(|(key, bytes)| ((*key).to_owned(), ByteString(bytes.to_vec()))).collect(),
        );
        config_map
    }

    #[test]
    fn the_only_entry_needs_no_key() {
        let map = config_map(&[("web.tgz", &archive_bytes())]);
        for key in [None, Some("web.tgz")] {
            assert_eq!(pack_from(&map, key, &Limits::default()).unwrap().metadata.name, "web");
        }
    }

    #[test]
    fn every_failure_has_its_reason_and_names_the_object() {
        let bytes = archive_bytes();
        let one = config_map(&[("web.tgz", &bytes)]);
        let two = config_map(&[("a", &bytes), ("b", &bytes)]);
        let bad = config_map(&[("a", b"garbage")]);
        for (map, key, reason) in [
            (&one, Some("other"), "SourceNotFound"),
            (&one, Some("notes"), "SourceInvalid"),
            (&two, None, "SourceInvalid"),
            (&config_map(&[]), None, "SourceNotFound"),
            (&ConfigMap::default(), None, "SourceNotFound"),
            (&bad, None, "PackNotAnArchive"),
        ] {
            let error = pack_from(map, key, &Limits::default()).unwrap_err();
            assert_eq!(error.reason(), reason, "{error}");
            assert!(error.to_string().contains("ConfigMap"), "{error}");
        }
    }
}
