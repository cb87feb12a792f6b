//! Who is let in, and where passwords may be sent.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tierra_http::{Options, ServeError, Server};
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned,
};

use crate::client::Client;
use crate::server::{TestServer, alice, open_to_all, tls};

fn guarded() -> TestServer {
    TestServer::with(Options {
        users: Some(alice("secret")),
        ..open_to_all()
    })
}

fn basic(user: &str, password: &str) -> String {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    format!("Authorization: Basic {encoded}\r\n")
}

/// Accepts any certificate: the tests' own is signed by nobody.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

fn secure(server: &TestServer) -> Client<StreamOwned<ClientConnection, TcpStream>> {
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(server.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    Client::over(StreamOwned::new(connection, stream), server.address)
}

#[test]
fn nothing_is_done_without_the_password() {
    let server = guarded();
    let right = basic("alice", "secret");
    let mut owner = server.connect();
    owner.begin("CREATE TABLE t (n BIGINT)", &right);
    assert_eq!(owner.answer().unwrap().status, 200);
    for wrong in [
        String::new(),
        basic("alice", "wrong"),
        basic("alice", ""),
        basic("ALICE", "secret"),
        basic("bob", "secret"),
        basic("", ""),
        "Authorization: Basic !\r\n".to_owned(),
        "Authorization: Bearer secret\r\n".to_owned(),
        format!("{right}{right}"),
    ] {
        for path in [
            "/",
            "/app.js",
            "/metrics",
            "/api/state",
            "/api/samples",
            "/nothing",
        ] {
            let answer = server.connect().get_with(path, &wrong);
            assert_eq!(answer.status, 401, "{wrong} {path}");
            let asked = answer.header("www-authenticate").unwrap();
            assert!(asked.starts_with("Basic "));
        }
        let mut client = server.connect();
        client.begin("DROP TABLE t", &wrong);
        assert_eq!(client.answer().unwrap().status, 401);
    }
    owner.begin("SELECT count(*) AS n FROM t", &right);
    assert_eq!(owner.answer().unwrap().json()["rows"], json!([{"n": 0}]));
    owner.begin(
        "SELECT user_name FROM tierra_sessions WHERE user_name <> ''",
        &right,
    );
    assert_eq!(
        owner.answer().unwrap().json()["rows"],
        json!([{"user_name": "alice"}])
    );
}

/// What a connection's first request has shown counts for it alone, and only as long as the same is shown.
#[test]
fn each_request_shows_the_password() {
    let server = guarded();
    let mut client = server.connect();
    for (headers, status) in [
        (basic("alice", "secret"), 200),
        (basic("alice", "secret"), 200),
        (basic("alice", "wrong"), 401),
        (String::new(), 401),
        (basic("alice", "secret"), 200),
    ] {
        assert_eq!(client.get_with("/api/state", &headers).status, status);
    }
    assert_eq!(server.connect().get("/api/state").status, 401);
}

#[test]
fn with_a_certificate_nothing_goes_without_tls() {
    let server = TestServer::with(Options {
        users: Some(alice("secret")),
        tls: Some(tls()),
        ..open_to_all()
    });
    let mut client = secure(&server);
    assert_eq!(client.get("/").status, 401);
    client.begin("SELECT 1 AS x", &basic("alice", "secret"));
    assert_eq!(client.answer().unwrap().json()["rows"], json!([{"x": 1}]));
    // Bytes before TLS end the connection, also if a handshake follows.
    let mut client = server.connect();
    let request = format!(
        "GET /api/state HTTP/1.1\r\nHost: localhost\r\n{}\r\n",
        basic("alice", "secret")
    );
    client.send(request);
    let answer = client.answer().unwrap();
    assert_eq!((answer.status, answer.text()), (400, "use https\n"));
    assert!(client.is_closed());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(&[0x16, 3, 1, 0xff, 0xff, 1]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert_eq!(secure(&server).get("/").status, 401);
}

#[test]
fn others_reach_only_a_server_with_users_and_tls() {
    let bind = |users, tls| {
        Server::bind(Options {
            address: "0.0.0.0:0".parse().unwrap(),
            users,
            tls,
            ..open_to_all()
        })
    };
    assert!(matches!(bind(None, None), Err(ServeError::Open(_))));
    assert!(matches!(bind(None, Some(tls())), Err(ServeError::Open(_))));
    assert!(matches!(
        bind(Some(alice("secret")), None),
        Err(ServeError::NoTls(_))
    ));
    assert!(bind(Some(alice("secret")), Some(tls())).is_ok());
}
