//! The child: changes a database until it is killed.

use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use tierra_engine::{Database, DatabaseOptions, Replicas, ScrubOptions, Table};

use super::super::simulated::{SECOND, rows, spec};
use super::{Mark, Place, SIGN, Work, changing};

const APPEND_ROWS: i64 = 37;
/// A segment and some more.
const LOAD_ROWS: i64 = 66_000;
/// Bits flipped at a time.
const BITS: u64 = 40;
/// Behind the header and the superblock.
const FIRST_EXTENT: u64 = 16 << 10;

struct Changer {
    place: Place,
    database: Arc<Database>,
    table: Arc<Table>,
    now: Mark,
    random: u64,
}

/// Makes a database in a directory, and changes it for ever.
pub(crate) fn change_until_killed(work: Work, dir: &Path, seed: u64) {
    let place = Place::of(dir);
    let options = DatabaseOptions {
        near_memory_bytes: Some(1 << 20),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&place.db, &options).unwrap();
    database.add_tier(SECOND, &place.pools[1]).unwrap();
    let both = Replicas::of_table(["far", SECOND]);
    let table = database.create_table_in(spec("t"), both).unwrap();
    let mut changer = Changer {
        place,
        database,
        table,
        now: Mark {
            rows: 0,
            alone: [true; 2],
        },
        random: seed,
    };
    if work == Work::Repair {
        // Something to damage.
        changer.load_quietly(0..LOAD_ROWS);
        changer.now.rows = LOAD_ROWS;
    }
    if work == Work::Change {
        changing::create(&changer.database);
    }
    tell("done", changer.now);
    for round in 0.. {
        match work {
            Work::Append => changer.append(APPEND_ROWS),
            Work::Load => changer.load(LOAD_ROWS),
            Work::Merge => {
                changer.append(3 * APPEND_ROWS);
                changer.step(changer.now, |this| {
                    this.table.seal().unwrap();
                    this.table.merge_dictionaries().unwrap();
                });
            }
            Work::Move => {
                changer.append(APPEND_ROWS);
                let all = [&["far"][..], &["far", SECOND], &[SECOND], &[SECOND, "far"]];
                changer.place(all[round % all.len()]);
                if round % 3 == 0 {
                    changer.step(changer.now, |this| this.table.seal().unwrap());
                }
            }
            Work::Repair => {
                changer.append(APPEND_ROWS);
                changer.damage_and_repair(round % 2);
            }
            Work::Change => changer.change(),
        }
    }
}

impl Changer {
    /// Tells of a step, takes it, and tells that it is done.
    fn step(&mut self, next: Mark, act: impl FnOnce(&mut Changer)) {
        let [before, after] = [self.now.alone, next.alone];
        tell(
            "begin",
            Mark {
                rows: next.rows,
                alone: [before[0] && after[0], before[1] && after[1]],
            },
        );
        act(self);
        self.now = next;
        tell("done", next);
    }

    fn append(&mut self, count: i64) {
        let range = self.now.rows..self.now.rows + count;
        let next = Mark {
            rows: range.end,
            ..self.now
        };
        self.step(next, |this| {
            this.table.append(&[rows(range)]).unwrap();
        });
    }

    fn load(&mut self, count: i64) {
        let range = self.now.rows..self.now.rows + count;
        let next = Mark {
            rows: range.end,
            ..self.now
        };
        self.step(next, |this| this.load_quietly(range));
    }

    fn load_quietly(&mut self, range: Range<i64>) {
        let mut loader = self.table.loader();
        loader.push(rows(range)).unwrap();
        loader.finish().unwrap();
    }

    fn place(&mut self, tiers: &[&str]) {
        let next = Mark {
            alone: ["far", SECOND].map(|tier| tiers.contains(&tier)),
            ..self.now
        };
        self.step(next, |this| {
            let replicas = Replicas::of_table(tiers.iter().copied());
            this.table.set_replicas(&replicas).unwrap();
        });
    }

    fn damage_and_repair(&mut self, tier: usize) {
        let mut next = self.now;
        next.alone[tier] = false;
        self.step(next, |this| this.flip_bits(tier));
        next.alone[tier] = true;
        self.step(next, |this| {
            let report = this.database.scrub(&ScrubOptions::default(), |_| {});
            assert_eq!(report.unwrap().lost, []);
            // Neither logs nor manifests are walked over: both are made anew.
            this.table.seal().unwrap();
        });
    }

    fn change(&mut self) {
        let next = Mark {
            rows: self.now.rows + 1,
            ..self.now
        };
        self.step(next, |this| {
            changing::take(&this.database, next.rows).unwrap();
        });
    }

    fn flip_bits(&mut self, tier: usize) {
        let file = File::options()
            .read(true)
            .write(true)
            .open(&self.place.pools[tier])
            .unwrap();
        let len_bytes = file.metadata().unwrap().len();
        for _ in 0..BITS {
            let at = FIRST_EXTENT + self.next_random() % (len_bytes - FIRST_EXTENT);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            byte[0] ^= 1 << (self.next_random() % 8);
            file.write_all_at(&byte, at).unwrap();
        }
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

fn tell(what: &str, mark: Mark) {
    // A parent that is gone is told nothing more; a test harness must not keep the line back.
    let line = format!("{SIGN}{what} {mark}\n");
    let _ = std::io::stdout().write_all(line.as_bytes());
    let _ = std::io::stdout().flush();
}
