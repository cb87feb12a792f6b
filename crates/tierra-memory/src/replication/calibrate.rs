//! Measuring a profile: every composition in every situation, on logs that hold nothing else.
//!
//! Compositions of a situation are measured in turn, so that whatever else the machine does meets all of
//! them alike. All are measured a little, by their medians; the best of them again and more often, and of those the
//! best once more: what is near the best differs by less than a few samples tell.

use std::time::Instant;

use super::composition::{Composition, CopyBy};
use super::method::Method;
use super::profile::Profile;
use super::switch::{SIZE_CLASSES, Situation, class_bytes};
use super::{Member, ReplicaSet, ReplicatedUndo, ReplicationError};

/// Numbers of replicas that are measured, where there are as many copies.
const REPLICAS: [usize; 5] = [0, 1, 2, 3, 8];
/// Bytes that a sample writes to each copy, and the most writes it does so by.
const SAMPLE_BYTES: u64 = 128 << 10;
const MAX_WRITES: u64 = 400;
/// The most by threads, which take tens of microseconds to wake.
const WRITES_BY_THREADS: u64 = 16;
/// How many compositions go through each stage, the best of the one before, and with how many samples each.
const STAGES: [(usize, usize); 3] = [(usize::MAX, 5), (10, 11), (4, 41)];

/// What writes: a set, and perhaps the log of its transactions.
struct Bench<'b> {
    set: &'b mut ReplicaSet,
    undo: Option<&'b mut ReplicatedUndo>,
    bytes: Vec<u8>,
    /// Where the next sequential write begins.
    next: u64,
    seed: u64,
}

impl Profile {
    /// How often [`Profile::measure`] calls `step` for so many copies, with as many logs for undoing or none.
    pub fn steps(copies: usize, with_undo: bool) -> u64 {
        let measured = REPLICAS.into_iter().filter(|count| *count < copies).count();
        (measured * (1 + usize::from(with_undo)) * 2 * SIZE_CLASSES) as u64
    }

    /// Measures what every composition takes on the logs `copies`, the master first, and, with logs for
    /// undoing, in transactions. They should be larger than the caches, by an order of magnitude to be like
    /// a large database; an undo log has two mebibytes or more. What they held is lost. `step` is called
    /// after each situation. Takes a fraction of a minute for four copies.
    ///
    /// # Errors
    /// As [`ReplicaSet::open`] and [`ReplicatedUndo::open`]; and [`ReplicationError::Outside`] where the logs
    /// are shorter than the longest write.
    pub fn measure(
        copies: &[Member],
        undo: &[Member],
        mut step: impl FnMut(),
    ) -> Result<Profile, ReplicationError> {
        let mut profile = Profile::default();
        for replicas in REPLICAS.into_iter().filter(|count| *count < copies.len()) {
            let mut set = ReplicaSet::open(&copies[..=replicas])?;
            let mut log = match undo.get(..=replicas) {
                Some(undo) => Some(ReplicatedUndo::open(ReplicaSet::open(undo)?, &mut set)?),
                None => None,
            };
            for is_transactional in [false, true]
                .into_iter()
                .take(1 + usize::from(log.is_some()))
            {
                let mut bench = Bench {
                    set: &mut set,
                    undo: log.as_mut().filter(|_| is_transactional),
                    bytes: (0..class_bytes(SIZE_CLASSES - 1))
                        .map(|at| at as u8)
                        .collect(),
                    next: 0,
                    seed: 0x7161_7272_6965,
                };
                for is_sequential in [false, true] {
                    for size_class in 0..SIZE_CLASSES {
                        let situation = Situation {
                            is_transactional,
                            is_sequential,
                            replicas,
                            size_class,
                        };
                        bench.measure(situation, &mut profile)?;
                        step();
                    }
                }
            }
        }
        Ok(profile)
    }
}

impl Bench<'_> {
    fn measure(
        &mut self,
        situation: Situation,
        profile: &mut Profile,
    ) -> Result<(), ReplicationError> {
        let mut all: Vec<(Composition, u64)> = Composition::all()
            .into_iter()
            .map(|composition| (composition, 0))
            .collect();
        for (best, rounds) in STAGES {
            let best = best.min(all.len());
            self.medians(situation, &mut all[..best], rounds)?;
            all[..best].sort_by_key(|(_, tenths_ns)| *tenths_ns);
            // Those measured less must not pass those measured more by luck.
            let most = all[best - 1].1;
            for (_, tenths_ns) in &mut all[best..] {
                *tenths_ns = most.max(*tenths_ns);
            }
        }
        for (composition, tenths_ns) in all {
            profile.add(situation, composition, tenths_ns);
        }
        Ok(())
    }

    /// The median of each composition's samples, after one that does not count.
    fn medians(
        &mut self,
        situation: Situation,
        compositions: &mut [(Composition, u64)],
        rounds: usize,
    ) -> Result<(), ReplicationError> {
        let mut samples = vec![Vec::with_capacity(rounds); compositions.len()];
        for round in 0..=rounds {
            for turn in 0..compositions.len() {
                let which = (round + turn) % compositions.len();
                let tenths_ns = self.sample(situation, compositions[which].0)?;
                if round > 0 {
                    samples[which].push(tenths_ns);
                }
            }
        }
        for ((_, median), mut samples) in compositions.iter_mut().zip(samples) {
            samples.sort_unstable();
            *median = samples[rounds / 2];
        }
        Ok(())
    }

    /// Tenths of nanoseconds that a write takes.
    fn sample(
        &mut self,
        situation: Situation,
        composition: Composition,
    ) -> Result<u64, ReplicationError> {
        let len_bytes = class_bytes(situation.size_class);
        let method = Method::Always(composition);
        let most = match composition.copy {
            CopyBy::Threads(_) => WRITES_BY_THREADS,
            _ => MAX_WRITES,
        };
        let count = (SAMPLE_BYTES / len_bytes).clamp(1, most);
        let room = self.set.len_bytes().saturating_sub(len_bytes);
        let start = Instant::now();
        for _ in 0..count {
            let at = match situation.is_sequential {
                true => self.next,
                false => self.random() % (room / 4 + 1) * 4,
            };
            let at = if at > room { 0 } else { at };
            self.next = at + len_bytes;
            let bytes = &self.bytes[..len_bytes as usize];
            match &mut self.undo {
                None => self.set.write(&method, at, bytes)?,
                Some(undo) => {
                    let mut transaction = undo.begin(self.set);
                    transaction.write(at, bytes)?;
                    transaction.commit(&method)?;
                }
            }
        }
        Ok(start.elapsed().as_nanos() as u64 * 10 / count)
    }

    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed >> 8
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::replication::MethodTree;
    use crate::{Pool, PoolOptions};

    #[test]
    fn every_situation_is_measured_by_every_composition() {
        let dir = tempfile::TempDir::new_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let pool = Pool::create(&dir.path().join("p"), &PoolOptions::default()).unwrap();
        let log = |bytes| {
            let log = pool.allocate(bytes, 0).unwrap().finish_log().unwrap();
            (Arc::clone(&pool), log.extent())
        };
        let mut steps = 0;
        let profile = Profile::measure(&[log(2 << 20)], &[log(2 << 20)], || steps += 1).unwrap();
        assert_eq!(steps, 4 * SIZE_CLASSES as u64);
        assert_eq!(steps, Profile::steps(1, true));
        let all = Composition::all().len();
        let switch = profile.switch();
        MethodTree::of(|situation| {
            if situation.replicas == 0 {
                let cell = profile.measured(situation);
                assert_eq!(cell.len(), all);
                assert!(cell.iter().any(|(one, _)| *one == switch.choose(situation)));
            }
            Composition::BASIC
        });
    }
}
