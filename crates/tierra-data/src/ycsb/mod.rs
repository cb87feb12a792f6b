//! YCSB's core workloads: requests for records of ten fields of a hundred bytes.
//!
//! After Cooper et al., "Benchmarking cloud serving systems with YCSB" (SoCC 2010), and the published definitions
//! of workloads A to F; I (only insertions) and R (only readings, evenly) are those of the placement study. An update
//! writes one field, a reading reads all, a scan reads up to a hundred records in the order of their names.
//!
//! ```
//! use tierra_data::ycsb::{Operation, Workload};
//!
//! let mut requests = Workload::A.requests(1000, 7);
//! let updates = (0..10_000).filter(|_| matches!(requests.next(), Operation::Update { .. })).count();
//! assert!((4_800..5_200).contains(&updates));
//! ```
//!
//! Invariant: requests are a function of the workload, the number of records and the seed. What a field
//! contains tells record, field and version, so every answer can be checked ([`check_field`]).

mod distribution;

use std::fmt::Write;

use distribution::Chooser;
pub use distribution::{Distribution, THETA, Zipf, fnv};

/// Fields of a record.
pub const FIELDS: usize = 10;
/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;
/// The longest scan.
pub const SCAN_MAX: u64 = 100;
/// The names of the fields.
pub const FIELD_NAMES: [&str; FIELDS] = [
    "field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8",
    "field9",
];

/// One request. Records are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read all fields.
    Read {
        /// Whose.
        record: u64,
    },
    /// Write one field.
    Update {
        /// Whose.
        record: u64,
        /// Which.
        field: usize,
    },
    /// Add a record: the next number.
    Insert {
        /// Its number.
        record: u64,
    },
    /// Read records in the order of their names' hashes.
    Scan {
        /// The first.
        record: u64,
        /// How many at most.
        records: u64,
    },
    /// Read all fields, then write one.
    ReadModifyWrite {
        /// Whose.
        record: u64,
        /// Which.
        field: usize,
    },
}

/// A mix of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The letter.
    pub name: &'static str,
    /// In percent: readings, updates, insertions, scans, readings followed by an update.
    pub percent: [u8; 5],
    /// Which records are asked for.
    pub distribution: Distribution,
}

const fn workload(name: &'static str, percent: [u8; 5], distribution: Distribution) -> Workload {
    Workload {
        name,
        percent,
        distribution,
    }
}

impl Workload {
    /// Update heavy.
    pub const A: Workload = workload("A", [50, 50, 0, 0, 0], Distribution::Scrambled);
    /// Read mostly.
    pub const B: Workload = workload("B", [95, 5, 0, 0, 0], Distribution::Scrambled);
    /// Read only.
    pub const C: Workload = workload("C", [100, 0, 0, 0, 0], Distribution::Scrambled);
    /// Read latest.
    pub const D: Workload = workload("D", [95, 0, 5, 0, 0], Distribution::Latest);
    /// Short ranges.
    pub const E: Workload = workload("E", [0, 0, 5, 95, 0], Distribution::Scrambled);
    /// Read, modify, write.
    pub const F: Workload = workload("F", [50, 0, 0, 0, 50], Distribution::Scrambled);
    /// Insert only.
    pub const I: Workload = workload("I", [0, 0, 100, 0, 0], Distribution::Uniform);
    /// Read only, every record as often.
    pub const R: Workload = workload("R", [100, 0, 0, 0, 0], Distribution::Uniform);
    /// All of them.
    pub const ALL: [Workload; 8] = [
        Workload::A,
        Workload::B,
        Workload::C,
        Workload::D,
        Workload::E,
        Workload::F,
        Workload::I,
        Workload::R,
    ];

    /// The same mix over another distribution.
    pub const fn over(self, distribution: Distribution) -> Workload {
        Workload {
            distribution,
            ..self
        }
    }

    /// Requests to a store of as many records, at least one.
    pub fn requests(self, records: u64, seed: u64) -> Requests {
        assert!(records > 0, "there is a record to ask for");
        Requests {
            shift: 0,
            workload: self,
            records,
            chooser: Chooser::new(self.distribution, records),
            random: Random::new(seed),
        }
    }
}

/// An endless sequence of requests.
#[derive(Clone, Debug)]
pub struct Requests {
    shift: u64,
    workload: Workload,
    records: u64,
    chooser: Chooser,
    random: Random,
}

impl Requests {
    /// The next request.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> Operation {
        self.next_among(self.records)
    }

    /// The next requests, which are under way at the same time: none asks for a record that another of them inserts, as
    /// clients of YCSB ask only for what has been acknowledged.
    pub fn next_together(&mut self, requests: usize, into: &mut Vec<Operation>) {
        let known = self.records;
        into.extend((0..requests).map(|_| self.next_among(known)));
    }

    /// The next request, for one of the first records.
    fn next_among(&mut self, known: u64) -> Operation {
        let kind = self.kind();
        if kind == 2 {
            self.records += 1;
            return Operation::Insert {
                record: self.records - 1,
            };
        }
        let drawn = self.chooser.draw(known, &mut self.random);
        let record = (drawn + self.shift) % known;
        let mut field = || self.random.below(FIELDS as u64) as usize;
        match kind {
            0 => Operation::Read { record },
            1 => Operation::Update {
                record,
                field: field(),
            },
            3 => Operation::Scan {
                record,
                records: 1 + self.random.below(SCAN_MAX),
            },
            _ => Operation::ReadModifyWrite {
                record,
                field: field(),
            },
        }
    }

    /// The same requests for records as many numbers further, around the end: another hot set.
    #[must_use]
    pub fn shifted_by(self, shift: u64) -> Requests {
        Requests { shift, ..self }
    }

    /// How many records there are now.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn kind(&mut self) -> usize {
        let mut left = self.random.below(100) as u8;
        for (kind, &percent) in self.workload.percent.iter().enumerate() {
            match left.checked_sub(percent) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        unreachable!("the percents of a workload add up to a hundred")
    }
}

/// Writes the name of a record over `name`: `user` and the hash of its number.
pub fn write_name(name: &mut String, record: u64) {
    name.clear();
    write!(name, "user{}", fnv(record)).expect("strings take everything");
}

/// Writes a version of a field's content.
pub fn write_field(content: &mut [u8; FIELD_BYTES], record: u64, field: usize, version: u64) {
    content[..8].copy_from_slice(&tag(record, field).to_le_bytes());
    let mut random = Random::new(tag(record, field) ^ version);
    for bytes in content[8..].chunks_mut(8) {
        let random = random.bits().to_le_bytes();
        bytes.copy_from_slice(&random[..bytes.len()]);
    }
}

/// Whether this is some version of a field.
pub fn check_field(content: &[u8], record: u64, field: usize) -> bool {
    content.len() == FIELD_BYTES && content[..8] == tag(record, field).to_le_bytes()
}

/// Whether these are all fields of a record and nothing else, in any order, each some version of itself.
pub fn check_record<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, record: u64) -> bool {
    let (mut seen, mut are_right) = (0u32, true);
    for (name, content) in fields {
        let field = FIELD_NAMES
            .iter()
            .position(|known| known.as_bytes() == name);
        are_right &= field.is_some_and(|field| {
            let is_new = seen & 1 << field == 0;
            seen |= 1 << field;
            is_new && check_field(content, record, field)
        });
    }
    are_right && seen.count_ones() as usize == FIELDS
}

fn tag(record: u64, field: usize) -> u64 {
    fnv(record * FIELDS as u64 + field as u64)
}

/// A generator of pseudo-random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> u64::BITS) as u64
    }

    /// Between 0 and 1.
    fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_the_published_ones() {
        for workload in Workload::ALL {
            assert_eq!(
                workload
                    .percent
                    .iter()
                    .map(|&percent| u32::from(percent))
                    .sum::<u32>(),
                100
            );
            let mut requests = workload.requests(1000, 5);
            let mut counts = [0; 5];
            for _ in 0..100_000 {
                counts[match requests.next() {
                    Operation::Read { .. } => 0,
                    Operation::Update { .. } => 1,
                    Operation::Insert { .. } => 2,
                    Operation::Scan { .. } => 3,
                    Operation::ReadModifyWrite { .. } => 4,
                }] += 1;
            }
            for (count, percent) in counts.into_iter().zip(workload.percent) {
                assert!(
                    i32::abs(count - i32::from(percent) * 1000) < 700,
                    "{workload:?}: {counts:?}"
                );
            }
        }
    }

    #[test]
    fn requests_ask_for_records_that_are_there() {
        let mut requests = Workload::D.requests(10, 5);
        let mut records = 10;
        for _ in 0..10_000 {
            match requests.next() {
                Operation::Insert { record } => {
                    assert_eq!(record, records);
                    records += 1;
                }
                Operation::Read { record } => assert!(record < records),
                _ => unreachable!("D reads and inserts"),
            }
        }
        assert_eq!(requests.records(), records);
    }

    #[test]
    fn requests_under_way_together_do_not_depend_on_each_other() {
        let mut requests = Workload::D.requests(10, 5);
        let mut window = Vec::new();
        for _ in 0..1_000 {
            let known = requests.records();
            window.clear();
            requests.next_together(64, &mut window);
            assert_eq!(window.len(), 64);
            for operation in &window {
                match operation {
                    Operation::Insert { record } => assert!(*record >= known),
                    Operation::Read { record } => assert!(*record < known),
                    _ => unreachable!("D reads and inserts"),
                }
            }
        }
        assert!(requests.records() > 1_000);
    }

    #[test]
    fn contents_tell_whose_they_are() {
        let mut contents = [[0; FIELD_BYTES]; 2];
        write_field(&mut contents[0], 7, 3, 1);
        write_field(&mut contents[1], 7, 3, 2);
        assert!(
            contents
                .iter()
                .all(|content| check_field(content, 7, 3) && !check_field(content, 7, 4))
        );
        assert_ne!(contents[0], contents[1]);
    }

    #[test]
    fn a_record_is_all_of_its_fields_once() {
        let mut contents = [[0; FIELD_BYTES]; FIELDS];
        for (field, content) in contents.iter_mut().enumerate() {
            write_field(content, 7, field, field as u64);
        }
        let pair = |field: usize| (FIELD_NAMES[field].as_bytes(), &contents[field][..]);
        let check = |fields: &[usize], record| {
            check_record(fields.iter().map(|&field| pair(field)), record)
        };
        let in_some_order = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7];
        assert!(check(&in_some_order, 7));
        assert!(!check(&in_some_order, 8));
        assert!(!check(&in_some_order[1..], 7));
        assert!(!check(&[3, 3, 4, 0, 5, 9, 2, 6, 8, 7], 7));
        assert!(!check(&[3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 7], 7));
        let swapped = [(FIELD_NAMES[0].as_bytes(), &contents[1][..])];
        let rest = (2..FIELDS).chain([1]).map(pair);
        assert!(!check_record(swapped.into_iter().chain(rest), 7));
    }
}
