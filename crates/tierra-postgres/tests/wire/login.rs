//! Who is let in, and that nothing is executed for anybody else.

use std::io::{Read, Write};
use std::sync::Arc;

use pgwire::tokio::tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use pgwire::tokio::tokio_rustls::rustls::crypto::ring::default_provider;
use pgwire::tokio::tokio_rustls::rustls::pki_types::pem::PemObject;
use pgwire::tokio::tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use pgwire::tokio::tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned,
};
use ring::digest;
use tierra_postgres::{Options, ServeError, Server};

use crate::client::{Client, Scram, code_of, field, message, query, startup};
use crate::server::{TestServer, alice, open_to_all, tls, tls_of_ed25519};

const METHOD: &str = "SCRAM-SHA-256";
const WANTS_TLS: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

fn guarded() -> TestServer {
    TestServer::with(Options {
        users: Some(alice("secret")),
        tls: Some(tls()),
        ..open_to_all()
    })
}

fn server_first(client: &mut Client) -> String {
    let (kind, body) = client.read().unwrap();
    assert_eq!(
        (kind, body[..4].to_vec()),
        (b'R', vec![0, 0, 0, 11]),
        "{}",
        field(&body, b'M')
    );
    String::from_utf8(body[4..].to_vec()).unwrap()
}

/// Starts, and reads the methods that are offered.
fn begin(server: &TestServer, user: &str) -> Client {
    let mut client = Client::open(server.address);
    client.send(&startup(&[("user", user)]));
    let (kind, body) = client.read().unwrap();
    assert_eq!((kind, &body[..4]), (b'R', &[0, 0, 0, 10][..]));
    // Without TLS there is no channel to bind to.
    assert_eq!(&body[4..], b"SCRAM-SHA-256\0\0");
    client
}

fn log_in(server: &TestServer, user: &str, password: &str) -> Client {
    let mut client = begin(server, user);
    let scram = Scram::new(password);
    client.send(&scram.first(METHOD, "n"));
    let first = server_first(&mut client);
    client.send(&scram.proof(&first, b"n,,"));
    client
}

#[test]
fn the_password_lets_in() {
    let server = guarded();
    let mut client = log_in(&server, "alice", "secret");
    let (kind, body) = client.read().unwrap();
    assert_eq!((kind, &body[..4]), (b'R', &[0, 0, 0, 12][..]));
    client.enter();
    assert_eq!(
        client.rows("SELECT user_name FROM tierra_sessions"),
        [["alice"]]
    );
}

/// pgwire 0.41 runs what follows a wrong password.
#[test]
fn a_statement_behind_a_wrong_password_is_not_run() {
    let server = guarded();
    let mut owner = log_in(&server, "alice", "secret");
    owner.enter();
    owner.rows("CREATE TABLE t (n BIGINT)");
    for (user, password) in [
        ("alice", "wrong"),
        ("nobody", "secret"),
        ("ALICE", "secret"),
    ] {
        let mut client = begin(&server, user);
        let scram = Scram::new(password);
        client.send(&scram.first(METHOD, "n"));
        let first = server_first(&mut client);
        let behind = [
            scram.proof(&first, b"n,,"),
            query("DROP TABLE t"),
            query("DROP TABLE t"),
        ]
        .concat();
        client.send(&behind);
        let messages = client.until_closed();
        assert_eq!(messages.len(), 1, "one error and the end");
        assert_eq!(code_of(&messages).as_deref(), Some("28P01"));
        assert_eq!(field(&messages[0].1, b'S'), "FATAL");
        assert_eq!(owner.rows("SELECT count(*) FROM t"), [["0"]]);
    }
    // Nor is a statement in place of the password.
    for behind in [
        query("DROP TABLE t"),
        message(b'P', b"\0DROP TABLE t\0\0\0"),
    ] {
        let mut client = begin(&server, "alice");
        client.send(&behind);
        assert_eq!(client.until_closed().len(), 1);
    }
    assert_eq!(owner.rows("SELECT count(*) FROM t"), [["0"]]);
}

#[test]
fn who_does_not_exist_is_not_told_apart() {
    let server = guarded();
    let salt = |user: &str| {
        let mut client = begin(&server, user);
        client.send(&Scram::new("x").first(METHOD, "n"));
        let first = server_first(&mut client);
        first
            .split(',')
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(salt("bob"), salt("bob"), "the same salt each time");
    assert_ne!(salt("bob")[0], salt("carol")[0]);
    assert_eq!(salt("alice")[1], salt("bob")[1]);
    assert_eq!(salt("alice")[0].len(), salt("bob")[0].len());
}

#[test]
fn methods_that_were_not_offered_are_refused() {
    let server = guarded();
    for (method, flag) in [
        ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point"),
        (METHOD, "p=tls-server-end-point"),
        ("PLAIN", "n"),
    ] {
        let mut client = begin(&server, "alice");
        client.send(&Scram::new("secret").first(method, flag));
        assert_eq!(client.until_closed().len(), 1, "{method} {flag}");
    }
    // A proof for another channel.
    let mut client = begin(&server, "alice");
    let scram = Scram::new("secret");
    client.send(&scram.first(METHOD, "n"));
    let first = server_first(&mut client);
    client.send(&scram.proof(&first, b"y,,"));
    assert_eq!(code_of(&client.until_closed()).as_deref(), Some("28P01"));
}

/// pgwire takes what came before the handshake for what came inside it.
#[test]
fn bytes_before_tls_are_not_taken_for_bytes_inside_it() {
    let server = TestServer::with(Options {
        tls: Some(tls()),
        ..open_to_all()
    });
    let mut owner = server.connect();
    owner.rows("CREATE TABLE t (n BIGINT)");
    let smuggled = [startup(&[("user", "mallory")]), query("DROP TABLE t")].concat();
    for before in [&b"0123456789"[..], &smuggled] {
        let mut client = Client::open(server.address);
        client.send(&[&WANTS_TLS[..], before].concat());
        let mut answer = Vec::new();
        let _ = client.stream.read_to_end(&mut answer);
        // The letter, an alert at most, and the end.
        assert_eq!(answer.first(), Some(&b'S'));
        assert!(answer.len() < 20 && !answer.contains(&b'Z'), "{answer:?}");
    }
    assert_eq!(owner.rows("SELECT count(*) FROM t"), [["0"]]);
}

#[test]
fn requests_for_encryption_are_answered_once() {
    let server = TestServer::start();
    let mut client = Client::open(server.address);
    let mut letter = [0];
    // GSS, then TLS: neither is there.
    client.send(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x30]);
    client.stream.read_exact(&mut letter).unwrap();
    assert_eq!(&letter, b"N");
    client.send(&WANTS_TLS);
    client.stream.read_exact(&mut letter).unwrap();
    assert_eq!(&letter, b"N");
    client.send(&startup(&[("user", "u")]));
    client.enter();
    assert_eq!(client.rows("SELECT 1"), [["1"]]);
    let mut client = Client::open(server.address);
    client.send(&[WANTS_TLS, WANTS_TLS].concat());
    client.stream.read_exact(&mut letter).unwrap();
    assert_eq!(code_of(&client.until_closed()).as_deref(), Some("0A000"));
}

#[test]
fn without_users_nobody_else_is_let_in() {
    let scratch = tempfile::tempdir().unwrap();
    let database =
        tierra_engine::Database::create(&scratch.path().join("db"), &Default::default()).unwrap();
    let bind = |options| Server::bind(Arc::clone(&database), options);
    let everywhere = || "0.0.0.0:0".parse().unwrap();
    let open = Options {
        address: everywhere(),
        ..open_to_all()
    };
    assert!(matches!(bind(open), Err(ServeError::Open(_))));
    let no_tls = Options {
        requires_tls: true,
        ..open_to_all()
    };
    assert!(matches!(bind(no_tls), Err(ServeError::NoTls)));
    let with_users = Options {
        address: everywhere(),
        users: Some(alice("x")),
        ..open_to_all()
    };
    assert!(bind(with_users).is_ok());
}

#[test]
fn plain_connections_are_refused_if_tls_is_required() {
    let server = TestServer::with(Options {
        tls: Some(tls()),
        requires_tls: true,
        ..open_to_all()
    });
    let mut client = Client::open(server.address);
    client.send(
        &[
            startup(&[("user", "u")]),
            query("CREATE TABLE t (n BIGINT)"),
        ]
        .concat(),
    );
    let messages = client.until_closed();
    assert_eq!(
        (messages.len(), code_of(&messages).as_deref()),
        (1, Some("28000"))
    );
    let mut secure = Secure::connect(&server, b"postgresql", true).unwrap();
    secure.0.write_all(&startup(&[("user", "u")])).unwrap();
    assert_eq!(secure.read().unwrap().0, b'R');
}

#[test]
fn a_login_inside_tls_is_bound_to_the_certificate() {
    let server = guarded();
    let pem = std::fs::read(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/wire/certificate.pem"
    ))
    .unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    let hash = digest::digest(&digest::SHA256, &certificate);
    let plus = "SCRAM-SHA-256-PLUS";
    let bound = "p=tls-server-end-point";
    let binding = |bytes: &[u8]| [b"p=tls-server-end-point,,", bytes].concat();
    for (method, flag, sent, is_let_in) in [
        (plus, bound, binding(hash.as_ref()), true),
        (plus, bound, binding(&[0; 32]), false),
        (METHOD, "n", b"n,,".to_vec(), true),
        // The client would have bound: somebody took the method away.
        (METHOD, "y", b"y,,".to_vec(), false),
        (plus, "n", b"n,,".to_vec(), false),
    ] {
        // Both ways to begin.
        for asks in [true, false] {
            let mut client = Secure::connect(&server, b"postgresql", asks).unwrap();
            client.0.write_all(&startup(&[("user", "alice")])).unwrap();
            let (_, offered) = client.read().unwrap();
            assert_eq!(&offered[4..], b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
            let scram = Scram::new("secret");
            client.0.write_all(&scram.first(method, flag)).unwrap();
            let (kind, body) = client.read().unwrap();
            if kind == b'R' {
                let first = String::from_utf8(body[4..].to_vec()).unwrap();
                client.0.write_all(&scram.proof(&first, &sent)).unwrap();
            }
            let is_in = kind == b'R' && client.read().unwrap().0 == b'R';
            assert_eq!(is_in, is_let_in, "{method} {flag}");
        }
    }
    // TLS of another protocol.
    assert!(
        Secure::connect(&server, b"http/1.1", false)
            .is_none_or(|mut client| client.read().is_err())
    );
}

/// Ed25519 names no hash to bind a login by.
#[test]
fn a_certificate_without_a_hash_serves_without_binding() {
    let server = TestServer::with(Options {
        users: Some(alice("secret")),
        tls: Some(tls_of_ed25519()),
        ..open_to_all()
    });
    for (method, flag, sent, is_let_in) in [
        (METHOD, "n", "n,,", true),
        (METHOD, "y", "y,,", true),
        (
            "SCRAM-SHA-256-PLUS",
            "p=tls-server-end-point",
            "p=tls-server-end-point,,",
            false,
        ),
    ] {
        let mut client = Secure::connect(&server, b"postgresql", true).unwrap();
        client.0.write_all(&startup(&[("user", "alice")])).unwrap();
        let (_, offered) = client.read().unwrap();
        assert_eq!(&offered[4..], b"SCRAM-SHA-256\0\0");
        let scram = Scram::new("secret");
        client.0.write_all(&scram.first(method, flag)).unwrap();
        let (kind, body) = client.read().unwrap();
        if kind == b'R' {
            let first = String::from_utf8(body[4..].to_vec()).unwrap();
            let proof = scram.proof(&first, sent.as_bytes());
            client.0.write_all(&proof).unwrap();
        }
        let is_in = kind == b'R' && client.read().unwrap().0 == b'R';
        assert_eq!(is_in, is_let_in, "{method} {flag}");
    }
}

/// A connection inside TLS.
struct Secure(StreamOwned<ClientConnection, std::net::TcpStream>);

impl Secure {
    fn connect(server: &TestServer, protocol: &[u8], asks: bool) -> Option<Self> {
        let mut plain = Client::open(server.address);
        if asks {
            plain.send(&WANTS_TLS);
            let mut letter = [0];
            plain.stream.read_exact(&mut letter).unwrap();
            assert_eq!(&letter, b"S");
        }
        let mut config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut stream = StreamOwned::new(connection, plain.stream);
        stream.flush().ok()?;
        stream.conn.complete_io(&mut stream.sock).ok()?;
        Some(Self(stream))
    }

    fn read(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.0.read_exact(&mut header)?;
        let len = u32::from_be_bytes(header[1..].try_into().unwrap());
        let mut body = vec![0; len as usize - 4];
        self.0.read_exact(&mut body)?;
        Ok((header[0], body))
    }
}

/// Takes every certificate.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
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
