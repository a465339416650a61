//! Credentials for a URL, from a Secret with the keys that Flux uses.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use k8s_openapi::ByteString;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const BEARER_TOKEN: &str = "bearerToken";
const CA: &str = "ca.crt";
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// What a server is shown and what it is checked against.
#[derive(Default)]
pub struct Credentials {
    /// Value of the `Authorization` header, marked as sensitive.
    pub authorization: Option<HeaderValue>,
    /// Trusted besides the certificate authorities of the system.
    pub authorities: Vec<CertificateDer<'static>>,
    pub client: Option<ClientCertificate>,
}

/// A certificate that the operator shows to the server.
pub struct ClientCertificate {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// Nothing of what is in it.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the data of a Secret. The error names the key and never what stands under it.
    ///
    /// # Errors
    /// Half of a pair, both ways to say who asks, no known key at all, or something that is no certificate or key.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, String> {
        let text = |key: &str| match data.get(key).map(|value| std::str::from_utf8(&value.0)) {
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => Err(format!("`{key}` is not UTF-8")),
            None => Ok(None),
        };
        let bytes = |key: &str| data.get(key).map(|value| value.0.as_slice());
        let authorization = match (text(USERNAME)?, text(PASSWORD)?, text(BEARER_TOKEN)?) {
            (None, None, None) => None,
            (Some(username), Some(password), None) => Some(basic(username, password)?),
            (None, None, Some(token)) => Some(bearer(token)?),
            (Some(_), None, None) => return Err(format!("it has `{USERNAME}` and no `{PASSWORD}`")),
            (None, Some(_), None) => return Err(format!("it has `{PASSWORD}` and no `{USERNAME}`")),
            (_, _, Some(_)) => {
                return Err(format!(
                    "it has both `{BEARER_TOKEN}` and `{USERNAME}` or `{PASSWORD}`: keep one"
                ));
            }
        };
        let authorities = bytes(CA).map(|pem| certificates(CA, pem)).transpose()?.unwrap_or_default();
        let client = match (bytes(CERTIFICATE), bytes(KEY)) {
            (None, None) => None,
            (Some(chain), Some(key)) => Some(ClientCertificate {
                chain: certificates(CERTIFICATE, chain)?,
                key: PrivateKeyDer::from_pem_slice(key)
                    .map_err(|_| format!("`{KEY}` holds no private key in PEM form"))?,
            }),
            (Some(_), None) => return Err(format!("it has `{CERTIFICATE}` and no `{KEY}`")),
            (None, Some(_)) => return Err(format!("it has `{KEY}` and no `{CERTIFICATE}`")),
        };
        if authorization.is_none() && authorities.is_empty() && client.is_none() {
            return Err(format!(
                "it has none of the keys {USERNAME} and {PASSWORD}, {BEARER_TOKEN}, {CA}, {CERTIFICATE} and {KEY}"
            ));
        }
        Ok(Self { authorization, authorities, client })
    }

    /// Whether anything in it says who asks.
    #[must_use]
    pub fn identify(&self) -> bool {
        self.authorization.is_some() || self.client.is_some()
    }
}

/// Value of `Authorization` for a name and a password.
pub(in crate::source) fn basic(username: &str, password: &str) -> Result<HeaderValue, String> {
    if username.contains(':') {
        return Err(format!("`{USERNAME}` contains a colon, which basic authentication cannot send"));
    }
    sensitive(&format!("Basic {}", STANDARD.encode(format!("{username}:{password}"))), PASSWORD)
}

fn bearer(token: &str) -> Result<HeaderValue, String> {
    // Most tools write a line break after a token.
    let token = token.trim();
    if token.is_empty() {
        return Err(format!("`{BEARER_TOKEN}` is empty"));
    }
    sensitive(&format!("Bearer {token}"), BEARER_TOKEN)
}

fn sensitive(value: &str, key: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("`{key}` has characters that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn certificates(key: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match read {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(format!("`{key}` holds no certificate in PEM form")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[(&str, &str)]) -> Result<Credentials, String> {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        Credentials::read(&data.collect())
    }

    fn authority() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn each_kind_is_read_and_can_be_combined() {
        let basic = read(&[("username", "aladdin"), ("password", "open sesame")]).unwrap();
        let header = basic.authorization.unwrap();
        assert_eq!(header, "Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(header.is_sensitive());
        let bearer = read(&[("bearerToken", "abc\n")]).unwrap().authorization.unwrap();
        assert_eq!(bearer, "Bearer abc");
        let (certificate, key) = authority();
        let all = read(&[
            ("bearerToken", "abc"),
            ("ca.crt", &format!("{certificate}{certificate}")),
            ("tls.crt", &certificate),
            ("tls.key", &key),
            ("other", "x"),
        ])
        .unwrap();
        assert_eq!(all.authorities.len(), 2);
        assert_eq!(all.client.as_ref().unwrap().chain.len(), 1);
        assert!(all.identify());
        assert!(!read(&[("ca.crt", &certificate)]).unwrap().identify());
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key_and_never_shown() {
        let (certificate, key) = authority();
        for (data, named) in [
            (&[("username", "s3cret")][..], "no `password`"),
            (&[("password", "s3cret")], "no `username`"),
            (&[("username", "a"), ("password", "s3cret"), ("bearerToken", "s3cret")], "keep one"),
            (&[("username", "a:s3cret"), ("password", "b")], "colon"),
            (&[("bearerToken", " \n")], "is empty"),
            (&[("bearerToken", "s3cret\u{1}x")], "`bearerToken`"),
            (&[("ca.crt", "s3cret")], "`ca.crt`"),
            (&[("ca.crt", &key)], "`ca.crt`"),
            (&[("tls.crt", &certificate)], "no `tls.key`"),
            (&[("tls.key", &key)], "no `tls.crt`"),
            (&[("tls.crt", &certificate), ("tls.key", "s3cret")], "`tls.key`"),
            (&[("tls.crt", "s3cret"), ("tls.key", &key)], "`tls.crt`"),
            (&[("other", "s3cret")], "none of the keys"),
            (&[], "none of the keys"),
        ] {
            let error = read(data).unwrap_err();
            assert!(error.contains(named) && !error.contains("s3cret"), "{error}");
        }
        let debug = format!("{:?}", read(&[("bearerToken", "s3cret")]).unwrap());
        assert!(!debug.contains("s3cret"), "{debug}");
    }
}
