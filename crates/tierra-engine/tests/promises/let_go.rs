//! Promise: no copy is given up before those that stay were verified, whatever they hold: segments, dictionaries or logs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::support::{self, all_rows, options, rows, spec};
use tempfile::TempDir;
use tierra_column::Encoding;
use tierra_engine::{Database, Replicas};

struct Place(TempDir);

impl Place {
    /// A table with sealed rows and a tail, with copies in two tiers of three.
    fn new() -> Place {
        let place = Place(TempDir::new().unwrap());
        let database = Database::create(&place.db(), &options()).unwrap();
        for tier in ["b", "c"] {
            database.add_tier(tier, &place.pool(tier)).unwrap();
        }
        let mut spec = spec("t", vec![0]);
        spec.columns[support::CITY].encoding = Some(Encoding::Dictionary);
        let replicas = Replicas::of_table(["far", "b"]);
        let table = database.create_table_in(spec, replicas).unwrap();
        table.append(&[rows(0..500)]).unwrap();
        table.seal().unwrap();
        for start in (500..800).step_by(50) {
            table.append(&[rows(start..start + 50)]).unwrap();
        }
        database.wait_for_near_copies().unwrap();
        place
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("db")
    }

    fn pool(&self, tier: &str) -> PathBuf {
        match tier {
            "far" => self.db().join("far.pool"),
            other => self.0.path().join(other),
        }
    }

    /// Flips a bit behind the beginning of each structure of this kind, in the file, which is seen where it is mapped. How many.
    fn damage(&self, tier: &str, magic: &[u8], behind: usize) -> usize {
        let pool = fs::read(self.pool(tier)).unwrap();
        let file = File::options().write(true).open(self.pool(tier)).unwrap();
        let lines = (16_384..pool.len()).step_by(64);
        let starts = lines.filter(|at| pool[*at..].starts_with(magic));
        let changed = starts.map(|at| {
            let byte = [pool[at + behind] ^ 0x10];
            file.write_all_at(&byte, (at + behind) as u64).unwrap();
        });
        changed.count()
    }
}

#[test]
fn a_damaged_copy_is_not_kept_in_place_of_a_whole_one() {
    let damages: [(&str, &[u8], usize); 4] = [
        ("records", b"TLOG", 70),
        ("heads of records", b"TLOG", 17),
        ("chunks", b"TCHK", 200),
        ("a dictionary", b"TDIC", 60),
    ];
    for (what, magic, behind) in damages {
        // The damaged copy is kept, is copied from, or is let go.
        for (damaged, kept) in [
            ("far", &["far"][..]),
            ("far", &["c"]),
            ("far", &["b", "c"]),
            ("b", &["b", "c"]),
        ] {
            let place = Place::new();
            let database = Database::open(&place.db(), &options()).unwrap();
            let table = database.table("t").unwrap();
            assert!(place.damage(damaged, magic, behind) > 0, "{what}");
            table
                .set_replicas(&Replicas::of_table(kept.iter().copied()))
                .unwrap();
            drop((table, database));
            let database = Database::open(&place.db(), &options()).unwrap();
            let found = all_rows(&database.table("t").unwrap());
            assert_eq!(
                found,
                rows(0..800),
                "{what} damaged in {damaged}, kept in {kept:?}"
            );
        }
    }
}
