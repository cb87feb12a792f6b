//! A client of another `tierra serve`: fetches a backup.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};
use futures::StreamExt;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tierra_engine::Compression;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::guard::SQL_TYPE;

/// Certificates of the authorities that this system trusts, where Debian and others keep them.
const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";
/// How long a server may take to be reached, and to begin its answer.
const REACHED: Duration = Duration::from_secs(30);
const BEGINS: Duration = Duration::from_secs(120);
/// Parts that have arrived and are not read.
const AHEAD: usize = 4;
/// The most bytes of an error that are read.
const ERROR_MOST_BYTES: usize = 64 << 10;

/// A server, and how to log in.
#[derive(Clone, Default)]
pub struct Remote {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub url: String,
    /// A name and a password.
    pub login: Option<(String, String)>,
    /// Certificates in PEM format that are trusted; by default those that the system trusts.
    pub authorities: Option<PathBuf>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("url", &self.url)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .field("authorities", &self.authorities)
            .finish()
    }
}

/// Why nothing can be fetched.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is none of a server.
    #[error("'{url}' is no server: {why}; write http://HOST:PORT or https://HOST:PORT")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The server cannot be reached.
    #[error("cannot reach {url}: {source}")]
    Unreached {
        /// The URL.
        url: String,
        /// The system's error.
        source: io::Error,
    },
    /// Trusted certificates cannot be read.
    #[error("cannot read trusted certificates of {}: {message}; name a file of them with --ca", file.display())]
    Authorities {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// TLS cannot be set up.
    #[error("TLS cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    /// The connection was lost, or the answer is not HTTP.
    #[error("{url} did not answer: {source}")]
    Http {
        /// The URL.
        url: String,
        /// What went wrong.
        source: hyper::Error,
    },
    /// The server takes too long.
    #[error("{url} has not answered for {} s", BEGINS.as_secs())]
    Late {
        /// The URL.
        url: String,
    },
    /// The server refuses.
    #[error("{url} refuses with status {status}: {message}")]
    Refused {
        /// The URL.
        url: String,
        /// The status.
        status: u16,
        /// The server's message.
        message: String,
    },
}

/// What arrives, in order. Reading blocks.
#[derive(Debug)]
pub struct Download {
    parts: mpsc::Receiver<io::Result<Bytes>>,
    part: Bytes,
}

impl Read for Download {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.parts.blocking_recv() {
                Some(part) => self.part = part?,
                None => return Ok(0),
            }
        }
        let len = self.part.len().min(to.len());
        self.part.copy_to_slice(&mut to[..len]);
        Ok(len)
    }
}

/// Asks a server for a backup of its database.
///
/// # Errors
/// [`ClientError`]: the server cannot be reached, does not know the user, or refuses.
pub async fn fetch_backup(
    remote: &Remote,
    compression: Compression,
) -> Result<Download, ClientError> {
    let server = Place::of(&remote.url)?;
    let unreached = |source| ClientError::Unreached {
        url: remote.url.clone(),
        source,
    };
    let connected = timeout(REACHED, TcpStream::connect((&*server.host, server.port))).await;
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    let socket = connected
        .unwrap_or_else(|_| Err(late()))
        .map_err(unreached)?;
    let mut request = Request::post(format!("/backup?compression={compression}"))
        .header(HOST, &server.authority)
        .header(CONTENT_TYPE, SQL_TYPE);
    if let Some((user, password)) = &remote.login {
        let login = STANDARD.encode(format!("{user}:{password}"));
        request = request.header(AUTHORIZATION, format!("Basic {login}"));
    }
    let request = request.body(Body::empty()).expect("its parts are valid");
    if !server.has_tls {
        return ask(remote, socket, request).await;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities(remote.authorities.as_deref())?)
        .with_no_client_auth();
    let name = ServerName::try_from(server.host.clone()).map_err(|_| ClientError::Url {
        url: remote.url.clone(),
        why: "its host is no name that a certificate has",
    })?;
    let secure = TlsConnector::from(Arc::new(config)).connect(name, socket);
    let secure = timeout(REACHED, secure)
        .await
        .unwrap_or_else(|_| Err(late()))
        .map_err(unreached)?;
    ask(remote, secure, request).await
}

/// Where a server is.
struct Place {
    has_tls: bool,
    host: String,
    port: u16,
    authority: String,
}

impl Place {
    fn of(url: &str) -> Result<Self, ClientError> {
        let wrong = |why| ClientError::Url {
            url: url.to_owned(),
            why,
        };
        let uri: Uri = url.parse().map_err(|_| wrong("it is no URL"))?;
        let has_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it begins with neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("it has a user, whom other options name"));
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong("it has a path"));
        }
        let host = authority.host();
        Ok(Self {
            has_tls,
            // An address of version 6 stands in brackets.
            host: host.trim_matches(['[', ']']).to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if has_tls { 443 } else { 80 }),
            authority: authority.to_string(),
        })
    }
}

/// The certificates that are trusted.
fn authorities(file: Option<&Path>) -> Result<RootCertStore, ClientError> {
    let file = file.unwrap_or(Path::new(SYSTEM_AUTHORITIES));
    let wrong = |message: String| ClientError::Authorities {
        file: file.to_owned(),
        message,
    };
    let pem = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        store.add(certificate)?;
    }
    match store.is_empty() {
        true => Err(wrong("there is none".to_owned())),
        false => Ok(store),
    }
}

async fn ask(
    remote: &Remote,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Body>,
) -> Result<Download, ClientError> {
    let failed = |source| ClientError::Http {
        url: remote.url.clone(),
        source,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    // What goes wrong with it is told by the body as well.
    tokio::spawn(connection);
    let answer = timeout(BEGINS, sender.send_request(request)).await;
    let answer = answer.map_err(|_| ClientError::Late {
        url: remote.url.clone(),
    })?;
    let answer = answer.map_err(failed)?;
    let status = answer.status();
    let mut body = Body::new(answer.into_body()).into_data_stream();
    if status != StatusCode::OK {
        let mut text = Vec::new();
        while text.len() < ERROR_MOST_BYTES
            && let Some(Ok(part)) = body.next().await
        {
            text.extend_from_slice(&part);
        }
        return Err(ClientError::Refused {
            url: remote.url.clone(),
            status: status.as_u16(),
            message: message_of(&text),
        });
    }
    let (to, parts) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        // The connection ends with its sender.
        let _sender = sender;
        while let Some(part) = body.next().await {
            if to.send(part.map_err(io::Error::other)).await.is_err() {
                break;
            }
        }
    });
    Ok(Download {
        parts,
        part: Bytes::new(),
    })
}

/// The message of an error of this server, or what else stands there.
fn message_of(text: &[u8]) -> String {
    let json: Option<Value> = serde_json::from_slice(text).ok();
    let message = json
        .as_ref()
        .and_then(|json| json["error"]["message"].as_str());
    match message {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(text).trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_server() {
        let place = Place::of("https://[::1]:7433/").unwrap();
        assert!(place.has_tls);
        assert_eq!((&*place.host, place.port), ("::1", 7433));
        assert_eq!(place.authority, "[::1]:7433");
        assert_eq!(Place::of("http://far").unwrap().port, 80);
        for url in [
            "",
            "far:7433",
            "ftp://far",
            "http://alice:x@far",
            "http://far/sql",
            "http://far/?a=b",
            "http://",
        ] {
            assert!(
                matches!(Place::of(url), Err(ClientError::Url { .. })),
                "{url}"
            );
        }
    }
}
