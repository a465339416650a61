//! Where a pack and its values come from: what of `spec.pack` and `spec.valuesFrom` is valid, and with which operator.

use super::resolved::{PackFrom, VALUES_FROM_MAX, VALUES_KEY, ValuesFrom};
use crate::api::{HttpSource, Invalid, ObjectKey, PackSource, Policy, ReferenceKind, ValuesReference};

/// The supported source that is set; none when it is another one.
pub(super) fn pack_from(pack: &PackSource, policy: &Policy) -> Result<Option<PackFrom>, Invalid> {
    let PackSource { config_map, secret, http, repository, oci, artifact, path } = pack;
    let set = [
        config_map.is_some(),
        secret.is_some(),
        http.is_some(),
        repository.is_some(),
        oci.is_some(),
        artifact.is_some(),
        path.is_some(),
    ];
    match set.iter().filter(|set| **set).count() {
        0 => {
            return Err(Invalid::spec("spec.pack", "no source is set: set one, such as configMap"));
        }
        1 => {}
        more => {
            let message = format!("{more} sources are set: exactly one must be");
            return Err(Invalid::spec("spec.pack", message));
        }
    }
    for (kind, field, object) in [
        (ReferenceKind::ConfigMap, "spec.pack.configMap.name", config_map),
        (ReferenceKind::Secret, "spec.pack.secret.name", secret),
    ] {
        let Some(ObjectKey { name, key }) = object else { continue };
        if name.is_empty() {
            return Err(Invalid::spec(field, format!("is empty: name the {}", kind.as_str())));
        }
        return Ok(Some(PackFrom::Object { kind, name: name.clone(), key: key.clone() }));
    }
    if let Some(http) = http {
        return http_from(http).map(Some);
    }
    let Some(path) = path else { return Ok(None) };
    if !policy.pack_dir_enabled {
        return Err(Invalid::spec(
            "spec.pack.path",
            "the operator was started without a pack directory: start it with --pack-dir, or use another source",
        ));
    }
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']);
    if !path.split('/').all(plain) {
        let message = format!(
            "`{path}` is not a plain relative path: write it below --pack-dir, without `.`, `..` or a leading `/`"
        );
        return Err(Invalid::spec("spec.pack.path", message));
    }
    Ok(Some(PackFrom::Path(path.clone())))
}

/// The sources of values, in the order in which they are merged.
pub(super) fn values_sources(entries: &[ValuesReference]) -> Result<Vec<ValuesFrom>, Invalid> {
    if entries.len() > VALUES_FROM_MAX {
        let message =
            format!("has {} entries, at most {VALUES_FROM_MAX} are allowed: merge some", entries.len());
        return Err(Invalid::spec("spec.valuesFrom", message));
    }
    let mut sources = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let ValuesReference { kind, name, key, target_path, optional } = entry;
        let empty = [("name", Some(name)), ("key", key.as_ref()), ("targetPath", target_path.as_ref())];
        for (field, text) in empty {
            if text.is_some_and(String::is_empty) {
                let field = format!("spec.valuesFrom[{number}].{field}");
                return Err(Invalid::spec(&field, "is empty: set it, or leave an optional one out"));
            }
        }
        sources.push(ValuesFrom {
            kind: *kind,
            name: name.clone(),
            key: key.clone().unwrap_or_else(|| VALUES_KEY.to_owned()),
            target_path: target_path.clone(),
            optional: optional.unwrap_or(false),
        });
    }
    Ok(sources)
}

fn http_from(http: &HttpSource) -> Result<PackFrom, Invalid> {
    let HttpSource { url, digest, secret_ref } = http;
    let rest =
        ["https://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme)).ok_or_else(|| {
            Invalid::spec("spec.pack.http.url", "is no URL of an archive: start it with https:// or http://")
        })?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        // Not shown: it is a password.
        let message = "holds credentials, which everybody can read here: put them into a Secret and name it in secretRef";
        return Err(Invalid::spec("spec.pack.http.url", message));
    }
    if authority.is_empty() {
        return Err(Invalid::spec("spec.pack.http.url", "names no host"));
    }
    if let Some(digest) = digest {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        let lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if hex.len() != 64 || !hex.bytes().all(lower) {
            let message = format!("`{digest}` is no digest: write sha256: and 64 lower-case hex digits");
            return Err(Invalid::spec("spec.pack.http.digest", message));
        }
    }
    let secret = secret_ref.as_ref().map(|secret| secret.name.clone());
    if secret.as_ref().is_some_and(String::is_empty) {
        return Err(Invalid::spec("spec.pack.http.secretRef.name", "is empty: name the Secret"));
    }
    Ok(PackFrom::Http { url: url.clone(), digest: digest.clone(), secret })
}
