//! How a registry wants to be told who asks: `WWW-Authenticate`, by RFC 9110 and the registries' token specification.

use http::header::{HeaderMap, WWW_AUTHENTICATE};

use crate::source::http::Url;

/// What a registry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// Name and password.
    Basic,
    /// A token from a server.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// The first challenge of an answer that is known here.
pub(super) fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    headers.get_all(WWW_AUTHENTICATE).iter().find_map(|value| known(value.to_str().ok()?))
}

fn known(value: &str) -> Option<Challenge> {
    let (scheme, rest) = value.trim().split_once(' ').unwrap_or_else(|| (value.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let parameters = parameters(rest);
    let of = |name: &str| {
        let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    };
    Some(Challenge::Bearer { realm: of("realm")?, service: of("service"), scope: of("scope") })
}

/// `key=value` and `key="value"`, separated by commas.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_matches([' ', ',', '\t']).to_owned();
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((key, value.trim().to_owned()));
        rest = after;
    }
    found
}

/// Where a token is to be had, for `scope` unless the registry says for what.
pub(super) fn token_url(realm: &str, service: Option<&str>, scope: &str) -> Result<Url, String> {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if let Some(service) = service {
        query.append_pair("service", service);
    }
    query.append_pair("scope", scope);
    let separator = if realm.contains('?') { '&' } else { '?' };
    Url::parse(&format!("{realm}{separator}{}", query.finish()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&'static str]) -> Option<Challenge> {
        let headers = values.iter().map(|value| (WWW_AUTHENTICATE, HeaderValue::from_static(value)));
        challenge(&headers.collect())
    }

    #[test]
    fn a_challenge_is_read_as_registries_write_it() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let text = |text: &str| text.to_owned();
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(text),
                scope: scope.map(text),
            })
        };
        for (values, read_as) in [
            (&["Basic realm=\"r\""][..], Some(Challenge::Basic)),
            (&["basic"], Some(Challenge::Basic)),
            (&["Negotiate", "Basic realm=x"], Some(Challenge::Basic)),
            (&["Digest realm=\"r\""], None),
            (&[], None),
            (&["Bearer service=\"s\""], None),
            (&["Bearer realm=\"\""], None),
            (
                &[
                    "Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\",scope=\"repository:a/b:pull,push\"",
                ],
                bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                ),
            ),
            (&["bearer Realm=https://a/t, service=s"], bearer("https://a/t", Some("s"), None)),
            (
                &["Bearer realm=\"https://a/t?x=1\",error=\"invalid_token\""],
                bearer("https://a/t?x=1", None, None),
            ),
            (&["Bearer realm=\"unterminated"], bearer("unterminated", None, None)),
        ] {
            assert_eq!(read(values), read_as, "{values:?}");
        }
    }

    #[test]
    fn a_token_is_asked_for_with_everything_escaped() {
        let url = token_url("https://a/t", Some("a b&c"), "repository:x/y:pull").unwrap();
        assert_eq!(url.uri().to_string(), "https://a/t?service=a+b%26c&scope=repository%3Ax%2Fy%3Apull");
        let url = token_url("https://a/t?x=1", None, "s").unwrap();
        assert_eq!(url.uri().to_string(), "https://a/t?x=1&scope=s");
        assert!(token_url("ftp://a", None, "s").is_err());
    }
}
