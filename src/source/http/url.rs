//! The URL of an archive: parsed once, resolved against redirects, shown without what may be secret.

use std::fmt;

use http::Uri;

/// An absolute `http` or `https` URL with a host and without credentials in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    uri: Uri,
}

impl Url {
    /// Reads an absolute URL. The error says what is wrong with it.
    ///
    /// # Errors
    /// Another scheme, no host, credentials before the host, or no URL at all.
    pub fn parse(text: &str) -> Result<Self, String> {
        // A fragment is for readers of a page, not for the server.
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        let uri: Uri = text.parse().map_err(|error| format!("it is no URL: {error}"))?;
        match uri.scheme_str() {
            Some("http" | "https") => {}
            Some(other) => return Err(format!("its scheme is `{other}`: only http and https are fetched")),
            None => return Err("it has no scheme: start it with https://".to_owned()),
        }
        let Some(authority) = uri.authority() else { return Err("it names no host".to_owned()) };
        if authority.as_str().contains('@') {
            return Err("it holds credentials: put them into the Secret of secretRef".to_owned());
        }
        if uri.host().is_none_or(|host| bare(host).is_empty()) {
            return Err("it names no host".to_owned());
        }
        // `Uri` reads `host:` and `host:99999` as having no port, which would silently be the default one.
        let after_host = authority.as_str().rsplit_once(']').map_or(authority.as_str(), |(_, rest)| rest);
        if after_host.contains(':') && uri.port_u16().is_none() {
            return Err("its port is no number from 1 to 65535".to_owned());
        }
        Ok(Self { uri })
    }

    /// Where a redirect from here leads, by RFC 3986.
    ///
    /// # Errors
    /// As [`Url::parse`].
    pub fn join(&self, location: &str) -> Result<Self, String> {
        let location = location.trim();
        let scheme = self.scheme();
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let path = self.uri.path();
        let text = if has_scheme(location) {
            location.to_owned()
        } else if let Some(rest) = location.strip_prefix("//") {
            format!("{scheme}://{rest}")
        } else if location.starts_with('/') {
            format!("{scheme}://{authority}{}", without_dots(location))
        } else if location.is_empty() || location.starts_with(['?', '#']) {
            format!("{scheme}://{authority}{path}{location}")
        } else {
            let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{scheme}://{authority}{}", without_dots(&format!("{directory}/{location}")))
        };
        Self::parse(&text)
    }

    /// What lies beside it, under the same path with an ending. The query stays: it may be what lets one in.
    ///
    /// # Errors
    /// As [`Url::parse`].
    pub(in crate::source) fn beside(&self, ending: &str) -> Result<Self, String> {
        let query = self.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        Self::parse(&format!("{}://{}{}{ending}{query}", self.scheme(), self.authority(), self.uri.path()))
    }

    /// As it was written.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// `http` or `https`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        self.uri.scheme_str().unwrap_or_default()
    }

    #[must_use]
    pub fn is_https(&self) -> bool {
        self.scheme() == "https"
    }

    /// The host without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        bare(self.uri.host().unwrap_or_default())
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or_else(|| if self.is_https() { 443 } else { 80 })
    }

    /// `host:port`, as `CONNECT` wants it.
    #[must_use]
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.uri.host().unwrap_or_default(), self.port())
    }

    /// Value of the `Host` header.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// Path and query, as a server wants it in the request line.
    #[must_use]
    pub fn target(&self) -> &str {
        self.uri.path_and_query().map_or("/", |target| target.as_str())
    }

    /// Whether credentials for `self` may go to `other`: the same host and port, or the same host when plain HTTP
    /// moves on to HTTPS, both on their own ports.
    #[must_use]
    pub fn trusts(&self, other: &Self) -> bool {
        let same = self.scheme() == other.scheme() && self.port() == other.port();
        let upgraded = !self.is_https() && other.is_https() && (self.port(), other.port()) == (80, 443);
        self.host().eq_ignore_ascii_case(other.host()) && (same || upgraded)
    }
}

/// Without the query: signed URLs carry their credentials there.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme(), self.authority(), self.uri.path())?;
        if self.uri.query().is_some() { f.write_str("?...") } else { Ok(()) }
    }
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

fn has_scheme(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.'))
}

/// Takes `.` and `..` out of the path of `target`; its query stays.
fn without_dots(target: &str) -> String {
    let (path, rest) = target.find(['?', '#']).map_or((target, ""), |at| target.split_at(at));
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    // What ends in a dot segment is a directory.
    let slash =
        if matches!(path.rsplit('/').next(), Some("." | "..")) && !parts.is_empty() { "/" } else { "" };
    format!("/{}{slash}{rest}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_url_is_taken_apart() {
        for (text, host, port, target) in [
            ("https://example.com/a.tgz", "example.com", 443, "/a.tgz"),
            ("http://example.com", "example.com", 80, "/"),
            ("http://example.com:8080/a?b=c#d", "example.com", 8080, "/a?b=c"),
            ("https://[2001:db8::1]:444/x", "2001:db8::1", 444, "/x"),
            ("http://[::1]/x", "::1", 80, "/x"),
        ] {
            let url = url(text);
            assert_eq!((url.host(), url.port(), url.target()), (host, port, target), "{text}");
        }
        assert_eq!(url("https://[::1]/x").host_and_port(), "[::1]:443");
    }

    #[test]
    fn what_is_no_url_of_an_archive_is_refused() {
        for (text, why) in [
            ("ftp://example.com/a", "scheme"),
            ("file:///etc/passwd", ""),
            ("/a.tgz", "scheme"),
            ("example.com/a", ""),
            ("https://", ""),
            ("https:///a", ""),
            ("https://user:secret@example.com/a", "credentials"),
            ("https://example.com:99999/a", "port"),
            ("https://example.com:/a", "port"),
            ("https://exa mple.com/a", "no URL"),
            ("https://bücher.example/a", "no URL"),
            ("", ""),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret@"), "{text}: {error}");
        }
    }

    #[test]
    fn redirects_are_resolved_as_browsers_do() {
        let from = url("https://example.com:8443/a/b/c.tgz?token=x");
        for (location, to) in [
            ("https://other.example/x?y=z", "https://other.example/x?y=z"),
            ("//other.example/x", "https://other.example/x"),
            ("/x/./y/../z", "https://example.com:8443/x/z"),
            ("d.tgz", "https://example.com:8443/a/b/d.tgz"),
            ("../d.tgz?q=../r", "https://example.com:8443/a/d.tgz?q=../r"),
            ("../../../../d.tgz", "https://example.com:8443/d.tgz"),
            ("./", "https://example.com:8443/a/b/"),
            ("..", "https://example.com:8443/a/"),
            ("?page=2", "https://example.com:8443/a/b/c.tgz?page=2"),
        ] {
            assert_eq!(from.join(location).unwrap(), url(to), "{location}");
        }
        for location in ["gopher://x/", "javascript:alert(1)", "https://u:p@h/", "//"] {
            from.join(location).unwrap_err();
        }
    }

    #[test]
    fn a_url_is_shown_without_its_query() {
        assert_eq!(url("https://h:1/a?token=s3cret").to_string(), "https://h:1/a?...");
        assert_eq!(url("https://h/a").to_string(), "https://h/a");
    }

    #[test]
    fn credentials_go_to_their_own_host_only() {
        let from = url("https://example.com/a");
        for (to, trusted) in [
            ("https://example.com/b", true),
            ("https://EXAMPLE.com:443/b", true),
            ("https://example.com:8443/b", false),
            ("http://example.com/b", false),
            ("https://cdn.example.com/b", false),
            ("https://example.com.evil.example/b", false),
        ] {
            assert_eq!(from.trusts(&url(to)), trusted, "{to}");
        }
        assert!(url("http://example.com/a").trusts(&from), "the way up is the same host");
        assert!(!url("http://example.com:8080/a").trusts(&from));
    }
}
