//! The promise of the library: blocking and async calls, options that hold, errors instead of panics.

#[cfg(feature = "cli")]
mod binary;

use tierra::{Database, Error, Execution, Options, Scheduling, sql::Outcome};

#[test]
fn answers_are_durable_and_settings_last() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    assert!(matches!(Database::open(&dir), Err(Error::Open(_))));
    let db = Database::create(&dir).unwrap();
    db.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR)")
        .unwrap();
    let inserted = db
        .sql("INSERT INTO t VALUES (1, 'one'), (2, NULL)")
        .unwrap();
    assert_eq!(inserted.row_count(), 2);
    db.sql("SET tierra.execution = 'plain'").unwrap();
    db.sql("PREPARE p AS SELECT v FROM t WHERE k = $1").unwrap();
    assert_eq!(db.sql("EXECUTE p(2)").unwrap().row_count(), 1);
    let shown = db.sql("SHOW tierra.execution").unwrap().to_string();
    assert!(shown.contains("plain"), "{shown}");
    drop(db);
    assert!(matches!(Database::create(&dir), Err(Error::Open(_))));
    let db = Options::new().threads(1).open_or_create(&dir).unwrap();
    assert!(
        db.sql("SELECT * FROM t")
            .unwrap()
            .to_string()
            .contains("NULL")
    );
}

#[test]
fn blocking_in_async_code_is_an_error_and_not_a_panic() {
    let scratch = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let db = Database::create(scratch.path().join("db")).unwrap();
        assert!(matches!(db.sql("SELECT 1"), Err(Error::InsideRuntime)));
        assert_eq!(db.sql_async("SELECT 1").await.unwrap().row_count(), 1);
        let session = db.session().unwrap();
        let outcome = session
            .sql("SELECT 1 AS one UNION ALL SELECT 2")
            .await
            .unwrap();
        let Outcome::Rows(mut rows) = outcome else {
            panic!("a query yields rows");
        };
        let batches = rows.collect().await.unwrap();
        assert_eq!(batches.iter().map(|b| b.num_rows()).sum::<usize>(), 2);
    });
}

#[test]
fn a_program_has_the_last_word_on_how_lookups_wait() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    drop(Database::create(&dir).unwrap());
    std::fs::write(dir.join("tierra.toml"), "execution = \"plain\"").unwrap();
    let shown = |options: Options| {
        let db = options.open(&dir).unwrap();
        db.sql("SHOW tierra.execution").unwrap().to_string()
    };
    for (options, expected) in [
        (Options::new(), "plain"),
        (Options::new().execution(Scheduling::Auto), "auto"),
        (
            Options::new().execution(Execution::Interleaved),
            "interleaved",
        ),
    ] {
        let shown = shown(options);
        assert!(shown.contains(&format!(" {expected} ")), "{shown}");
    }
}

#[test]
fn a_pool_ends_at_its_capacity() {
    let scratch = tempfile::tempdir().unwrap();
    let options = Options::new().capacity_bytes(16 << 20);
    let db = options.create(scratch.path().join("db")).unwrap();
    db.sql("CREATE TABLE t (text VARCHAR)").unwrap();
    let long = "SELECT repeat(cast(random() AS VARCHAR), 2000) FROM generate_series(1, 1000)";
    let error = db.sql(&format!("INSERT INTO t {long}")).unwrap_err();
    assert!(error.to_string().contains("of 16777216 in use"), "{error}");
    assert_eq!(db.sql("SELECT * FROM t").unwrap().row_count(), 0);
}

#[test]
fn threads_share_a_database() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::create(scratch.path().join("db")).unwrap();
    db.sql("CREATE TABLE t (writer INTEGER, n INTEGER)")
        .unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let db = &db;
            scope.spawn(move || {
                for n in 0..10 {
                    db.sql(&format!("INSERT INTO t VALUES ({writer}, {n})"))
                        .unwrap();
                }
            });
        }
    });
    let answer = db
        .sql("SELECT writer FROM t GROUP BY writer HAVING count(*) = 10")
        .unwrap();
    assert_eq!(answer.row_count(), 4);
}

#[cfg(feature = "cli")]
#[test]
fn one_process_at_a_time() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db").display().to_string();
    let db = Database::create(&dir).unwrap();
    let other = || binary::tierra(["sql", "--db", &dir, "-c", "SELECT 1"]);
    other().with_error(&[&dir, "open in another process"]);
    db.sql("CREATE TABLE t (id INTEGER)").unwrap();
    drop(db);
    other().well();
}
