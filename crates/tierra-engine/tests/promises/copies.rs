//! A copy of a database's directory opens its own pools, or is refused: it never writes to the original's. Adopted, it is a database of
//! its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::{all_rows, options, rows, spec};
use tempfile::TempDir;
use tierra_engine::{AdoptOptions, Database, OpenError, Replicas};

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Two tiers, the second where it is said, and a table in both.
    fn create(&self, second: &str) -> Arc<Database> {
        let database = Database::create(&self.path("db"), &options()).unwrap();
        database.add_tier("b", &self.path(second)).unwrap();
        let both = Replicas::of_table(["far", "b"]);
        let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
        table.append(&[rows(0..100)]).unwrap();
        table.seal().unwrap();
        table.append(&[rows(100..150)]).unwrap();
        database
    }

    fn open(&self, name: &str) -> Result<Arc<Database>, OpenError> {
        Database::open(&self.path(name), &options())
    }

    /// `cp -a`.
    fn copy(&self, from: &str, to: &str) {
        let copied = Command::new("cp")
            .arg("-a")
            .args([self.path(from), self.path(to)])
            .status();
        assert!(copied.unwrap().success());
    }
}

fn rows_of(database: &Database) -> arrow::array::RecordBatch {
    all_rows(&database.table("t").unwrap())
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn a_copy_with_its_pools_inside_is_its_own() {
    let place = Place::new();
    drop(place.create("db/b.pool"));
    place.copy("db", "copy");
    let pools = ["db/far.pool", "db/b.pool"].map(|pool| place.path(pool));
    let before = pools.each_ref().map(|pool| bytes(pool));
    let copy = place.open("copy").unwrap();
    assert_eq!(copy.missing_tiers(), []);
    copy.drop_table("t").unwrap();
    drop(copy);
    assert!(pools.each_ref().map(|pool| bytes(pool)) == before);
    // With the original open meanwhile.
    let original = place.open("db").unwrap();
    assert_eq!(rows_of(&original), rows(0..150));
    let copy = place.open("copy").unwrap();
    assert!(copy.tables().is_empty());
    original
        .table("t")
        .unwrap()
        .append(&[rows(150..160)])
        .unwrap();
    drop((original, copy));
    fs::rename(place.path("db"), place.path("moved")).unwrap();
    let moved = place.open("moved").unwrap();
    assert_eq!(moved.missing_tiers(), []);
    assert_eq!(rows_of(&moved), rows(0..160));
}

#[test]
fn a_copy_with_a_pool_outside_is_refused_until_it_is_adopted() {
    let place = Place::new();
    let original = place.create("b.pool");
    place.copy("db", "copy");
    let refused = place.open("copy").unwrap_err();
    assert!(matches!(refused, OpenError::Pool(_)), "{refused}");
    drop(original);
    fs::remove_dir_all(place.path("copy")).unwrap();
    place.copy("db", "copy");
    let pool = place.path("b.pool");
    let before = bytes(&pool);
    for _ in 0..2 {
        let refused = place.open("copy").unwrap_err();
        let told = refused.to_string();
        assert!(
            matches!(refused, OpenError::Elsewhere { is_there: true, .. }),
            "{told}"
        );
        for part in [
            place.path("db").to_str().unwrap(),
            place.path("copy").to_str().unwrap(),
            "tierra adopt",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
    // Nor does it help to go on without.
    let degraded = tierra_engine::DatabaseOptions {
        degraded: true,
        ..options()
    };
    assert!(Database::open(&place.path("copy"), &degraded).is_err());
    assert!(bytes(&pool) == before);

    let keep = AdoptOptions {
        take: true,
        ..AdoptOptions::default()
    };
    let adopted = Database::adopt(&place.path("copy"), &options(), &keep).unwrap();
    assert_eq!(
        adopted.copied.len(),
        1,
        "the original is there: {adopted:?}"
    );
    assert!(bytes(&pool) == before);
    let copy = place.open("copy").unwrap();
    assert_eq!(rows_of(&copy), rows(0..150));
    copy.drop_table("t").unwrap();
    drop(copy);
    assert!(bytes(&pool) == before);
    let original = place.open("db").unwrap();
    assert_eq!(rows_of(&original), rows(0..150));
    let copy = place.open("copy").unwrap();
    assert!(copy.tables().is_empty());
    drop((original, copy));

    // Neither takes the other's pools for its own.
    fs::copy(place.path("copy/b.pool"), &pool).unwrap();
    let refused = place.open("db").unwrap_err();
    assert!(matches!(refused, OpenError::OtherPool { .. }), "{refused}");
}

#[test]
fn a_link_in_the_directory_is_no_pool_of_the_copy() {
    let place = Place::new();
    drop(place.create("db/b.pool"));
    fs::rename(place.path("db/b.pool"), place.path("b.pool")).unwrap();
    std::os::unix::fs::symlink(place.path("b.pool"), place.path("db/b.pool")).unwrap();
    assert_eq!(rows_of(&place.open("db").unwrap()), rows(0..150));
    // The directory is written down with the next publication.
    place
        .open("db")
        .unwrap()
        .table("t")
        .unwrap()
        .seal()
        .unwrap();
    place.copy("db", "copy");
    let refused = place.open("copy").unwrap_err();
    assert!(matches!(refused, OpenError::Elsewhere { .. }), "{refused}");
}

#[test]
fn a_directory_that_was_moved_may_keep_its_pools() {
    let place = Place::new();
    drop(place.create("b.pool"));
    // As across file systems.
    place.copy("db", "moved");
    fs::remove_dir_all(place.path("db")).unwrap();
    let refused = place.open("moved").unwrap_err();
    assert!(
        matches!(
            refused,
            OpenError::Elsewhere {
                is_there: false,
                ..
            }
        ),
        "{refused}"
    );
    assert!(refused.to_string().contains("--take"), "{refused}");
    let keep = AdoptOptions {
        take: true,
        ..AdoptOptions::default()
    };
    let adopted = Database::adopt(&place.path("moved"), &options(), &keep).unwrap();
    assert_eq!(adopted.taken.len(), 1);
    let moved = place.open("moved").unwrap();
    assert_eq!(moved.missing_tiers(), []);
    assert_eq!(rows_of(&moved), rows(0..150));
}

#[test]
fn an_adoption_that_was_interrupted_goes_on() {
    let place = Place::new();
    drop(place.create("b.pool"));
    place.copy("db", "copy");
    // Half a copy of the pool.
    fs::write(place.path("copy/b.pool.adopting"), "half of it").unwrap();
    // Named, and not published.
    let before = bytes(&place.path("copy/far.pool"));
    Database::adopt(&place.path("copy"), &options(), &AdoptOptions::default()).unwrap();
    assert!(!place.path("copy/b.pool.adopting").exists());
    drop(place.open("copy").unwrap());
    assert!(bytes(&place.path("copy/far.pool")) != before);
    assert_eq!(rows_of(&place.open("copy").unwrap()), rows(0..150));
    // Once more, of a copy whose pools are all its own.
    Database::adopt(&place.path("copy"), &options(), &AdoptOptions::default()).unwrap();
    assert_eq!(rows_of(&place.open("copy").unwrap()), rows(0..150));
}

#[test]
fn an_adoption_that_failed_leaves_nothing_and_one_that_was_killed_is_not_repeated() {
    let place = Place::new();
    let database = place.create("b.pool");
    database.add_tier("c", &place.path("c.pool")).unwrap();
    drop(database);
    place.copy("db", "copy");
    let copy = place.path("copy");
    let names = || {
        let entries = fs::read_dir(&copy).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "LOCK").collect();
        names.sort();
        names
    };
    let before = names();
    let adopt = || Database::adopt(&copy, &options(), &AdoptOptions::default());
    // Another database's.
    let other = Database::create(&place.path("other"), &options()).unwrap();
    drop(other);
    fs::rename(place.path("c.pool"), place.path("kept")).unwrap();
    fs::copy(place.path("other/far.pool"), place.path("c.pool")).unwrap();
    for _ in 0..2 {
        adopt().unwrap_err();
        assert_eq!(names(), before);
    }
    fs::rename(place.path("kept"), place.path("c.pool")).unwrap();
    // Killed when one pool was copied.
    fs::copy(place.path("b.pool"), copy.join("b.pool")).unwrap();
    let adopted = adopt().unwrap();
    assert_eq!(adopted.copied[0].1, copy.join("b.pool"));
    assert!(!copy.join("b-2.pool").exists());
    let database = place.open("copy").unwrap();
    assert_eq!(database.missing_tiers(), []);
    assert_eq!(rows_of(&database), rows(0..150));
    drop(database);
    // A pool that no adoption used is in the way of nothing, should the directory file be lost.
    fs::copy(place.path("b.pool"), copy.join("b-2.pool")).unwrap();
    for name in ["database", "database.copy"] {
        fs::remove_file(copy.join(name)).unwrap();
    }
    assert_eq!(rows_of(&place.open("copy").unwrap()), rows(0..150));
}

/// A pool that was moved, not the directory.
#[test]
fn a_pool_that_was_moved_is_found_again() {
    let place = Place::new();
    drop(place.create("b.pool"));
    fs::rename(place.path("b.pool"), place.path("c.pool")).unwrap();
    let refused = place.open("db").unwrap_err();
    assert!(matches!(refused, OpenError::Degraded { .. }), "{refused}");
    let moved = AdoptOptions {
        pools: vec![("b".to_owned(), place.path("c.pool"))],
        ..AdoptOptions::default()
    };
    let adopted = Database::adopt(&place.path("db"), &options(), &moved).unwrap();
    assert_eq!((adopted.copied.len(), adopted.taken.len()), (0, 0));
    let database = place.open("db").unwrap();
    assert_eq!(database.missing_tiers(), []);
    assert_eq!(rows_of(&database), rows(0..150));
}

/// Each pool is whole, and they were never one database.
#[test]
fn pools_of_different_moments_are_not_joined() {
    let place = Place::new();
    drop(place.create("db/b.pool"));
    let old = bytes(&place.path("db/b.pool"));
    let database = place.open("db").unwrap();
    for name in ["u", "v", "w"] {
        database.create_table(spec(name, vec![])).unwrap();
    }
    drop(database);
    let new = bytes(&place.path("db/b.pool"));
    fs::write(place.path("db/b.pool"), &old).unwrap();
    let refused = place.open("db").unwrap_err();
    assert!(matches!(refused, OpenError::Torn { .. }), "{refused}");
    assert!(
        bytes(&place.path("db/b.pool")) == old,
        "nothing was touched"
    );
    fs::write(place.path("db/b.pool"), new).unwrap();
    assert_eq!(rows_of(&place.open("db").unwrap()), rows(0..150));
}
