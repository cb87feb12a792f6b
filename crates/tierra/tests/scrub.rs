//! The promise of `tierra verify`, `scrub` and `repair`: damage is told, put right from another copy, and told as
//! lost where there is none; and the exit status says which of these it was.
#![cfg(feature = "cli")]

mod binary;

use std::fs;

use binary::tierra;

const USAGE: i32 = 2;
const REPAIRED: i32 = 3;
const DEGRADED: i32 = 4;
const LOST: i32 = 5;

/// Flips a bit of the middle of the largest chunk in a pool.
fn damage(pool: &str) {
    let mut bytes = fs::read(pool).unwrap();
    let u64_at =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let starts = bytes.windows(5).enumerate();
    let starts = starts.filter(|(_, window)| *window == b"TCHK\x01");
    let chunk = starts
        .max_by_key(|(at, _)| u64_at(&bytes, at + 48))
        .unwrap()
        .0;
    let at = chunk + (u64_at(&bytes, chunk + 40) + 100) as usize;
    bytes[at] ^= 8;
    fs::write(pool, bytes).unwrap();
}

#[test]
fn damage_is_told_repaired_and_lost_only_without_a_copy() {
    let scratch = tempfile::tempdir().unwrap();
    let (db, b) = (scratch.path().join("db"), scratch.path().join("b.pool"));
    let far = db.join("far.pool");
    let (db, b, far) = (
        db.to_str().unwrap(),
        b.to_str().unwrap(),
        far.to_str().unwrap(),
    );
    let sql = format!(
        "CREATE TIER b AT '{b}';
         CREATE TABLE t (id BIGINT) WITH ('replicas' = 'far, b');
         INSERT INTO t SELECT (value * 7919) % 100003 FROM generate_series(1, 70000) AS s(value)"
    );
    tierra(["sql", "--create", "--db", db, "-c", &sql]).well();
    // Nothing is copied near, so nothing but the commands reads the blocks.
    let run = |command: &str| tierra([command, "--db", db, "--near-memory", "0"]);
    let said = run("verify").well().out;
    assert!(said.contains("0 copies damaged, 0 repaired"), "{said}");
    assert!(
        said.starts_with("1 extent, ") && said.contains(" KiB read: "),
        "{said}"
    );
    damage(b);
    let found = [
        "damaged, but another copy is intact: 1 copy;",
        "tierra repair --db",
    ];
    run("verify").with_status(DEGRADED, &found);
    let said = run("repair").with_status(REPAIRED, &[]).out;
    assert!(said.contains("1 copy damaged, 1 repaired"), "{said}");
    run("verify").well();
    damage(b);
    run("scrub").with_status(REPAIRED, &[]);
    run("scrub").well();
    damage(far);
    damage(b);
    let ended = run("scrub").with_status(LOST, &["has no readable copy"]);
    assert!(
        ended.out.contains("lost: table t, column id, segment "),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("rows 0 to 1023"), "{}", ended.out);
    tierra(["verify", "--db", b]).with_error(&[b]);
}

/// A tier that is missing is said loudly, whatever is done meanwhile, and the exit status of a check does not say that all is well.
#[test]
fn a_missing_tier_is_told_by_message_and_status() {
    let scratch = tempfile::tempdir().unwrap();
    let (db, b) = (scratch.path().join("db"), scratch.path().join("b.pool"));
    let (db, b) = (db.to_str().unwrap(), b.to_str().unwrap());
    let sql = format!(
        "CREATE TIER b AT '{b}';
         CREATE TABLE t (id BIGINT) WITH ('replicas' = 'far, b');
         INSERT INTO t SELECT value FROM generate_series(1, 70000) AS s(value)"
    );
    let made = tierra(["sql", "--create", "--db", db, "-c", &sql]).well();
    assert_eq!(made.err, "", "what is whole is not spoken of");
    fs::rename(b, format!("{b}.away")).unwrap();
    for command in ["verify", "scrub", "repair"] {
        tierra([command, "--db", db]).with_status(DEGRADED, &["\"b\"", b, "--degraded", "error: "]);
        let going_on = tierra([command, "--db", db, "--degraded"]);
        going_on.with_status(DEGRADED, &["tier b is missing", b, "error: "]);
    }
    let asked = tierra([
        "sql",
        "--db",
        db,
        "--degraded",
        "-c",
        "SELECT count(*) FROM t",
    ])
    .well();
    assert!(asked.out.contains("70000"), "{}", asked.out);
    assert!(asked.err.starts_with("warning: "), "{}", asked.err);
    assert!(asked.err.contains("tier=b"), "{}", asked.err);
    assert!(asked.err.contains(b), "{}", asked.err);
    tierra(["verify", "--db", db, "--nothing"]).with_status(USAGE, &["--nothing"]);
    tierra(["verify", "--db", &format!("{db}-nowhere")]).with_error(&["-nowhere"]);
}

/// A table whose log is damaged, and a column whose dictionary is, are there and cannot be read: every check lists them.
#[test]
fn what_is_withheld_is_listed_as_lost() {
    let scratch = tempfile::tempdir().unwrap();
    let db = scratch.path().join("db");
    let far = db.join("far.pool");
    let db = db.to_str().unwrap();
    let sql = "CREATE TABLE whole (id BIGINT); INSERT INTO whole VALUES (1);
         CREATE TABLE logged (id BIGINT); INSERT INTO logged VALUES (1); INSERT INTO logged VALUES (2);
         CREATE TABLE coded (id BIGINT, word VARCHAR) WITH ('word.encoding' = 'dictionary');
         INSERT INTO coded SELECT value, 'word ' || (value % 100) FROM generate_series(1, 70000) AS s(value)";
    tierra(["sql", "--create", "--db", db, "-c", sql]).well();
    tierra(["verify", "--db", db]).well();
    let mut bytes = fs::read(&far).unwrap();
    let mut flip = |begins: &[u8], behind: usize| {
        let lines = (16_384..bytes.len()).step_by(64);
        let at = { lines }.rfind(|at| bytes[*at..].starts_with(begins));
        bytes[at.unwrap() + behind] ^= 8;
    };
    // The newest log that there is is that of `logged`.
    flip(b"TLOG", 80);
    flip(b"TDIC", 60);
    fs::write(&far, bytes).unwrap();
    for command in ["verify", "scrub", "repair", "verify"] {
        let ended = tierra([command, "--db", db]).with_status(LOST, &["listed as lost"]);
        for part in [
            "lost: table \"logged\" has rows that cannot be read: record ",
            "lost: table \"coded\" has rows of column \"word\" that cannot be read: ",
            "tierra salvage",
        ] {
            assert!(ended.out.contains(part), "{part} is not in {}", ended.out);
        }
        assert!(!ended.out.contains("\"whole\""), "{}", ended.out);
    }
    let count = ["sql", "--db", db, "-c"];
    let query = "SELECT count(id) FROM coded; SELECT id FROM whole";
    tierra(count.iter().chain(&[query])).well();
    tierra(count.iter().chain(&["DROP TABLE logged; DROP TABLE coded"])).well();
    tierra(["verify", "--db", db]).well();
}

/// What lies in a missing tier alone cannot be read either.
#[test]
fn what_lies_in_a_missing_tier_alone_is_listed() {
    let scratch = tempfile::tempdir().unwrap();
    let (db, b) = (scratch.path().join("db"), scratch.path().join("b.pool"));
    let (db, b) = (db.to_str().unwrap(), b.to_str().unwrap());
    let sql = format!(
        "CREATE TIER b AT '{b}';
         CREATE TABLE there (id BIGINT); INSERT INTO there VALUES (1);
         CREATE TABLE away (id BIGINT) WITH ('replicas' = 'b'); INSERT INTO away VALUES (1)"
    );
    tierra(["sql", "--create", "--db", db, "-c", &sql]).well();
    fs::rename(b, format!("{b}.away")).unwrap();
    let ended =
        tierra(["verify", "--db", db, "--degraded"]).with_status(LOST, &["has no readable copy"]);
    assert!(
        ended
            .out
            .contains("lost: table \"away\" has rows that lie in no other tier"),
        "{}",
        ended.out
    );
    fs::rename(format!("{b}.away"), b).unwrap();
    tierra(["verify", "--db", db]).well();
}
