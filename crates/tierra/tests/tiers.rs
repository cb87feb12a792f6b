//! The promise of `tierra tiers`: it says what the machine's memory survives, and which tiers a database has and misses.
#![cfg(feature = "cli")]

mod binary;

use std::fs;

use binary::tierra;

#[test]
fn the_tiers_of_a_database_are_listed_and_so_are_those_that_are_missing() {
    let scratch = tempfile::tempdir().unwrap();
    let (db, pool) = (scratch.path().join("db"), scratch.path().join("b.pool"));
    let (db, pool) = (db.to_str().unwrap(), pool.to_str().unwrap());
    let sql = format!(
        "CREATE TIER b AT '{pool}'; CREATE TABLE t (id INTEGER) WITH ('replicas' = 'far, b')"
    );
    tierra(["sql", "--create", "--db", db, "-c", &sql]).well();

    let tiers = || {
        tierra(["tiers", "--working-set", "1M", "--db", db])
            .well()
            .out
    };
    let said = tiers();
    let (machine, database) = said.split_once("tiers of the database in ").expect(&said);
    let heads = |part: &str, heads: [&str; 2]| {
        let is_head = |line: &str| heads.iter().all(|head| line.contains(head));
        assert!(part.lines().any(is_head), "{said}");
    };
    heads(machine, ["random read", "durability"]);
    heads(database, ["medium", "durability"]);
    heads(database, ["written", "amplification"]);
    assert!(machine.contains("DRAM"), "{said}");
    let row = |name: &str| {
        database
            .lines()
            .find(|line| line.starts_with(name))
            .expect(&said)
    };
    assert!(row("near ").contains("none"), "{said}");
    for tier in ["far ", "b "] {
        let grains = ["cache line", "page", "process only"];
        assert!(
            grains.iter().any(|grain| row(tier).contains(grain)),
            "{said}"
        );
    }
    assert!(!said.contains("is missing"), "{said}");

    fs::remove_file(pool).unwrap();
    let said = tiers();
    assert!(
        said.contains(&format!("tier b is missing: {pool}")),
        "{said}"
    );
    assert!(said.lines().any(|line| line.starts_with("far ")), "{said}");

    tierra(["tiers", "--working-set", "1M", "--db", pool]).with_error(&[pool]);

    // What cannot be is said before anything is measured.
    let missing = format!("{db}-nowhere");
    let file = format!("{db}/far.pool");
    for arguments in [vec!["--db", &missing], vec![&missing], vec![&file]] {
        let ended = tierra([&["tiers", "--working-set", "1M"], &arguments[..]].concat());
        assert!(ended.out.is_empty(), "{}", ended.out);
        assert!(!ended.err.contains(".tierra-tiers-"), "{}", ended.err);
        ended.with_error(&[arguments[arguments.len() - 1]]);
    }
}
