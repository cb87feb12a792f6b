//! The promise of `tierra verify`, `scrub` and `repair`: damage is told, put right from another copy, and told as
//! lost where there is none.
#![cfg(feature = "cli")]

mod binary;

use std::fs;

use binary::tierra;

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
    run("verify").with_error(&["damaged, with others whole: 1 copy;", "tierra repair --db"]);
    let said = run("repair").well().out;
    assert!(said.contains("1 copy damaged, 1 repaired"), "{said}");
    run("verify").well();
    damage(far);
    damage(b);
    let ended = run("scrub").with_error(&["no copy is left"]);
    assert!(
        ended.out.contains("lost: table t, column id, segment "),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("rows 0 to 1023"), "{}", ended.out);
    tierra(["verify", "--db", b]).with_error(&[b]);
}
