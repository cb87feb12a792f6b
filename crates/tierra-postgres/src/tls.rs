//! TLS: the server's certificate and key.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use pgwire::api::auth::sasl::scram::ScramServerAuth;
use pgwire::tokio::TlsAcceptor;
use pgwire::tokio::tokio_rustls::rustls::crypto::ring;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use pgwire::tokio::tokio_rustls::rustls::{self, ServerConfig};

/// The name of PostgreSQL's protocol inside TLS.
pub(crate) const PROTOCOL: &[u8] = b"postgresql";

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file has no certificate or no key.
    #[error("{}: no {what} in PEM format is in it: {message}", file.display())]
    Pem {
        /// The file.
        file: PathBuf,
        /// What is missing.
        what: &'static str,
        /// Why.
        message: String,
    },
    /// The key is not the certificate's, or of no known kind.
    #[error("the certificate and the key cannot be used: {0}")]
    Pair(#[from] rustls::Error),
}

/// What makes a connection secret.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    pub(crate) acceptor: TlsAcceptor,
    /// Logins that prove that no other stands between, if the certificate has a signature for that.
    pub(crate) scram: ScramServerAuth,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate, with those that signed it behind it, and its key.
    ///
    /// # Errors
    /// If one cannot be read or used.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |file: &Path| {
            fs::read(file).map_err(|source| TlsError::Io {
                file: file.to_path_buf(),
                source,
            })
        };
        let missing = |file: &Path, what, message: String| TlsError::Pem {
            file: file.to_path_buf(),
            what,
            message,
        };
        let certificate_pem = read(certificate)?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&certificate_pem)
            .collect::<Result<_, _>>()
            .map_err(|error| missing(certificate, "certificate", error.to_string()))?;
        if chain.is_empty() {
            let message = "there is none".to_owned();
            return Err(missing(certificate, "certificate", message));
        }
        let key_der = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| missing(key, "private key", error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key_der)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let mut scram = ScramServerAuth::new();
        // A binding needs the hash that the signature is made of. Ed25519 names none.
        if let Err(error) = scram.configure_certificate(&certificate_pem) {
            tracing::warn!(
                file = %certificate.display(),
                %error,
                "logins cannot be bound to the certificate: SCRAM-SHA-256-PLUS is not offered"
            );
            scram = ScramServerAuth::new();
        }
        let config = Arc::new(config);
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::clone(&config)),
            config,
            scram,
        })
    }

    /// The same certificate and key for another protocol, by its name inside TLS.
    pub fn config_for(&self, protocol: &[u8]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        Arc::new(config)
    }
}
