//! The proxy that a fetch goes through, as the operator's environment names it.

use http::HeaderValue;

use super::url::Url;
use crate::cluster::client::Proxies;

/// Which proxy a URL goes through.
pub(super) struct Rules(Proxies);

pub(super) struct Proxy {
    pub host: String,
    pub port: u16,
    /// Value of `Proxy-Authorization`.
    pub authorization: Option<HeaderValue>,
}

impl Rules {
    pub(super) fn new(proxies: &Proxies) -> Self {
        Self(proxies.clone())
    }

    /// The proxy for a URL; none when it is fetched directly.
    ///
    /// # Errors
    /// A proxy that is not spoken to over plain HTTP.
    pub(super) fn of(&self, url: &Url) -> Result<Option<Proxy>, String> {
        let Some(proxy) = self.0.to(url.uri()) else { return Ok(None) };
        let scheme = proxy.uri().scheme_str().unwrap_or_default();
        if scheme != "http" {
            return Err(format!(
                "the operator's proxy is a `{scheme}` one: only http:// proxies are supported"
            ));
        }
        let host = proxy.uri().host().unwrap_or_default();
        Ok(Some(Proxy {
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: proxy.uri().port_u16().unwrap_or(80),
            authorization: proxy.basic_auth().cloned(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(proxies: &Proxies, url: &str) -> Result<Option<String>, String> {
        let proxy = Rules::new(proxies).of(&Url::parse(url).unwrap())?;
        Ok(proxy.map(|proxy| format!("{}:{}", proxy.host, proxy.port)))
    }

    #[test]
    fn the_variables_mean_what_they_mean_to_curl() {
        let proxies = Proxies {
            https: "http://user:secret@proxy.example:3128".to_owned(),
            http: "plain.example:8080".to_owned(),
            no: "internal.example, .svc,10.0.0.0/8".to_owned(),
            ..Proxies::default()
        };
        for (url, through) in [
            ("https://example.com/a", Some("proxy.example:3128")),
            ("http://example.com/a", Some("plain.example:8080")),
            ("https://internal.example/a", None),
            ("https://charts.internal.example/a", None),
            ("http://charts.default.svc/a", None),
            ("http://10.1.2.3/a", None),
            ("http://11.1.2.3/a", Some("plain.example:8080")),
        ] {
            assert_eq!(proxy(&proxies, url).unwrap().as_deref(), through, "{url}");
        }
        assert!(!format!("{proxies:?}").contains("secret"));
        assert_eq!(proxy(&Proxies::default(), "https://example.com").unwrap(), None);
        let everything = Proxies { all: "http://p:1".to_owned(), no: "*".to_owned(), ..Proxies::default() };
        assert_eq!(proxy(&everything, "https://example.com").unwrap(), None);
    }

    #[test]
    fn a_proxy_that_is_not_supported_is_named() {
        for all in ["socks5://p:1080", "https://p:443"] {
            let proxies = Proxies { all: all.to_owned(), ..Proxies::default() };
            proxy(&proxies, "https://example.com").unwrap_err();
        }
    }
}
