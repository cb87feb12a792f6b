//! A backup that is fetched is the database as of one commit, and is sent to those who may change it.

use std::io::Read;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use tierra_engine::{
    Backup, BackupError, BackupSummary, Compression, Database, DatabaseOptions, RestoreOptions,
};
use tierra_http::Options;
use tierra_http::client::{ClientError, Download, Remote, fetch_backup};
use tierra_memory::faults::Stop;
use tierra_postgres::{Users, verifier};
use tokio::runtime::Runtime;

use crate::server::{MEMORY, TestServer, open_to_all, tls};

fn fetch(
    runtime: &Runtime,
    server: &TestServer,
    login: Option<(&str, &str)>,
    compression: Compression,
) -> Result<Download, ClientError> {
    let remote = Remote {
        url: format!("http://{}", server.address),
        login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
        authorities: None,
    };
    runtime.block_on(fetch_backup(&remote, compression))
}

fn receive(from: &mut dyn Read, file: &Path) -> Result<BackupSummary, BackupError> {
    Backup::receive(from, file, &Stop::default(), |_| {})
}

#[test]
fn a_backup_arrives_while_rows_are_inserted() {
    let _memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::start();
    let mut client = server.connect();
    let mut well = |sql: &str| {
        let answer = client.sql(sql);
        assert_eq!(answer.status, 200, "{answer:?}");
    };
    well("CREATE TABLE t (n BIGINT PRIMARY KEY, s VARCHAR)");
    well(
        "INSERT INTO t SELECT x, repeat('far memory ', 20) || x FROM generate_series(1, 200000) AS g(x)",
    );
    well("DELETE FROM t WHERE n % 10 = 0");
    let runtime = Runtime::new().unwrap();
    let mut lengths = Vec::new();
    for compression in [Compression::None, Compression::Zstd] {
        let file = server.scratch.path().join(compression.to_string());
        let mut download = fetch(&runtime, &server, None, compression).unwrap();
        // Its first bytes have come: these rows are not in it.
        well("INSERT INTO t VALUES (1000000, 'later')");
        let summary = receive(&mut download, &file).unwrap();
        assert_eq!((summary.tables, summary.rows), (1, 180_000));
        let copy = server.scratch.path().join(format!("copy-{compression}"));
        let (options, how) = (DatabaseOptions::default(), RestoreOptions::default());
        let backup = Backup::open(&file).unwrap();
        backup.restore(&copy, &options, &how, |_| {}).unwrap();
        let restored = Database::open(&copy, &options).unwrap();
        assert_eq!(restored.table("t").unwrap().snapshot().rows(), 180_000);
        well("DELETE FROM t WHERE n = 1000000");
        lengths.push(summary.file_bytes);
    }
    assert!(lengths[1] < lengths[0] / 2, "{lengths:?}");
}

#[test]
fn what_is_cut_is_no_backup_and_a_client_that_goes_leaves_the_turn() {
    let _memory = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let server = TestServer::start();
    let mut client = server.connect();
    for sql in [
        "CREATE TABLE t (n BIGINT PRIMARY KEY, s VARCHAR)",
        // More than is sent ahead.
        "INSERT INTO t SELECT x, repeat(CAST(x AS VARCHAR), 60) FROM generate_series(1, 100000) AS g(x)",
    ] {
        assert_eq!(client.sql(sql).status, 200);
    }
    let runtime = Runtime::new().unwrap();
    let fetch = || fetch(&runtime, &server, None, Compression::None);
    let mut begun = fetch().unwrap();
    let busy = fetch().unwrap_err();
    let is_busy = matches!(busy, ClientError::Refused { status: 503, .. });
    assert!(is_busy, "{busy}");
    let file = server.scratch.path().join("cut");
    let error = receive(&mut (&mut begun).take(2 << 20), &file).unwrap_err();
    assert!(error.to_string().contains("cut short"), "{error}");
    drop(begun);
    let rest = (0..800).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        fetch().ok()
    });
    let mut whole = rest.expect("a client that has gone still holds the turn");
    receive(&mut whole, &file).unwrap();
    assert!(Backup::open(&file).is_ok());
}

#[test]
fn a_backup_is_for_those_who_may_change_the_database() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("users.toml");
    let verifier = verifier("secret").unwrap();
    let text = format!(
        "alice = \"{verifier}\"\nreader = {{ verifier = \"{verifier}\", read-only = true }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let server = TestServer::with(Options {
        users: Some(Users::read(&file).unwrap()),
        ..open_to_all()
    });
    let runtime = Runtime::new().unwrap();
    for (login, refused) in [
        (None, 401),
        (Some(("alice", "wrong")), 401),
        (Some(("reader", "secret")), 403),
    ] {
        let error = fetch(&runtime, &server, login, Compression::None).unwrap_err();
        let is_it = matches!(error, ClientError::Refused { status, .. } if status == refused);
        assert!(is_it, "{login:?}: {error}");
    }
    let alice = Some(("alice", "secret"));
    let mut download = fetch(&runtime, &server, alice, Compression::None).unwrap();
    let summary = receive(&mut download, &scratch.path().join("backup")).unwrap();
    assert_eq!(summary.tables, 0);
}

/// The tests' certificate is signed by nobody.
#[test]
fn a_server_that_cannot_prove_who_it_is_gets_no_password() {
    let server = TestServer::with(Options {
        tls: Some(tls()),
        ..open_to_all()
    });
    let runtime = Runtime::new().unwrap();
    let authorities =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tierra-postgres/tests/wire/certificate.pem");
    let remote = Remote {
        url: format!("https://{}", server.address),
        login: Some(("alice".to_owned(), "secret".to_owned())),
        authorities: Some(authorities),
    };
    let error = runtime
        .block_on(fetch_backup(&remote, Compression::None))
        .unwrap_err();
    assert!(matches!(error, ClientError::Unreached { .. }), "{error}");
    let nobody = Remote {
        authorities: Some("/nonexistent".into()),
        ..remote
    };
    let error = runtime
        .block_on(fetch_backup(&nobody, Compression::None))
        .unwrap_err();
    assert!(error.to_string().contains("--ca"), "{error}");
}
