//! `tierra backup`, `restore`, `export` and `import`, and BACKUP DATABASE: what they write is what was there, they replace nothing,
//! and what is no backup is refused.
#![cfg(feature = "cli")]

mod binary;

use std::fs;
use std::path::Path;
use std::process::Command;

use binary::tierra;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// A database in two tiers.
    fn fill(&self) -> String {
        let (db, b) = (self.path("db"), self.path("b.pool"));
        let sql = format!(
            "CREATE TIER b AT '{b}';
             CREATE TABLE items (id BIGINT PRIMARY KEY, name VARCHAR NOT NULL, price DECIMAL(9, 2), moment TIMESTAMP,
                 day DATE, share DOUBLE, sold BOOLEAN, n INTEGER)
                 WITH ('name.encoding' = 'dictionary', 'name.index' = 'inverted', 'replicas' = 'far, b');
             INSERT INTO items SELECT value, 'item ' || (value % 100),
                 CASE WHEN value % 7 > 0 THEN value % 10000 / 100.0 END,
                 to_timestamp_micros(1709208000000001 + value * 1000000),
                 DATE '2024-02-29', value / 8.0, value % 2 = 0, value % 1000
                 FROM generate_series(1, 70000) AS s(value);
             DELETE FROM items WHERE id % 10 = 3;
             INSERT INTO items VALUES (0, 'Zürich ''quoted''', NULL, NULL, NULL, NULL, NULL, NULL);
             CREATE TABLE \"Odd name/\" (\"a.b\" VARCHAR);
             INSERT INTO \"Odd name/\" VALUES ('x'), (NULL), ('');
             CREATE TABLE empty (n INTEGER)"
        );
        tierra(["sql", "--create", "--db", &db, "-c", &sql]).well();
        db
    }
}

const TABLES: [&str; 3] = ["items", "\"Odd name/\"", "empty"];

/// All rows of all tables.
fn rows(db: &str) -> Vec<String> {
    let of = |table: &&str| {
        let sql = format!("SELECT * FROM {table} ORDER BY 1");
        let ended = tierra(["sql", "--db", db, "--format", "csv", "-c", &sql]);
        ended.well().out
    };
    TABLES.iter().map(of).collect()
}

fn sql(db: &str, sql: &str) -> binary::Ended {
    tierra(["sql", "--db", db, "--format", "csv", "-c", sql])
}

#[test]
fn a_closed_database_comes_back_from_its_backup() {
    let place = Place::new();
    let db = place.fill();
    let expected = rows(&db);
    for method in ["none", "zstd"] {
        let (file, copy) = (place.path(method), place.path(&format!("copy-{method}")));
        let backup = ["backup", "--db", &db, &file, "--compression", method];
        let said = tierra(backup).well().out;
        assert!(said.contains("3 tables, 63,004 rows, "), "{said}");
        let said = tierra(["restore", "--check", &file]).well().out;
        assert!(said.contains("intact: 3 tables, 63,004 rows"), "{said}");
        let said = tierra(["restore", &file, "--db", &copy]).well().out;
        let b = format!("tier b: {copy}/b.pool");
        assert!(said.contains(&b), "{said}");
        assert_eq!(rows(&copy), expected);
        let tiers = "SELECT name FROM tierra_tiers ORDER BY name";
        assert_eq!(sql(&copy, tiers).well().out, sql(&db, tiers).well().out);
        let said = tierra(["verify", "--db", &copy]).well().out;
        assert!(said.contains("0 copies damaged"), "{said}");
        sql(&copy, "INSERT INTO items (id, name) VALUES (5, 'x')").with_error(&["items"]);
        sql(&copy, "DELETE FROM items WHERE id < 100").well();
        // Another backup of the same name, or a restore over what is there.
        let before = fs::read(&file).unwrap();
        tierra(backup).with_error(&[&file, "replaces no file"]);
        assert!(fs::read(&file).unwrap() == before);
        tierra(["restore", &file, "--db", &copy]).with_error(&[&copy, "not empty"]);
        tierra(["restore", &file, "--db", &db]).with_error(&[&db, "not empty"]);
    }
    let sizes = ["none", "zstd"].map(|file| fs::metadata(place.path(file)).unwrap().len());
    assert!(sizes[1] < sizes[0], "{sizes:?}");
    assert_eq!(rows(&db), expected);
    // Its pools may lie elsewhere.
    let (copy, pool) = (place.path("elsewhere"), place.path("far.elsewhere"));
    let far = format!("far={pool}");
    let file = place.path("none");
    tierra(["restore", &file, "--db", &copy, "--pool", &far]).well();
    assert!(Path::new(&pool).exists() && !Path::new(&copy).join("far.pool").exists());
    assert_eq!(rows(&copy), expected);
    let c = format!("c={pool}");
    tierra(["restore", &file, "--db", &place.path("x"), "--pool", &c]).with_error(&["far, b"]);
    tierra(["restore", &file]).with_status(2, &["--db"]);
}

#[test]
fn what_is_no_whole_backup_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let db = place.fill();
    let (file, copy) = (place.path("backup"), place.path("copy"));
    tierra(["backup", "--db", &db, &file]).well();
    let bytes = fs::read(&file).unwrap();
    let wrong = place.path("wrong");
    let refused = |bytes: &[u8], said: &str| {
        fs::write(&wrong, bytes).unwrap();
        tierra(["restore", &wrong, "--db", &copy]).with_error(&[&wrong, said]);
        tierra(["restore", "--check", &wrong]).with_error(&[&wrong, said]);
        assert!(!Path::new(&copy).exists());
    };
    refused(&bytes[..bytes.len() / 2], "cut short");
    refused(b"no backup at all", "no backup");
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 1;
    refused(&flipped, "does not match its checksum");
    fs::write(&wrong, b"").unwrap();
    tierra(["restore", &place.path("none"), "--db", &copy]).with_error(&["none", "No such file"]);
    // The database is open elsewhere: that process can write it.
    let held = tierra::Database::open(&db).unwrap();
    let other = place.path("other");
    let said = ["process id", "BACKUP DATABASE TO", &other];
    tierra(["backup", "--db", &db, &other]).with_error(&said);
    held.sql(&format!("BACKUP DATABASE TO '{other}'")).unwrap();
    drop(held);
    tierra(["restore", &other, "--db", &copy]).well();
    assert_eq!(rows(&copy), rows(&db));
}

#[test]
fn a_statement_writes_a_backup_outside_of_transactions() {
    let place = Place::new();
    let db = place.fill();
    let (one, two, copy) = (place.path("one"), place.path("two"), place.path("copy"));
    let said = sql(
        &db,
        &format!("BACKUP DATABASE TO '{one}' WITH (compression = 'zstd')"),
    );
    said.well();
    let script = format!("BEGIN; BACKUP DATABASE TO '{two}'");
    sql(&db, &script).with_error(&["BACKUP in a transaction"]);
    assert!(!Path::new(&two).exists());
    sql(&db, &format!("BACKUP DATABASE TO '{one}'")).with_error(&["replaces no file"]);
    sql(&db, "BACKUP DATABASE TO '/no/such/directory/x'").with_error(&["/no/such/directory"]);
    sql(&db, "BACKUP DATABASE").with_error(&["Expected: TO"]);
    tierra(["restore", &one, "--db", &copy]).well();
    assert_eq!(rows(&copy), rows(&db));
}

#[test]
fn a_backup_builds_on_an_older_one() {
    let place = Place::new();
    let db = place.fill();
    let (one, two, three) = (place.path("one"), place.path("two"), place.path("three"));
    tierra(["backup", "--db", &db, &one]).well();
    sql(
        &db,
        "DELETE FROM items WHERE id % 10 = 4; INSERT INTO empty VALUES (1)",
    )
    .well();
    tierra(["backup", "--db", &db, &two, "--since", &one]).well();
    sql(&db, "INSERT INTO empty VALUES (2)").well();
    sql(
        &db,
        &format!("BACKUP DATABASE TO '{three}' WITH (since = '{two}')"),
    )
    .well();
    let bytes = |file: &str| fs::metadata(file).unwrap().len();
    // The index of keys may be stored between the first and the second.
    assert!(bytes(&two) * 2 < bytes(&one) && bytes(&three) * 2 < bytes(&one));
    let copy = place.path("copy");
    tierra(["restore", &three, "--db", &copy]).well();
    assert_eq!(rows(&copy), rows(&db));
    let away = place.path("away");
    fs::rename(&one, &away).unwrap();
    let again = place.path("again");
    tierra(["restore", &three, "--db", &again]).with_error(&["\"one\"", "--older"]);
    assert!(!Path::new(&again).exists());
    tierra(["restore", &three, "--db", &again, "--older", &away]).well();
    assert_eq!(rows(&again), rows(&db));
    tierra(["backup", "--db", &again, &place.path("x"), "--since", &away])
        .with_error(&["not a backup of an earlier state"]);
}

#[test]
fn a_folder_of_sql_and_parquet_becomes_the_same_tables() {
    let place = Place::new();
    let db = place.fill();
    let (folder, copy) = (place.path("folder"), place.path("copy"));
    let said = tierra(["export", "--db", &db, &folder]).well().out;
    assert!(said.contains("3 tables, 63,004 rows"), "{said}");
    let schema = fs::read_to_string(format!("{folder}/schema.sql")).unwrap();
    assert!(schema.contains("-- ALTER TABLE \"items\" SET"), "{schema}");
    for file in ["items.parquet", "Odd%20name%2F.parquet", "empty.parquet"] {
        assert!(Path::new(&folder).join(file).exists(), "{file}");
    }
    assert!(!Path::new(&format!("{folder}.partial")).exists());
    tierra(["import", &folder, "--db", &copy]).well();
    assert_eq!(rows(&copy), rows(&db));
    let columns = "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns ORDER BY 1, 2";
    assert_eq!(sql(&copy, columns).well().out, sql(&db, columns).well().out);
    sql(&copy, "INSERT INTO items (id, name) VALUES (5, 'x')").with_error(&["items"]);
    // Nothing is replaced.
    tierra(["export", "--db", &db, &folder]).with_error(&[&folder, "not empty"]);
    tierra(["import", &folder, "--db", &copy]).with_error(&["exists already"]);
    assert_eq!(rows(&copy), rows(&db));
    // A table whose file is missing or damaged takes the others with it.
    let other = place.path("other");
    fs::write(format!("{folder}/empty.parquet"), "no Parquet").unwrap();
    tierra(["import", &folder, "--db", &other]).with_error(&["empty.parquet"]);
    let tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'";
    assert_eq!(sql(&other, tables).well().out, "count(*)\n0\n");
    let more = format!("{schema};\nDROP TABLE x");
    fs::write(format!("{folder}/schema.sql"), more).unwrap();
    tierra(["import", &folder, "--db", &other]).with_error(&["only CREATE TABLE", "DROP TABLE x"]);
}

/// DuckDB reads the files: an oracle, where it is installed (`pip install duckdb`).
#[test]
fn duckdb_reads_an_exported_folder() {
    let python = |code: &str| {
        let ended = Command::new("python3").args(["-c", code]).output().ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(ended.status.success(), "{}", text(&ended.stderr));
        Some(text(&ended.stdout))
    };
    let found = Command::new("python3")
        .args(["-c", "import duckdb"])
        .output();
    if !found.is_ok_and(|found| found.status.success()) {
        println!("left out: there is no duckdb");
        return;
    }
    let place = Place::new();
    let db = place.fill();
    let folder = place.path("folder");
    tierra(["export", "--db", &db, &folder]).well();
    let code = format!(
        "import duckdb
for row in duckdb.sql('''SELECT count(*), sum(id), sum(price), min(moment), max(moment), min(day), sum(share), count_if(sold), sum(n),
    count(DISTINCT name), max(name) FROM '{folder}/items.parquet' ''').fetchall(): print(*row, sep=',')
print(*[t[0] for t in duckdb.sql('''SELECT column_type FROM (DESCRIBE FROM '{folder}/items.parquet')''').fetchall()])
print(duckdb.sql('''SELECT count(*), count(\"a.b\") FROM '{folder}/Odd%20name%2F.parquet' ''').fetchall())
print(duckdb.sql('''SELECT count(*) FROM '{folder}/empty.parquet' ''').fetchall())"
    );
    let found = python(&code).unwrap();
    let query = "SELECT count(*), sum(id), sum(price), CAST(min(moment) AS VARCHAR), CAST(max(moment) AS VARCHAR), min(day),
        CAST(sum(share) AS DECIMAL(12, 1)), count(*) FILTER (WHERE sold), sum(n), count(DISTINCT name), max(name) FROM items";
    let own = sql(&db, query).well().out;
    let own = own.lines().nth(1).unwrap().replace('T', " ");
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines[0], own);
    assert_eq!(
        lines[1],
        "BIGINT VARCHAR DECIMAL(9,2) TIMESTAMP DATE DOUBLE BOOLEAN INTEGER"
    );
    assert_eq!(lines[2..], ["[(3, 2)]", "[(0,)]"]);
}
