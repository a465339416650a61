//! Who a server must prove to be, and what is said when it does not.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio::sync::OnceCell;

use super::credentials::{ClientCertificate, Credentials};

/// The certificate authorities of the system, read once.
#[derive(Default)]
pub(super) struct Trust {
    system: OnceCell<RootCertStore>,
}

impl Trust {
    /// Trusts the system's authorities and those of `credentials`, and shows its certificate if `identify`.
    pub(super) async fn config(
        &self,
        credentials: &Credentials,
        identify: bool,
    ) -> Result<ClientConfig, String> {
        // It reads many files.
        let read = || async { tokio::task::spawn_blocking(system).await.map_err(|error| error.to_string()) };
        let mut roots = self.system.get_or_try_init(read).await?.clone();
        for authority in &credentials.authorities {
            roots
                .add(authority.clone())
                .map_err(|error| format!("`ca.crt` holds a certificate that cannot be used: {error}"))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        match credentials.client.as_ref().filter(|_| identify) {
            None => Ok(config.with_no_client_auth()),
            Some(ClientCertificate { chain, key }) => config
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .map_err(|error| format!("`tls.crt` and `tls.key` cannot be used: {error}")),
        }
    }
}

fn system() -> RootCertStore {
    let loaded = rustls_native_certs::load_native_certs();
    for error in &loaded.errors {
        tracing::warn!(%error, "certificate authorities of the system cannot be read");
    }
    let mut roots = RootCertStore::empty();
    let (_, unusable) = roots.add_parsable_certificates(loaded.certs);
    if unusable > 0 {
        tracing::debug!(unusable, "certificate authorities of the system that cannot be used");
    }
    roots
}

/// Trusts any server that answers, as the kubelet does for probes: the certificate of a pod is made for a name, and it is asked by
/// its address. Nothing secret is sent, and only a status is read.
pub(super) fn unverified() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Unverified(provider.signature_verification_algorithms);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

#[derive(Debug)]
struct Unverified(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// The TLS error inside of another one, if that is what went wrong.
pub(super) fn cause<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(found) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// What is wrong and what to do about it.
pub(super) fn explain(error: &rustls::Error, credentials: &Credentials) -> String {
    const SECRET: &str = "the Secret that the source names in secretRef";
    match error {
        // The second: an authority that bears the name of one that is trusted.
        rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => {
            if credentials.authorities.is_empty() {
                format!(
                    "the server's certificate is signed by an authority that is not trusted: if it is a private one, put its certificate as `ca.crt` into {SECRET}"
                )
            } else {
                format!(
                    "the server's certificate is signed by an authority that is not the one in `ca.crt` of {SECRET}"
                )
            }
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        ) if credentials.client.is_none() => {
            format!("the server wants a client certificate: put `tls.crt` and `tls.key` into {SECRET}")
        }
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError,
        ) if credentials.client.is_some() => {
            format!("the server does not accept the client certificate in {SECRET}: {error}")
        }
        other => other.to_string(),
    }
}
