//! Several openers in one process share a database, and a fork leaves it alone.

use tierra::{Database, Error, Options, engine::OpenError, sql::Outcome};

#[test]
fn openers_share_and_the_last_one_closes() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let first = Options::new().open_or_create_shared(&dir).unwrap();
    first.sql("CREATE TABLE t (n BIGINT)").unwrap();
    first.sql("SET tierra.threads = 1").unwrap();
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let second = Database::open_shared(&link).unwrap();
    second.sql("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(first.sql("SELECT * FROM t").unwrap().row_count(), 1);
    // Settings are each opener's own.
    let threads = second.sql("SHOW tierra.threads").unwrap().to_string();
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(!threads.contains(" 1 "), "{threads}");
    }
    let alone = Database::open(&dir).unwrap_err();
    assert!(
        matches!(alone, Error::Open(OpenError::Locked { .. })),
        "{alone}"
    );
    let other = Options::new()
        .near_memory_bytes(1 << 20)
        .open_shared(&dir)
        .unwrap_err();
    assert!(other.to_string().contains("another near_memory"), "{other}");
    drop(first);
    drop(second);
    // Closed: who opens it now has it alone.
    let again = Options::new()
        .near_memory_bytes(1 << 20)
        .open(&dir)
        .unwrap();
    assert_eq!(
        Database::open_shared(&dir)
            .unwrap()
            .sql("SELECT * FROM t")
            .unwrap()
            .row_count(),
        1
    );
    drop(again);
}

/// Rows that are not read to their end keep a database open. An open meanwhile shares it, or waits for their end.
#[test]
fn rows_outlive_their_opener() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let first = Options::new().open_or_create_shared(&dir).unwrap();
    first
        .sql("CREATE TABLE t AS SELECT * FROM generate_series(1, 1000000) s(n)")
        .unwrap();
    let rows = runtime.block_on(async {
        let session = first.session().unwrap();
        match session.sql("SELECT n FROM t").await.unwrap() {
            Outcome::Rows(rows) => rows,
            Outcome::Done(_) => panic!(),
        }
    });
    drop(first);
    let second = Database::open_shared(&dir).unwrap();
    assert_eq!(
        second.sql("SELECT * FROM t").unwrap().row_count(),
        1_000_000
    );
    drop(second);
    let ends = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(rows);
        drop(runtime);
    });
    let third = Database::open_shared(&dir).unwrap();
    assert_eq!(third.sql("SELECT * FROM t").unwrap().row_count(), 1_000_000);
    ends.join().unwrap();
}
