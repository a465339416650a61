//! Credentials for a registry, from a Secret as `kubectl create secret docker-registry` makes it, or with the keys that every
//! source knows.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use serde::Deserialize;

use super::artifact::Artifact;
use crate::source::http::{Credentials, basic};

const CONFIG: &str = ".dockerconfigjson";
/// Docker Hub is kept under other names than it is called by.
const DOCKER_HUB: [&str; 3] = ["docker.io", "index.docker.io", "registry-1.docker.io"];

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auths: BTreeMap<String, Login>,
}

#[derive(Deserialize)]
struct Login {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    /// Both, with a colon between them, in base64.
    #[serde(default)]
    auth: String,
    /// A token that only an own request exchanges for others.
    #[serde(default)]
    identitytoken: String,
}

/// Reads the data of a Secret for an artifact. An entry may be for a registry or for a part of it; the one that says most counts.
/// The error names the key and never what stands under it.
///
/// # Errors
/// As [`Credentials::read`]; a config that is damaged, or that does not name the registry.
pub fn credentials(data: &BTreeMap<String, ByteString>, artifact: &Artifact) -> Result<Credentials, String> {
    let (registry, repository) = (artifact.registry(), artifact.repository());
    let Some(config) = data.get(CONFIG) else { return Credentials::read(data) };
    let config: Config = serde_json::from_slice(&config.0)
        .map_err(|error| format!("`{CONFIG}` is no docker config: line {}", error.line()))?;
    let fits =
        config.auths.iter().filter_map(|(name, login)| Some((fit(name, registry, repository)?, login)));
    let login = fits.max_by_key(|(fit, _)| *fit).map(|(_, login)| login);
    let Some(login) = login else {
        return Err(format!("`{CONFIG}` has no entry for {registry}"));
    };
    let (username, password) = login.pair(registry)?;
    // Certificates may stand beside it.
    let certificates: BTreeMap<_, _> =
        data.iter().filter(|(key, _)| key.starts_with("tls.") || *key == "ca.crt").map(own).collect();
    let others =
        if certificates.is_empty() { Credentials::default() } else { Credentials::read(&certificates)? };
    Ok(Credentials { authorization: Some(basic(&username, &password)?), ..others })
}

fn own((key, value): (&String, &ByteString)) -> (String, ByteString) {
    (key.clone(), value.clone())
}

impl Login {
    fn pair(&self, registry: &str) -> Result<(String, String), String> {
        if !self.username.is_empty() {
            return Ok((self.username.clone(), self.password.clone()));
        }
        if self.auth.is_empty() {
            let why = if self.identitytoken.is_empty() {
                "has no username"
            } else {
                "holds an identity token, which is not supported: put a username and a password there"
            };
            return Err(format!("`{CONFIG}`: the entry for {registry} {why}"));
        }
        let text = STANDARD.decode(self.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = text.as_deref().and_then(|text| text.split_once(':'));
        let (username, password) = pair.ok_or_else(|| {
            format!("`{CONFIG}`: `auth` of {registry} is no username and password in base64")
        })?;
        Ok((username.to_owned(), password.trim_end_matches('\0').to_owned()))
    }
}

/// How much an entry says of a repository: the length of the path that it names; `None`: nothing. It may be written as a URL.
fn fit(entry: &str, registry: &str, repository: &str) -> Option<usize> {
    let bare = entry.strip_prefix("https://").or_else(|| entry.strip_prefix("http://")).unwrap_or(entry);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let same =
        host.eq_ignore_ascii_case(registry) || (DOCKER_HUB.contains(&host) && DOCKER_HUB.contains(&registry));
    // The end of the API that a URL names is no part of a repository.
    let path = match path.trim_end_matches('/') {
        "v1" | "v2" => "",
        path => path,
    };
    let rest = repository.strip_prefix(path)?;
    (same && (path.is_empty() || rest.is_empty() || rest.starts_with('/'))).then_some(path.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::source::oci::Wanted;

    fn artifact(registry: &str) -> Artifact {
        Artifact::parse(&format!("oci://{registry}/team/web"), Wanted::Tag("1".to_owned()), false).unwrap()
    }

    fn read(config: &Value, registry: &str) -> Result<Credentials, String> {
        let data = BTreeMap::from([(CONFIG.to_owned(), ByteString(config.to_string().into_bytes()))]);
        credentials(&data, &artifact(registry))
    }

    #[test]
    fn of_several_entries_the_one_that_says_most_counts() {
        let login = |name: &str| json!({"username": name, "password": ""});
        let all = ["r", "r/team", "r/team/web", "r/team/we", "r/other", "other/team/web", "r/team/web/x"];
        for (some, chosen) in [(7, Some("r/team/web")), (2, Some("r/team")), (1, Some("r"))] {
            let auths: Value = all[..some].iter().map(|name| ((*name).to_owned(), login(name))).collect();
            let shown = read(&json!({"auths": auths}), "r").ok().and_then(|found| found.authorization);
            let expected = chosen.map(|name| basic(name, "").unwrap());
            assert_eq!(shown, expected, "of {some}");
        }
        let hub = json!({"auths": {"https://index.docker.io/v1/access-token": login("no"), "https://index.docker.io/v1/": login("yes")}});
        assert_eq!(read(&hub, "docker.io").unwrap().authorization, Some(basic("yes", "").unwrap()));
    }

    #[test]
    fn the_entry_of_the_registry_is_found_however_it_is_written() {
        let login = json!({"username": "aladdin", "password": "open sesame"});
        let encoded = json!({"auth": "YWxhZGRpbjpvcGVuIHNlc2FtZQ=="});
        for (entry, registry) in [
            ("ghcr.io", "ghcr.io"),
            ("https://GHCR.io/v2/", "ghcr.io"),
            ("r:5000", "r:5000"),
            ("http://r:5000", "r:5000"),
            ("https://index.docker.io/v1/", "docker.io"),
            ("docker.io", "docker.io"),
        ] {
            for login in [&login, &encoded] {
                let found =
                    read(&json!({"auths": {"other": {"username": "x"}, entry: login}}), registry).unwrap();
                let header = found.authorization.unwrap();
                assert_eq!(header, "Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==", "{entry}");
                assert!(header.is_sensitive());
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_what_is_secret() {
        for (config, said) in [
            (json!("s3cret"), "no docker config"),
            (json!({"auths": {"s3cret:5000": {"auth": "s3cret"}}}), "no entry for r"),
            (json!({}), "no entry for r"),
            (json!({"auths": {"r": {}}}), "no username"),
            (json!({"auths": {"r": {"identitytoken": "s3cret"}}}), "identity token"),
            (json!({"auths": {"r": {"auth": "s3cret"}}}), "in base64"),
            (json!({"auths": {"r": {"username": "a:s3cret", "password": "b"}}}), "colon"),
        ] {
            let error = read(&config, "r").unwrap_err();
            assert!(error.contains(said) && !error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn the_keys_of_other_sources_are_known_too() {
        let text = |text: &str| ByteString(text.as_bytes().to_vec());
        let data = BTreeMap::from([("username".to_owned(), text("a")), ("password".to_owned(), text("b"))]);
        assert_eq!(credentials(&data, &artifact("r")).unwrap().authorization.unwrap(), "Basic YTpi");
        let data = BTreeMap::from([
            (CONFIG.to_owned(), text(r#"{"auths": {"r": {"username": "a", "password": "b"}}}"#)),
            ("ca.crt".to_owned(), text("no certificate")),
        ]);
        assert!(credentials(&data, &artifact("r")).unwrap_err().contains("`ca.crt`"));
    }
}
