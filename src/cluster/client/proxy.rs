//! Proxies as `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` name them, and the one that leads to the API server.
//!
//! kube reads these variables itself, with a kubeconfig only, and compares `NO_PROXY` with the address of the proxy: what it found
//! is replaced by what is found here.

use std::fmt;
use std::net::IpAddr;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use kube::config::Kubeconfig;

/// The values of the variables; empty: not set. The user who starts the operator chooses them, so no address rule holds.
#[derive(Clone, Default)]
pub struct Proxies {
    pub all: String,
    pub http: String,
    pub https: String,
    pub no: String,
}

/// They may hold a password.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { all, http, https, no } = self;
        f.debug_struct("Proxies")
            .field("all", &!all.is_empty())
            .field("http", &!http.is_empty())
            .field("https", &!https.is_empty())
            .field("no", no)
            .finish()
    }
}

impl Proxies {
    /// Each variable in capitals or, as curl has it, in small letters.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let value = |name: &str| {
            let set = |value: &String| !value.is_empty();
            let small = || variable(&name.to_ascii_lowercase()).filter(set);
            variable(name).filter(set).or_else(small).unwrap_or_default()
        };
        Self {
            all: value("ALL_PROXY"),
            http: value("HTTP_PROXY"),
            https: value("HTTPS_PROXY"),
            no: value("NO_PROXY"),
        }
    }

    /// Those of this process.
    #[must_use]
    pub fn of_environment() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// The proxy that leads to a URL; none when it is asked directly.
    #[must_use]
    pub fn to(&self, url: &Uri) -> Option<Intercept> {
        let Self { all, http, https, no } = self.clone();
        let port = url.port_u16().unwrap_or_else(|| if url.scheme_str() == Some("http") { 80 } else { 443 });
        let matcher = Matcher::builder().all(all).http(http).https(https).no(excepted(&no, port));
        matcher.build().intercept(url)
    }

    /// The proxy that leads to the API server, as kubectl and client-go find it: `ALL_PROXY` is not asked, and what is on
    /// this machine is reached directly. With its user and password, if it has such.
    pub(super) fn to_api_server(&self, server: &Uri) -> kube::Result<Option<Uri>> {
        let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
        let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        let through = Self { all: String::new(), ..self.clone() };
        let Some(found) = through.to(server).filter(|_| !here) else { return Ok(None) };
        let written = if server.scheme_str() == Some("http") { &self.http } else { &self.https };
        let url = if written.contains("://") { written.clone() } else { format!("http://{written}") };
        match (found.uri().scheme_str(), url.parse()) {
            (Some("http" | "https"), Ok(url)) => Ok(Some(url)),
            // Without the password.
            _ => Err(kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(found.uri().clone()) }),
        }
    }
}

/// The entries of `NO_PROXY` for one port, as the matcher reads them: it knows neither `host:port` nor `*.host`.
fn excepted(no: &str, port: u16) -> String {
    let entry = |entry: &str| {
        let entry = entry.trim();
        let literal = entry.contains('/') || entry.parse::<IpAddr>().is_ok();
        let (host, of) = match entry.rsplit_once(':').filter(|_| !literal) {
            Some((host, digits)) => (host.trim_matches(['[', ']']), Some(digits)),
            None => (entry.trim_matches(['[', ']']), None),
        };
        let host = if host.starts_with("*.") { &host[1..] } else { host };
        of.is_none_or(|digits| digits.parse() == Ok(port)).then(|| host.to_owned())
    };
    no.split(',').filter_map(entry).collect::<Vec<_>>().join(",")
}

/// The `proxy-url` of the cluster that a context of a kubeconfig names. It counts before the environment.
pub(super) fn named(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<Uri> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig.contexts.iter().find(|known| known.name == name)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|known| known.name == context.cluster)?;
    cluster.cluster.as_ref()?.proxy_url.as_ref().filter(|url| !url.is_empty())?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(proxies: &Proxies, url: &str) -> Option<String> {
        Some(proxies.to(&url.parse().unwrap())?.uri().to_string())
    }

    #[test]
    fn exceptions_are_names_networks_and_ports() {
        let no = "internal.example, .svc,*.corp.example:8443,10.0.0.0/8,fd00::/8,[2001:db8::1]:6443,192.0.2.1:6443";
        let proxies = Proxies { all: "http://p:1".to_owned(), no: no.to_owned(), ..Proxies::default() };
        for (url, proxied) in [
            ("https://example.com", true),
            ("https://internal.example:99", false),
            ("https://charts.internal.example", false),
            ("https://kubernetes.default.svc", false),
            ("https://a.corp.example:8443", false),
            ("https://a.corp.example", true),
            ("https://10.96.0.1", false),
            ("https://11.96.0.1", true),
            ("https://[fd00::1]", false),
            ("https://[2001:db8::1]:6443", false),
            ("https://[2001:db8::1]", true),
            ("https://192.0.2.1:6443", false),
            ("https://192.0.2.1", true),
        ] {
            assert_eq!(through(&proxies, url).is_some(), proxied, "{url}");
        }
        let nothing = Proxies { no: "*".to_owned(), ..proxies };
        assert_eq!(through(&nothing, "https://example.com"), None);
    }

    #[test]
    fn the_api_server_is_behind_the_proxy_of_its_scheme_unless_it_is_here() {
        let proxies = Proxies {
            all: "http://all:1".to_owned(),
            http: "plain:3128".to_owned(),
            https: "http://user:p%40ss@secure:3128".to_owned(),
            no: "10.96.0.1,.svc".to_owned(),
        };
        for (server, proxy) in [
            ("https://api.example.com:6443", Some("http://user:p%40ss@secure:3128/")),
            ("http://api.example.com", Some("http://plain:3128/")),
            ("https://10.96.0.1:443", None),
            ("https://kubernetes.default.svc", None),
            ("https://127.0.0.1:6443", None),
            ("https://localhost:6443", None),
            ("https://[::1]:6443", None),
        ] {
            let found = proxies.to_api_server(&server.parse().unwrap()).unwrap();
            assert_eq!(found.map(|url| url.to_string()).as_deref(), proxy, "{server}");
        }
        let server: Uri = "https://api.example.com".parse().unwrap();
        let all = Proxies { https: String::new(), http: String::new(), ..proxies.clone() };
        assert_eq!(all.to_api_server(&server).unwrap(), None);
        let socks = Proxies { https: "socks5://user:s3cret@p:1080".to_owned(), ..proxies };
        let refused = socks.to_api_server(&server).unwrap_err().to_string();
        assert!(refused.contains("socks5") && !refused.contains("s3cret"), "{refused}");
    }

    #[test]
    fn a_kubeconfig_names_the_proxy_of_a_context() {
        let yaml = "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
            contexts: [{name: a, context: {cluster: a, user: a}}, {name: b, context: {cluster: b, user: a}}]\n\
            clusters: [{name: a, cluster: {server: 'https://a', proxy-url: 'http://p:1'}}, {name: b, cluster: {server: 'https://b'}}]\n";
        let kubeconfig = Kubeconfig::from_yaml(yaml).unwrap();
        assert_eq!(named(&kubeconfig, None), Some(Uri::from_static("http://p:1")));
        assert_eq!(named(&kubeconfig, Some("b")), None);
        assert_eq!(named(&kubeconfig, Some("c")), None);
    }
}
