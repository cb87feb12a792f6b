//! Directories that are copied, moved, or not all there: what the commands say, and that `adopt`, `--degraded` and `--read-only` do
//! what is said.
#![cfg(feature = "cli")]

mod binary;

use std::fs;
use std::process::Command;

use binary::tierra;

#[test]
fn a_copy_is_adopted_and_a_missing_tier_gone_without_as_asked() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    let (db, copy, b) = (path("db"), path("copy"), path("b.pool"));
    let sql = format!(
        "CREATE TIER b AT '{b}';
         CREATE TABLE t (id BIGINT) WITH ('replicas' = 'far, b');
         INSERT INTO t VALUES (1), (2), (3)"
    );
    tierra(["sql", "--create", "--db", &db, "-c", &sql]).well();
    let copied = Command::new("cp").args(["-a", &db, &copy]).status();
    assert!(copied.unwrap().success());
    let query = |arguments: &[&str]| {
        let fixed = ["sql", "--format", "csv", "-c", "SELECT SUM(id) AS s FROM t"];
        tierra([&fixed[..], arguments].concat())
    };
    let refused = query(&["--db", &copy]).with_error(&[&copy, &b, "tierra adopt"]);
    assert!(refused.err.contains(&format!("{db}:")), "{}", refused.err);
    let before = fs::read(&b).unwrap();
    let said = tierra(["adopt", &copy]).well().out;
    assert!(said.contains("tier b: copied to"), "{said}");
    tierra(["sql", "--db", &copy, "-c", "DROP TABLE t"]).well();
    assert!(fs::read(&b).unwrap() == before);
    assert_eq!(query(&["--db", &db]).well().out, "s\n6\n");

    let away = path("away");
    fs::rename(&b, &away).unwrap();
    query(&["--db", &db]).with_status(4, &["\"b\"", &b, "--degraded"]);
    let ended = query(&["--db", &db, "--degraded"]).well();
    assert_eq!(ended.out, "s\n6\n");
    assert!(ended.err.contains("missing"), "{}", ended.err);
    fs::write(format!("{db}/tierra.toml"), "degraded = true\n").unwrap();
    let ended = query(&["--db", &db]).well();
    assert!(ended.err.contains("missing"), "{}", ended.err);
    let insert = ["sql", "--db", &db, "-c", "INSERT INTO t VALUES (4)"];
    tierra(insert).well();
    fs::rename(&away, &b).unwrap();
    fs::remove_file(format!("{db}/tierra.toml")).unwrap();
    let ended = query(&["--db", &db]).well();
    assert_eq!((&*ended.out, &*ended.err), ("s\n10\n", ""));

    let ended = query(&["--db", &db, "--read-only"]).well();
    assert_eq!(ended.out, "s\n10\n");
    assert!(ended.err.contains("reading only"), "{}", ended.err);
    let ended = tierra([&insert[..], &["--read-only"]].concat());
    ended.with_error(&["reading only"]);
}
