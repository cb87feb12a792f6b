//! The promise of the log: warnings reach standard error unless they are not wanted, one a line, and nothing in them is an order
//! to the terminal.
#![cfg(feature = "cli")]

mod binary;

use std::fs;
use std::process::{Command, Output};

use binary::tierra;

/// A database that warns when it is opened: one of its tiers, whose path holds a control character, is away.
fn degraded() -> (tempfile::TempDir, String) {
    let scratch = tempfile::tempdir().unwrap();
    let (db, b) = (
        scratch.path().join("db"),
        scratch.path().join("b\u{1b}[31m.pool"),
    );
    let (db, b) = (db.to_str().unwrap().to_owned(), b.to_str().unwrap());
    let sql =
        format!("CREATE TIER b AT '{b}'; CREATE TABLE t (a INT) WITH ('replicas' = 'far, b')");
    tierra(["sql", "--create", "--db", &db, "-c", &sql]).well();
    fs::remove_file(b).unwrap();
    (scratch, db)
}

/// What is said on standard error while the database is asked, with these arguments and this in the environment.
fn said(db: &str, arguments: &[&str], variable: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tierra"));
    command.env_remove("TIERRA_LOG");
    if let Some(text) = variable {
        command.env("TIERRA_LOG", text);
    }
    let ask = ["sql", "--db", db, "--degraded", "-c", "SELECT 1"];
    let Output { status, stderr, .. } = command.args(ask).args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn warnings_are_told_unless_they_are_not_wanted() {
    let (_scratch, db) = degraded();
    let is_told = |arguments: &[&str], variable| {
        let (status, said) = said(&db, arguments, variable);
        assert_eq!(status, Some(0), "{said}");
        let is_told = said.contains("tier=b");
        assert!(is_told || said.is_empty(), "{said}");
        is_told
    };
    assert!(is_told(&[], None));
    assert!(is_told(&[], Some("")));
    assert!(is_told(&["--log", "info"], Some("off")));
    assert!(is_told(&["--log", "off,tierra_engine=warn"], None));
    assert!(!is_told(&[], Some("off")));
    assert!(!is_told(&["--log", "error"], None));
    assert!(!is_told(&["--log", "warn,tierra_engine=off"], None));
    let refused = said(&db, &["--log", "loud"], None);
    assert!(
        refused.0 == Some(2) && refused.1.contains("'loud' is no level"),
        "{refused:?}"
    );
    let refused = said(&db, &[], Some("loud"));
    assert!(
        refused.0 == Some(2) && refused.1.contains("TIERRA_LOG: 'loud'"),
        "{refused:?}"
    );
}

#[test]
fn a_line_is_text_or_json_and_no_order_to_the_terminal() {
    let (_scratch, db) = degraded();
    let (_, text) = said(&db, &[], None);
    assert!(
        text.starts_with("warning: ") && text.contains("\\u{1b}[31m"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let (_, json) = said(&db, &["--log-format", "json"], None);
    assert!(!json.is_empty());
    for line in json.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        assert_eq!(line["level"], "warn", "{line}");
        assert!(line["unix_ms"].as_u64() > Some(1_600_000_000_000), "{line}");
        let target = line["target"].as_str().unwrap();
        assert!(
            target.starts_with("tierra_engine::database::open"),
            "{line}"
        );
    }
    assert!(json.contains("\\u001b[31m"), "{json}");
}
