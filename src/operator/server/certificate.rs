//! The certificate of the metrics: from a directory, and read again when it changes; else made in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::reread::Reread;

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// What clients of the port are shown.
#[derive(Clone, Debug)]
pub struct Certificate(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Made(Arc<ServerConfig>),
    Read { directory: PathBuf, loaded: Arc<Reread<Arc<Loaded>>> },
}

#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    files: Files,
}

#[derive(PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Nothing of what is in them.
impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files").finish_non_exhaustive()
    }
}

impl Certificate {
    /// From `tls.crt` and `tls.key` in the directory; without one, a certificate for `localhost` that is self-signed.
    ///
    /// # Errors
    /// Files that cannot be read, or are no certificate and the key that belongs to it. The text names them.
    pub fn of(directory: Option<&Path>) -> Result<Self, String> {
        let Some(directory) = directory else { return Ok(Self(Kind::Made(made()?))) };
        let files = read(directory)?;
        let config = config(&files).map_err(|why| format!("{}: {why}", directory.display()))?;
        let loaded = Arc::new(Reread::new(Arc::new(Loaded { config, files })));
        Ok(Self(Kind::Read { directory: directory.to_owned(), loaded }))
    }

    /// What a connection that begins now is served with; none when the process is ending.
    pub(super) async fn config(&self) -> Option<Arc<ServerConfig>> {
        match &self.0 {
            Kind::Made(config) => Some(Arc::clone(config)),
            Kind::Read { directory, loaded } => {
                if let Some(loaded) = loaded.recent(Instant::now()) {
                    return Some(Arc::clone(&loaded.config));
                }
                let (directory, loaded) = (directory.clone(), Arc::clone(loaded));
                tokio::task::spawn_blocking(move || newest(&directory, &loaded)).await.ok()
            }
        }
    }
}

/// What is in the directory now. Others are served with what is known meanwhile.
fn newest(directory: &Path, loaded: &Reread<Arc<Loaded>>) -> Arc<ServerConfig> {
    let before = loaded.last();
    let again = match read(directory) {
        Ok(files) if files == before.files => return Arc::clone(&before.config),
        Ok(files) => config(&files).map(|config| Arc::new(Loaded { config, files })),
        Err(why) => Err(why),
    };
    match again {
        Ok(now) => {
            tracing::info!(directory = %directory.display(), "the certificate of the metrics was replaced");
            loaded.put(Arc::clone(&now));
            Arc::clone(&now.config)
        }
        Err(why) => {
            // Perhaps only one of the two files is there yet.
            tracing::warn!(
                directory = %directory.display(), why,
                "the new certificate of the metrics cannot be used: the old one stays"
            );
            Arc::clone(&before.config)
        }
    }
}

fn read(directory: &Path) -> Result<Files, String> {
    let file = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).map_err(|error: io::Error| format!("{}: {error}", path.display()))
    };
    Ok(Files { certificate: file(CERTIFICATE)?, key: file(KEY)? })
}

fn config(files: &Files) -> Result<Arc<ServerConfig>, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&files.certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("`{CERTIFICATE}` is no certificate in PEM form: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&files.key)
        .map_err(|error| format!("`{KEY}` is no private key in PEM form: {error}"))?;
    served_with(chain, key)
}

/// As controller-runtime does where no certificate is given: it protects from who only listens.
fn made() -> Result<Arc<ServerConfig>, String> {
    let made =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(|error| error.to_string())?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    served_with(vec![made.cert.der().clone()], key)
}

fn served_with(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key));
    config.map(Arc::new).map_err(|error| format!("`{CERTIFICATE}` and `{KEY}` cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed(["metrics.example.com".to_owned()]).unwrap();
        std::fs::write(directory.join(CERTIFICATE), made.cert.pem()).unwrap();
        std::fs::write(directory.join(KEY), made.signing_key.serialize_pem()).unwrap();
        made.cert.pem().into_bytes()
    }

    #[test]
    fn a_certificate_is_read_again_and_a_broken_one_does_not_count() {
        let directory = std::env::temp_dir().join(format!("sherpack-certificate-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let missing = Certificate::of(Some(&directory)).unwrap_err();
        assert!(missing.contains("tls.crt"), "{missing}");
        let first = write(&directory);
        let Kind::Read { loaded, .. } = Certificate::of(Some(&directory)).unwrap().0 else { panic!() };
        let shown = || loaded.last().files.certificate.clone();
        let second = write(&directory);
        assert!(loaded.recent(Instant::now()).is_some(), "it was looked at a moment ago");
        assert_eq!(shown(), first);
        let later = Instant::now() + std::time::Duration::from_secs(10);
        assert!(loaded.recent(later).is_none(), "it is time for a look");
        assert!(loaded.recent(later).is_some(), "one look is enough");
        newest(&directory, &loaded);
        assert_eq!(shown(), second);
        std::fs::write(directory.join(KEY), "-----BEGIN NOTHING-----").unwrap();
        newest(&directory, &loaded);
        assert_eq!(shown(), second, "the old one stays");
        let broken = Certificate::of(Some(&directory)).unwrap_err();
        assert!(broken.contains("`tls.key`"), "{broken}");
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(Certificate::of(None).unwrap().0, Kind::Made(_)));
    }
}
