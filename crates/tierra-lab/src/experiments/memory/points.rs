//! The measured points: the thread, the operation and the memory of each.

use tierra_interleave::Execution;
use tierra_memory::emulation::FarMemory;
use tierra_memory::persist::Flush;

use super::LOADS;
use super::operation::{Operation, WriteBack};
use super::place::THREADS;
use crate::row::Row;

/// Which memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Near memory.
    Near,
    /// The same on pages that are emulated as far.
    Far,
    /// A pool on tmpfs, mapped, as one on a DAX file system is.
    TmpfsPool,
    /// A pool on the ordinary file system, mapped: the kernel's page cache.
    FilePool,
    /// A file on tmpfs, by system calls.
    TmpfsFile,
    /// A file on the ordinary file system, by system calls.
    File,
}

/// The unit of the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Bytes,
    Accesses,
}

/// One measured point.
pub(super) struct Point {
    identity: Row,
    pub(super) far: Option<FarMemory>,
    /// The operation of each thread; none for a chase of loads.
    pub(super) jobs: Vec<(Kind, Operation)>,
    pub(super) counted: Counted,
    /// The number of jobs that count, from the first.
    pub(super) counting: usize,
}

impl Point {
    fn new(identity: Row, far: Option<FarMemory>, jobs: Vec<(Kind, Operation)>) -> Point {
        let tier = if far.is_some() { "emulated" } else { "real" };
        Point {
            identity: identity
                .text("tier", tier)
                .count("threads", jobs.len().max(1) as u64),
            far,
            counting: jobs.len(),
            jobs,
            counted: Counted::Bytes,
        }
    }

    /// The row of these samples.
    pub(super) fn row(self, samples: Vec<u64>) -> Row {
        match (self.jobs.is_empty(), self.counted) {
            (true, _) => self
                .identity
                .count("loads", LOADS)
                .samples("time", "ns", samples),
            (_, Counted::Bytes) => self.identity.samples("bytes", "per_s", samples),
            (_, Counted::Accesses) => self.identity.samples("updates", "per_s", samples),
        }
    }
}

/// Reads of a word at random, as plain code makes them.
const WORDS: Operation = Operation::ReadAtRandom {
    bytes: 8,
    execution: Execution::Plain,
};
pub(super) const PATTERNS: [(&str, Operation); 5] = [
    ("read in order", Operation::ReadInOrder),
    ("read at random", WORDS),
    (
        "read at random, interleaved",
        Operation::ReadAtRandom {
            bytes: 8,
            execution: Execution::Interleaved,
        },
    ),
    ("write in order", Operation::WriteInOrder),
    ("write at random", Operation::WriteAtRandom),
];

/// Far memory for accesses over far more than a cache holds. The cache is not modelled, because looking it up would take
/// longer than it saves.
const fn uncached(far: FarMemory) -> FarMemory {
    FarMemory {
        cache_bytes: 0,
        ..far
    }
}

const OPTANE: FarMemory = uncached(FarMemory::OPTANE);

/// All points; `remote` describes the near memory of another socket.
///
/// Random accesses do not depend on each other, so a processor overlaps far ones as it overlaps near ones: plain reads of
/// emulated memory are assumed to overlap.
pub(super) fn all(remote: FarMemory) -> Vec<Point> {
    let memories = [
        ("near", Kind::Near, None),
        ("emulated remote near", Kind::Far, Some(uncached(remote))),
        ("emulated optane", Kind::Far, Some(OPTANE)),
        (
            "emulated remote optane",
            Kind::Far,
            Some(uncached(FarMemory::REMOTE_OPTANE)),
        ),
    ];
    let mut points = Vec::new();
    for (memory, kind, far) in memories {
        for threads in 1..=THREADS {
            for (pattern, operation) in PATTERNS {
                let identity = Row::new()
                    .text("pattern", pattern)
                    .text("where", format!("{memory}, {threads}"));
                // One thread has the memory to itself, as the thesis's single thread had.
                let scale = if threads == 1 {
                    FarMemory::whole
                } else {
                    |far| far
                };
                let far = far.map(FarMemory::plain_lower_bound).map(scale);
                points.push(Point::new(identity, far, vec![(kind, operation); threads]));
            }
        }
        let identity = Row::new()
            .text("latency_of", memory)
            .text("loaded", "dependent loads");
        points.push(Point::new(identity, far, Vec::new()));
    }
    points.extend(by_granularity());
    points.extend(both_at_once());
    points.extend(updates());
    points
}

/// Figures 2.7 and 2.8.
fn by_granularity() -> Vec<Point> {
    let from = [
        ("near", Kind::Near, None),
        (
            "emulated optane",
            Kind::Far,
            Some(OPTANE.plain_lower_bound()),
        ),
        ("tmpfs, mapped", Kind::TmpfsPool, None),
        ("tmpfs, read calls", Kind::TmpfsFile, None),
        ("file, mapped", Kind::FilePool, None),
        ("file, read calls", Kind::File, None),
    ];
    let mut points = Vec::new();
    for bytes in (3..=15).map(|power| 1 << power) {
        for (name, kind, far) in from {
            let identity = Row::new()
                .text("granularity_bytes", bytes.to_string())
                .text("read_from", name);
            let operation = Operation::ReadAtRandom {
                bytes,
                execution: Execution::Plain,
            };
            points.push(Point::new(identity, far, vec![(kind, operation); THREADS]));
        }
    }
    points
}

/// Figure 2.10: one thread in each memory.
fn both_at_once() -> Vec<Point> {
    let mut points = Vec::new();
    for (pattern, operation) in [PATTERNS[0], PATTERNS[3]] {
        let kinds = [("near", Kind::Near), ("emulated optane", Kind::Far)];
        for (name, kind) in kinds {
            let others = kinds.iter().filter(|(_, other)| *other != kind);
            let alone = vec![(kind, operation)];
            let beside = alone
                .iter()
                .copied()
                .chain(others.map(|(_, other)| (*other, operation)));
            for (how, jobs) in [
                ("alone", alone.clone()),
                ("both at once", beside.collect::<Vec<_>>()),
            ] {
                let identity = Row::new()
                    .text("at_once", format!("{pattern}, {name}"))
                    .text("beside", how);
                points.push(Point {
                    counting: 1,
                    ..Point::new(identity, Some(OPTANE), jobs)
                });
            }
        }
    }
    points
}

/// Figure 2.13: one thread. The thesis updates integers of 4 bytes; streaming stores write a line.
fn updates() -> Vec<Point> {
    let mapped = [
        ("near, mapped", Kind::Near, None),
        ("tmpfs, mapped", Kind::TmpfsPool, None),
        ("file, mapped", Kind::FilePool, None),
        ("emulated optane", Kind::Far, Some(OPTANE.whole())),
    ];
    let called = [
        ("tmpfs, write calls", Kind::TmpfsFile),
        ("file, write calls", Kind::File),
    ];
    let mut points = Vec::new();
    for bytes in [4, 64] {
        let flushes = Flush::available().map(|how| (how.to_string(), WriteBack::Flush(how)));
        let streamed = (bytes == 64).then(|| ("streamed".to_owned(), WriteBack::Stream));
        let nothing = ("not flushed".to_owned(), WriteBack::Nothing);
        let mut update = |name: &str, method: &str, kind, far, by| {
            let identity = Row::new()
                .text("update", format!("{bytes} B, {name}"))
                .text("method", method);
            let jobs = vec![(kind, Operation::Update { bytes, by })];
            points.push(Point {
                counted: Counted::Accesses,
                ..Point::new(identity, far, jobs)
            });
        };
        for (name, by) in flushes.chain(streamed).chain([nothing]) {
            for (method, kind, far) in mapped {
                update(&name, method, kind, far, by);
            }
        }
        for (method, kind) in called {
            update("not flushed", method, kind, None, WriteBack::Nothing);
        }
    }
    points
}
