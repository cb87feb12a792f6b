//! The promise of `tierra calibrate`: what it measured is kept beside the database, and a file that
//! this machine did not write does no harm.
#![cfg(feature = "cli")]

mod binary;

use std::fs;

use binary::tierra;
use tierra_engine::LookupKind;

#[test]
fn a_calibration_is_kept_and_a_wrong_one_is_warned_of_and_ignored() {
    let scratch = tempfile::tempdir().unwrap();
    let db = scratch.path().join("db");
    let dir = db.to_str().unwrap();
    tierra(["calibrate", "--db", dir]).with_error(&[dir]);
    tierra([
        "sql",
        "--create",
        "--db",
        dir,
        "-c",
        "CREATE TABLE t (id INTEGER PRIMARY KEY)",
    ])
    .well();

    let refused = tierra(["calibrate", "--quick", "--db", dir, "--emulate", "octane"]);
    assert_eq!(refused.status, 2, "a wrong command line");
    assert!(refused.err.contains("octane"), "{}", refused.err);
    let said = tierra(["calibrate", "--quick", "--db", dir, "--emulate", "optane"]);
    let said = said.well().out;
    let path = db.join("calibration");
    assert!(said.contains(path.to_str().unwrap()), "{said}");
    // Once as the memory is, once as it is emulated.
    for kind in LookupKind::ALL {
        let rows = said.lines().filter(|line| line.starts_with(kind.name()));
        let tiers = match kind {
            LookupKind::Cell | LookupKind::List | LookupKind::Stretch => 2,
            _ => 1,
        };
        assert_eq!(rows.count(), 2 * tiers, "{kind}: {said}");
    }
    let names = |entry: Result<fs::DirEntry, _>| entry.unwrap().file_name().into_string().unwrap();
    let mut left: Vec<String> = fs::read_dir(&db).unwrap().map(names).collect();
    left.sort();
    // Where the file system is memory, methods of writing differ, too.
    let profile = db.join("replication");
    let is_written = said.contains(profile.to_str().unwrap());
    assert_eq!(
        is_written,
        !said.contains("a write waits for the kernel"),
        "{said}"
    );
    let expected = [
        "LOCK",
        "calibration",
        "database",
        "database.copy",
        "far.pool",
        "replication",
    ];
    assert_eq!(left, expected[..5 + usize::from(is_written)]);
    let count = || tierra(["sql", "--db", dir, "-c", "SELECT COUNT(*) FROM t"]).well();
    assert_eq!(count().err, "");

    let whole = fs::read_to_string(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let warned = count().err;
    assert!(
        warned.contains("warning: ignoring the calibration"),
        "{warned}"
    );
    assert_eq!(warned.lines().count(), 1, "once: {warned}");
    assert!(warned.contains("tierra calibrate"), "{warned}");
}
