//! Which entry of an object is the archive: in `binaryData` of a ConfigMap or in `data` of a Secret.

use crate::cluster::{Contents, Reference, Referent};
use crate::pack::{Limits, Pack, read_archive};
use crate::source::signature::{Keys, check_beside};
use crate::source::{Error, HIDDEN, MINISIG};

/// The archive in an object and the key under which it stands.
///
/// # Errors
/// [`Error::NotFound`] when the key, or any entry, is missing; [`Error::Invalid`] when no key was given and there are
/// several entries, when the entry is text, or when the object is labelled as a revision record.
fn archive<'c>(
    reference: &Reference,
    contents: &'c Contents,
    key: Option<&str>,
) -> Result<(&'c str, &'c [u8]), Error> {
    let what = reference.to_string();
    let invalid = |why: String| Err(Error::Invalid { what: what.clone(), why });
    let (part, field) = match reference.kind {
        Referent::ConfigMap | Referent::ServiceAccount | Referent::Flux(_) => {
            ("binaryData", "spec.pack.configMap.key")
        }
        Referent::Secret => ("data", "spec.pack.secret.key"),
    };
    if contents.is_record {
        return invalid(HIDDEN.to_owned());
    }
    let mut entries = contents.bytes.iter().filter(|(name, _)| key.is_some() || !name.ends_with(MINISIG));
    if let Some(key) = key {
        return match entries.find(|(name, _)| *name == key) {
            Some((name, bytes)) => Ok((name, &bytes.0)),
            None if contents.texts.contains_key(key) => {
                invalid(format!("`{key}` is text: put the archive into `{part}`"))
            }
            None => Err(Error::NotFound { what: format!("key `{key}` of {what}") }),
        };
    }
    match (entries.next(), entries.next()) {
        (Some((name, bytes)), None) => Ok((name, &bytes.0)),
        (Some(_), Some(_)) => invalid(format!("it has several entries in `{part}`: name one in `{field}`")),
        (None, _) => Err(Error::NotFound { what: format!("an archive in `{part}` of {what}") }),
    }
}

/// The pack in an object. With keys one of them has to have signed it: the signature is under the key of the archive and `.minisig`, as
/// text or as bytes.
///
/// # Errors
/// Those of [`archive`], [`Error::Pack`] when the bytes are not a pack, and [`Error::Signature`].
pub(super) fn pack_from(
    reference: &Reference,
    contents: &Contents,
    key: Option<&str>,
    keys: Option<&Keys>,
    limits: &Limits,
) -> Result<Pack, Error> {
    let (key, bytes) = archive(reference, contents, key)?;
    if let Some(keys) = keys {
        let beside = format!("{key}{MINISIG}");
        let text = contents.texts.get(&beside).map(|text| text.as_bytes());
        let minisig = text.or_else(|| contents.bytes.get(&beside).map(|bytes| &*bytes.0));
        check_beside(keys, bytes, minisig)
            .map_err(|why| Error::Signature { what: format!("key `{key}` of {reference}"), why })?;
    }
    read_archive(bytes, limits)
        .map_err(|error| Error::Pack { what: format!("key `{key}` of {reference}"), error })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;

    use super::*;
    use crate::api::ReferenceKind;
    use crate::pack::{Files, write_archive};

    const BOTH: [ReferenceKind; 2] = [ReferenceKind::ConfigMap, ReferenceKind::Secret];

    fn archive_bytes() -> Vec<u8> {
        let text = "apiVersion: sherpack/v1\nmetadata: {name: web, version: 1.0.0}\n";
        write_archive(&Files::from([("Pack.yaml".to_owned(), text.into())])).unwrap()
    }

    fn reference(kind: ReferenceKind) -> Reference {
        Reference::new(kind, "apps", "web-pack")
    }

    fn contents(kind: ReferenceKind, entries: &[(&str, &[u8])]) -> Contents {
        let bytes = entries.iter().map(|(key, bytes)| ((*key).to_owned(), ByteString(bytes.to_vec())));
        let mut contents = Contents { bytes: bytes.collect(), ..Contents::default() };
        if kind == ReferenceKind::ConfigMap {
            contents.texts.insert("notes".to_owned(), "text".to_owned());
        }
        contents
    }

    #[test]
    fn the_only_entry_needs_no_key() {
        for kind in BOTH {
            let contents = contents(kind, &[("web.tgz", &archive_bytes())]);
            for key in [None, Some("web.tgz")] {
                let pack = pack_from(&reference(kind), &contents, key, None, &Limits::default()).unwrap();
                assert_eq!(pack.metadata.name, "web");
            }
        }
    }

    #[test]
    fn every_failure_has_its_reason_and_names_the_object_and_its_field() {
        let bytes = archive_bytes();
        for kind in BOTH {
            let one = contents(kind, &[("web.tgz", &bytes)]);
            let two = contents(kind, &[("a", &bytes), ("b", &bytes)]);
            let bad = contents(kind, &[("a", b"garbage")]);
            let record = Contents { is_record: true, ..one.clone() };
            let field = if kind == ReferenceKind::Secret {
                "spec.pack.secret.key"
            } else {
                "spec.pack.configMap.key"
            };
            for (contents, key, reason, part) in [
                (&one, Some("other"), "SourceNotFound", "`other`"),
                (&two, None, "SourceInvalid", field),
                (&contents(kind, &[]), None, "SourceNotFound", "an archive"),
                (&bad, None, "PackNotAnArchive", "key `a`"),
                (&record, None, "SourceInvalid", "sherpack.io/storage-driver"),
            ] {
                let error = pack_from(&reference(kind), contents, key, None, &Limits::default()).unwrap_err();
                assert_eq!(error.reason(), reason, "{error}");
                let name = format!("{} apps/web-pack", kind.as_str());
                assert!(error.to_string().contains(&name), "{error}");
                assert!(error.to_string().contains(part), "{error}");
            }
        }
        let texts = contents(ReferenceKind::ConfigMap, &[("web.tgz", &bytes)]);
        let reference = reference(ReferenceKind::ConfigMap);
        let error = pack_from(&reference, &texts, Some("notes"), None, &Limits::default()).unwrap_err();
        assert_eq!(error.reason(), "SourceInvalid");
        assert!(error.to_string().contains("binaryData"), "{error}");
    }
}
