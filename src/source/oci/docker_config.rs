//! Credentials for a registry, from a Secret as `kubectl create secret docker-registry` makes it, or with the keys that every
//! source knows; or from the file of a user, which `docker login` writes.

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

/// What helpers call it.
const DOCKER_HUB_SERVER: &str = "https://index.docker.io/v1/";
/// The name that stands beside an identity token.
const TOKEN_USER: &str = "<token>";

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
    let registry = artifact.registry();
    let Some(config) = data.get(CONFIG) else { return Credentials::read(data) };
    let config: Config = read(&config.0, CONFIG)?;
    let Some(login) = best(&config.auths, artifact) else {
        return Err(format!("`{CONFIG}` has no entry for {registry}"));
    };
    let (username, password) = login.pair(CONFIG, registry)?;
    // Certificates may stand beside it.
    let certificates: BTreeMap<_, _> =
        data.iter().filter(|(key, _)| key.starts_with("tls.") || *key == "ca.crt").map(own).collect();
    let others =
        if certificates.is_empty() { Credentials::default() } else { Credentials::read(&certificates)? };
    Ok(Credentials { authorization: Some(basic(&username, &password)?), ..others })
}

fn read<'c, T: Deserialize<'c>>(config: &'c [u8], file: &str) -> Result<T, String> {
    serde_json::from_slice(config)
        .map_err(|error| format!("`{file}` is no docker config: line {}", error.line()))
}

/// The entry that says most of an artifact.
fn best<'e, T>(entries: &'e BTreeMap<String, T>, artifact: &Artifact) -> Option<&'e T> {
    let (registry, repository) = (artifact.registry(), artifact.repository());
    let fits = entries.iter().filter_map(|(name, entry)| Some((fit(name, registry, repository)?, entry)));
    fits.max_by_key(|(fit, _)| *fit).map(|(_, entry)| entry)
}

/// What the file of a user says of who asks a registry.
#[derive(Debug, Default)]
pub struct Stored {
    /// The program `docker-credential-NAME` that is asked first, and the name under which it knows the registry.
    pub helper: Option<(String, String)>,
    pub credentials: Option<Credentials>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserConfig {
    #[serde(default)]
    auths: BTreeMap<String, Login>,
    /// By registry.
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
    /// For all others.
    #[serde(default)]
    creds_store: String,
}

/// Reads the docker config that is called `file` for an artifact. The error names the entry and never what stands in it.
///
/// # Errors
/// A config that is damaged, an entry that cannot be used.
pub fn stored(config: &[u8], file: &str, artifact: &Artifact) -> Result<Stored, String> {
    let config: UserConfig = read(config, file)?;
    let registry = artifact.registry();
    let named = best(&config.cred_helpers, artifact).or(Some(&config.creds_store));
    let server = if DOCKER_HUB.contains(&registry) { DOCKER_HUB_SERVER } else { registry };
    let helper = named.filter(|name| !name.is_empty()).map(|name| (name.clone(), server.to_owned()));
    // Where a helper has the password, the entry is there and empty.
    let login = best(&config.auths, artifact).filter(|login| !login.is_empty());
    let pair = login.map(|login| login.pair(file, registry)).transpose()?;
    let header = pair.map(|(username, password)| basic(&username, &password)).transpose()?;
    let credentials =
        header.map(|header| Credentials { authorization: Some(header), ..Credentials::default() });
    Ok(Stored { helper, credentials })
}

/// Reads what a helper has printed. The error does not show it.
///
/// # Errors
/// What is no name with a password.
pub fn of_helper(printed: &[u8]) -> Result<Credentials, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Printed {
        username: String,
        secret: String,
    }
    let Printed { username, secret } = serde_json::from_slice(printed)
        .map_err(|_| "it prints something else than a JSON object with Username and Secret".to_owned())?;
    if username == TOKEN_USER {
        return Err("it holds an identity token, which is not supported: log in with a password".to_owned());
    }
    Ok(Credentials { authorization: Some(basic(&username, &secret)?), ..Credentials::default() })
}

fn own((key, value): (&String, &ByteString)) -> (String, ByteString) {
    (key.clone(), value.clone())
}

impl Login {
    fn is_empty(&self) -> bool {
        let Self { username, password, auth, identitytoken } = self;
        [username, password, auth, identitytoken].into_iter().all(String::is_empty)
    }

    fn pair(&self, file: &str, registry: &str) -> Result<(String, String), String> {
        if !self.username.is_empty() {
            return Ok((self.username.clone(), self.password.clone()));
        }
        if self.auth.is_empty() {
            let why = if self.identitytoken.is_empty() {
                "has no username"
            } else {
                "holds an identity token, which is not supported: put a username and a password there"
            };
            return Err(format!("`{file}`: the entry for {registry} {why}"));
        }
        let text = STANDARD.decode(self.auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = text.as_deref().and_then(|text| text.split_once(':'));
        let (username, password) = pair
            .ok_or_else(|| format!("`{file}`: `auth` of {registry} is no username and password in base64"))?;
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
    fn the_file_of_a_user_names_helpers_and_logins() {
        let config = json!({
            "auths": {"r": {}, "kept": {"auth": "YWxhZGRpbjpvcGVuIHNlc2FtZQ=="}},
            "credHelpers": {"gcr.io": "gcloud", "r/team": "team"},
            "credsStore": "desktop",
        });
        let read = |config: &Value, registry: &str| {
            let read = stored(config.to_string().as_bytes(), "config.json", &artifact(registry)).unwrap();
            (read.helper, read.credentials.map(|found| found.authorization.unwrap()))
        };
        let helper = |name: &str, server: &str| Some((name.to_owned(), server.to_owned()));
        let open = Some(basic("aladdin", "open sesame").unwrap());
        for (registry, named, shown) in [
            ("gcr.io", helper("gcloud", "gcr.io"), None),
            ("r", helper("team", "r"), None),
            ("other", helper("desktop", "other"), None),
            ("kept", helper("desktop", "kept"), open.clone()),
            ("docker.io", helper("desktop", "https://index.docker.io/v1/"), None),
        ] {
            assert_eq!(read(&config, registry), (named, shown), "{registry}");
        }
        let bare = json!({"auths": config["auths"], "HttpHeaders": {}});
        assert_eq!(read(&bare, "kept"), (None, open));
        assert_eq!(read(&json!({}), "kept"), (None, None));
        let token = json!({"auths": {"r": {"identitytoken": "s3cret"}}}).to_string();
        let error = stored(token.as_bytes(), "config.json", &artifact("r")).unwrap_err();
        assert!(error.contains("`config.json`") && !error.contains("s3cret"), "{error}");
    }

    #[test]
    fn a_helper_prints_a_name_and_a_password() {
        let found =
            of_helper(br#"{"ServerURL": "r", "Username": "aladdin", "Secret": "open sesame"}"#).unwrap();
        assert_eq!(found.authorization, Some(basic("aladdin", "open sesame").unwrap()));
        for printed in [
            "s3cret",
            r#"{"Username": "s3cret"}"#,
            r#"{"Username": "<token>", "Secret": "s3cret"}"#,
            r#"{"Username": "a:b", "Secret": "s3cret"}"#,
        ] {
            let error = of_helper(printed.as_bytes()).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
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
