//! What a directory knows of itself survives the loss of its file, and whatever is cut short in creating it and its tiers.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::support::{all_rows, options, rows, spec};
use tempfile::TempDir;
use tierra_engine::{
    AdoptOptions, BackupOptions, Database, DatabaseOptions, OpenError, Replicas, TierError,
};

const FILES: [&str; 2] = ["database", "database.copy"];

struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("db")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Two tiers, the second where it is said, and a table in both.
    fn create(&self, second: &str) {
        let database = Database::create(&self.db(), &options()).unwrap();
        database.add_tier("b", &self.path(second)).unwrap();
        let both = Replicas::of_table(["far", "b"]);
        let table = database.create_table_in(spec("t", vec![0]), both).unwrap();
        table.append(&[rows(0..100)]).unwrap();
        table.seal().unwrap();
        table.append(&[rows(100..150)]).unwrap();
    }

    fn open(&self) -> Result<Arc<Database>, OpenError> {
        Database::open(&self.db(), &options())
    }

    /// All is there.
    fn check(&self) {
        let database = self.open().unwrap();
        assert_eq!(database.missing_tiers(), []);
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..150));
    }

    /// Flips a bit of a file.
    fn damage(&self, file: &str, at: usize) {
        let path = self.db().join(file);
        let mut bytes = fs::read(&path).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= 4;
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn one_damaged_file_is_made_again_of_the_other() {
    let place = Place::new();
    place.create("b.pool");
    let right = fs::read(place.db().join(FILES[0])).unwrap();
    for file in FILES {
        for at in (0..right.len()).step_by(13) {
            place.damage(file, at);
            place.check();
            for file in FILES {
                assert_eq!(fs::read(place.db().join(file)).unwrap(), right, "{file}");
            }
        }
        for cut in [0, 1, right.len() - 1] {
            fs::write(place.db().join(file), &right[..cut]).unwrap();
            place.check();
        }
        fs::remove_file(place.db().join(file)).unwrap();
        place.check();
        assert_eq!(fs::read(place.db().join(file)).unwrap(), right);
    }
}

#[test]
fn without_either_the_pools_say_what_it_was() {
    let place = Place::new();
    place.create("db/b.pool");
    for gone in [true, false] {
        for file in FILES {
            match gone {
                true => fs::remove_file(place.db().join(file)).unwrap(),
                false => place.damage(file, 50),
            }
        }
        place.check();
        // It is written down again.
        place.check();
        assert!(FILES.iter().all(|file| place.db().join(file).exists()));
    }
    // Not where the pools in the directory are not all.
    let place = Place::new();
    place.create("b.pool");
    for file in FILES {
        place.damage(file, 50);
    }
    let before = fs::read(place.db().join("far.pool")).unwrap();
    let refused = place.open().unwrap_err();
    assert!(
        matches!(refused, OpenError::DirectoryFile { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("--moved"), "{refused}");
    assert!(fs::read(place.db().join("far.pool")).unwrap() == before);
    let moved = AdoptOptions {
        pools: vec![("b".to_owned(), place.path("b.pool"))],
        ..AdoptOptions::default()
    };
    Database::adopt(&place.db(), &options(), &moved).unwrap();
    place.check();
}

#[test]
fn what_the_file_says_is_not_believed_unchecked() {
    let place = Place::new();
    place.create("b.pool");
    for file in FILES {
        let text = fs::read(place.db().join(file)).unwrap();
        let newer = [b"tierra database 2\n", &text[18..text.len() - 16]].concat();
        let sealed = format!("crc32c {:08x}\n", crc32c::crc32c(&newer));
        fs::write(place.db().join(file), [&newer, sealed.as_bytes()].concat()).unwrap();
    }
    let refused = place.open().unwrap_err();
    assert!(
        matches!(refused, OpenError::DirectoryVersion { found: 2, .. }),
        "{refused}"
    );
}

#[test]
fn paths_may_have_any_bytes_but_a_line_end() {
    let place = Place::new();
    let odd = place
        .0
        .path()
        .join(std::ffi::OsStr::from_bytes(b"a pool \xff\t there"));
    let with_pool = DatabaseOptions {
        pool_path: Some(odd.clone()),
        ..options()
    };
    let database = Database::create(&place.db(), &with_pool).unwrap();
    let inside = place.db().join(std::ffi::OsStr::from_bytes(b" \xfe b"));
    database.add_tier("b", &inside).unwrap();
    let refused = database.add_tier("c", &place.path("a\nb")).unwrap_err();
    assert!(matches!(refused, TierError::Io { .. }), "{refused}");
    drop(database);
    let database = place.open().unwrap();
    assert_eq!(database.missing_tiers(), []);
    assert!(odd.exists() && inside.exists());
}

/// Killed at any step of the creation, as the files then are.
/// What lies under these names is replaced by the database itself.
#[test]
fn the_databases_own_names_are_neither_pools_nor_backups() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let own = [
        "LOCK",
        "database",
        "database.copy",
        "database.new",
        "scrub.new",
        "replication",
        "calibration",
        "tierra.toml",
    ];
    for name in own {
        let options = DatabaseOptions {
            pool_path: Some(db.join(name)),
            ..options()
        };
        let error = Database::create(&db, &options).unwrap_err();
        assert!(error.to_string().contains("for itself"), "{name}: {error}");
    }
    let database = Database::create(&db, &options()).unwrap();
    let table = database.create_table(spec("t", vec![0])).unwrap();
    table.append(&[rows(0..10)]).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&db, &link).unwrap();
    for name in own {
        for path in [db.join(name), link.join(name)] {
            let error = database.add_tier("b", &path).unwrap_err();
            assert!(error.to_string().contains("for itself"), "{name}: {error}");
            let error = database.backup(&path, &BackupOptions::default(), |_| ());
            let error = error.unwrap_err();
            assert!(error.to_string().contains("for itself"), "{name}: {error}");
        }
    }
    drop((table, database));
    let database = Database::open(&db, &options()).unwrap();
    assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..10));
}

#[test]
fn a_creation_that_was_interrupted_goes_on() {
    let place = Place::new();
    drop(Database::create(&place.db(), &options()).unwrap());
    let text = fs::read_to_string(place.db().join("database")).unwrap();
    let creating = text.replace("state ready", "state creating");
    let creating = creating.replace(" there ", " adding ");
    let sealed = |text: &str| {
        let head = text[..text.rfind("crc32c").unwrap()].to_owned();
        let crc = crc32c::crc32c(head.as_bytes());
        format!("{head}crc32c {crc:08x}\n")
    };
    let creating = sealed(&creating);
    let pool = fs::read(place.db().join("far.pool")).unwrap();
    let unpublished = {
        let mut bytes = pool.clone();
        bytes[4096..].fill(0);
        bytes
    };
    let stages: [&[(&str, &[u8])]; 7] = [
        &[],
        &[("LOCK", b"")],
        &[("LOCK", b""), ("database.new", b"tierra da")],
        &[("database", creating.as_bytes())],
        &[("database", creating.as_bytes()), ("far.pool", b"")],
        &[
            ("database", creating.as_bytes()),
            ("far.pool", &unpublished),
        ],
        &[("database", creating.as_bytes()), ("far.pool", &pool)],
    ];
    for (number, stage) in stages.into_iter().enumerate() {
        for create in [Database::create, Database::open_or_create] {
            let dir = place.path("stage");
            fs::create_dir(&dir).unwrap();
            for (name, bytes) in stage {
                fs::write(dir.join(name), bytes).unwrap();
            }
            if (3..6).contains(&number) {
                let refused = Database::open(&dir, &options()).unwrap_err();
                assert!(matches!(refused, OpenError::Unfinished { .. }), "{refused}");
                assert!(refused.to_string().contains("--create"), "{refused}");
            }
            let database = create(&dir, &options());
            let database = database.unwrap_or_else(|error| panic!("stage {number}: {error}"));
            let table = database.create_table(spec("t", vec![])).unwrap();
            table.append(&[rows(0..5)]).unwrap();
            drop((table, database));
            // Data are never written over.
            let refused = Database::create(&dir, &options()).unwrap_err();
            assert!(matches!(refused, OpenError::Exists { .. }), "{refused}");
            let database = Database::open(&dir, &options()).unwrap();
            assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..5));
            drop(database);
            fs::remove_dir_all(&dir).unwrap();
        }
    }
    // Something else in the pool's place.
    let dir = place.path("stage");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("database"), &creating).unwrap();
    fs::write(dir.join("far.pool"), "somebody's").unwrap();
    Database::create(&dir, &options()).unwrap_err();
    assert_eq!(fs::read(dir.join("far.pool")).unwrap(), b"somebody's");
}

/// A file system of two megabytes and a half, if this process may mount one.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Small> {
        fs::create_dir(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=2560k", "none"])
            .arg(at)
            .output();
        let is_mounted = mounted.is_ok_and(|output| output.status.success());
        is_mounted.then(|| Small(at.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.unwrap().success());
    }
}

#[test]
fn a_full_disk_leaves_tiers_as_they_were() {
    let place = Place::new();
    let Some(_small) = Small::mount(&place.path("small")) else {
        println!("no file system can be mounted here");
        return;
    };
    let db = place.path("small/db");
    let outside = DatabaseOptions {
        pool_path: Some(place.path("far.pool")),
        ..options()
    };
    let database = Database::create(&db, &outside).unwrap();
    let table = database.create_table(spec("t", vec![])).unwrap();
    table.append(&[rows(0..10)]).unwrap();
    database.add_tier("b", &place.path("b.pool")).unwrap();
    fs::write(place.path("small/filler"), vec![1; 2 << 20]).unwrap();
    let mut rest = fs::File::create(place.path("small/rest")).unwrap();
    while std::io::Write::write(&mut rest, &[1; 4096]).is_ok_and(|bytes| bytes > 0) {}
    let refused = database.add_tier("c", &place.path("c.pool")).unwrap_err();
    assert!(matches!(refused, TierError::Io { .. }), "{refused}");
    assert!(!place.path("c.pool").exists());
    // What the directory says is tidied later.
    database.drop_tier("b").unwrap();
    drop((table, database));
    for _ in 0..2 {
        let database = Database::open(&db, &options()).unwrap();
        assert_eq!(database.missing_tiers(), []);
        assert_eq!(database.tiers().len(), 2);
        assert_eq!(all_rows(&database.table("t").unwrap()), rows(0..10));
    }
    fs::remove_file(place.path("small/filler")).unwrap();
    fs::remove_file(place.path("small/rest")).unwrap();
    fs::remove_file(place.path("b.pool")).unwrap();
    let database = Database::open(&db, &options()).unwrap();
    // A pool that does not fit leaves nothing of itself.
    fs::write(place.path("small/filler"), vec![1; 1 << 20]).unwrap();
    database
        .add_tier("b", &place.path("small/b.pool"))
        .unwrap_err();
    assert!(!place.path("small/b.pool").exists());
    fs::remove_file(place.path("small/filler")).unwrap();
    database.add_tier("b", &place.path("b.pool")).unwrap();
    drop(database);
    assert_eq!(Database::open(&db, &options()).unwrap().tiers().len(), 3);
}
