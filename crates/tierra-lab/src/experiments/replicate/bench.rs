//! One phase: updates with a number of replicas, by every method and peer, compared with updates without replicas.

use std::time::Instant;

use tierra_memory::ExtentWriter;
use tierra_memory::persist::Flush;
use tierra_memory::replication::{Composition, CopyBy, Method, ReplicaSet, Waits};

use super::{UPDATES_BY_THREADS, methods};
use crate::error::LabError;
use crate::peers::plain::PlainC;
use crate::peers::pmdk::{Pmdk, PoolSet, Update};
use crate::positions::{Pattern, Positions};
use crate::replicas::{Copies, check, panel, update};
use crate::row::{Row, find};
use crate::turns::turns;

/// Updates of a turn that are checked in every copy.
const CHECKED: usize = 100;

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The bare instructions, on that many copies in addition to the first.
    PlainC(usize),
    /// Ours, with that many replicas.
    Ours(usize, Method),
    /// The peer, likewise.
    Pmdk(usize),
}

impl Who {
    /// Ours without replicas, in results.
    pub(super) const UNREPLICATED: &str = "Tierra";

    fn name(self) -> String {
        match self {
            Who::PlainC(0) => PlainC::NAME.to_owned(),
            Who::PlainC(_) => PlainC::COPIES.to_owned(),
            Who::Ours(0, _) => Who::UNREPLICATED.to_owned(),
            Who::Ours(_, method) => method.to_string(),
            Who::Pmdk(_) => Pmdk::NAME.to_owned(),
        }
    }

    fn replicas(self) -> usize {
        match self {
            Who::PlainC(replicas) | Who::Ours(replicas, _) | Who::Pmdk(replicas) => replicas,
        }
    }

    /// The contender whose update without replicas it is compared with.
    fn baseline(self) -> &'static str {
        match self {
            Who::PlainC(_) => PlainC::NAME,
            Who::Ours(..) => Who::UNREPLICATED,
            Who::Pmdk(_) => Pmdk::NAME,
        }
    }
}

/// The writers of a phase.
pub(super) struct Bench<'a> {
    flush: Flush,
    replicas: usize,
    /// Updates per sample.
    pub(super) updates: usize,
    /// Without replicas, and with.
    sets: [ReplicaSet; 2],
    plain: Option<(&'a PlainC, Vec<ExtentWriter>)>,
    /// The same for PMDK, if it is installed.
    pub(super) pmdk: Option<[&'a mut PoolSet; 2]>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        copies: &Copies,
        plain: Option<&'a PlainC>,
        flush: Flush,
        replicas: usize,
        bytes: usize,
    ) -> Result<Bench<'a>, LabError> {
        let plain = match plain {
            Some(plain) => Some((plain, copies.scratches(1 + replicas, bytes)?)),
            None => None,
        };
        Ok(Bench {
            flush,
            replicas,
            updates: 0,
            sets: [copies.set(0)?, copies.set(replicas)?],
            plain,
            pmdk: None,
        })
    }

    /// Measures every contender with every pattern, in turn, in a memory of this name.
    pub(super) fn measure(
        &mut self,
        memory: &str,
        positions: &mut Positions,
        rounds: usize,
    ) -> Result<Vec<Row>, LabError> {
        let contenders = self.contenders();
        let points: Vec<(Pattern, Who)> = Pattern::ALL
            .into_iter()
            .flat_map(|pattern| contenders.iter().map(move |&who| (pattern, who)))
            .collect();
        let mut samples = vec![Vec::with_capacity(rounds); points.len()];
        for (number, turn) in turns(points.len(), rounds).enumerate() {
            let (pattern, who) = points[turn.contender];
            // The value always differs from the previous one.
            let time_ns = self.turn(positions, pattern, who, number as u32 + 1)?;
            if !turn.is_warm_up() {
                samples[turn.contender].push(time_ns);
            }
        }
        let rows: Vec<Row> = points
            .iter()
            .zip(samples)
            .map(|((pattern, who), samples)| {
                Row::new()
                    .text("memory", memory)
                    .text("pattern", pattern.name())
                    .text("flush", self.flush.to_string())
                    .text("who", who.name())
                    .text("phase", self.replicas.to_string())
                    .text("replicas", who.replicas().to_string())
                    .count("updates", self.updates_of(*who) as u64)
                    .samples("time", "ns", samples)
            })
            .collect();
        let shown = points.iter().zip(&rows).map(|((pattern, who), row)| {
            let baseline = [
                ("pattern", pattern.name()),
                ("who", who.baseline()),
                ("replicas", "0"),
            ];
            let each = |row: &Row| Some(row.value("time_ns")? / row.value("updates")?);
            let without = find(&rows, &baseline).and_then(each);
            let times = each(row).zip(without).map(|(with, without)| with / without);
            let row = row.clone();
            let shown = panel(&format!("{} {}", pattern.name(), self.flush), memory);
            match who.replicas() {
                0 => row.text(&format!("alone {shown}"), who.name()),
                _ => row
                    .number("relative_time", times.unwrap_or(f64::NAN))
                    .text(&shown, who.name()),
            }
        });
        Ok(shown.collect())
    }

    fn updates_of(&self, who: Who) -> usize {
        let wakes = |method: &Method| matches!(method, Method::Always(one) if matches!(one.copy, CopyBy::Threads(_)));
        match who {
            Who::Ours(1.., method) if wakes(&method) => self.updates.min(UPDATES_BY_THREADS),
            _ => self.updates,
        }
    }

    fn contenders(&self) -> Vec<Who> {
        let one_fence = Method::Always(Composition {
            waits: Waits::Once,
            ..Composition::BASIC
        });
        let mut contenders = vec![Who::Ours(0, one_fence)];
        if self.plain.is_some() {
            contenders.extend([0, self.replicas].map(Who::PlainC));
        }
        let methods = methods().into_iter();
        contenders.extend(methods.map(|method| Who::Ours(self.replicas, method)));
        if self.pmdk.is_some() {
            contenders.extend([0, self.replicas].map(Who::Pmdk));
        }
        contenders
    }

    /// The time of a sample's updates. Some of them are then checked in every copy.
    fn turn(
        &mut self,
        positions: &mut Positions,
        pattern: Pattern,
        who: Who,
        value: u32,
    ) -> Result<u64, LabError> {
        let (from, taken) = positions.take(pattern, self.updates_of(who));
        let checked = &taken[..CHECKED];
        match who {
            Who::PlainC(replicas) => {
                let (plain, arrays) = self.plain.as_mut().expect("it takes part");
                let start = Instant::now();
                match replicas {
                    0 => plain.update(self.flush, &mut arrays[0], taken, value),
                    _ => plain.update_copies(self.flush, arrays, taken, value),
                }
                Ok(start.elapsed().as_nanos() as u64)
            }
            Who::Ours(replicas, method) => {
                let set = &mut self.sets[usize::from(replicas > 0)];
                let time_ns = update(set, &method, taken, value)?;
                let places = checked.iter().map(|&position| position as usize * 4);
                check(set, &who.name(), places, &value.to_ne_bytes())?;
                Ok(time_ns)
            }
            Who::Pmdk(replicas) => {
                let sets = self.pmdk.as_mut().expect("it takes part");
                let set = &mut sets[usize::from(replicas > 0)];
                let time_ns = set.update(Update::Put, from, taken.len(), value)?;
                set.check(checked, value)?;
                Ok(time_ns)
            }
        }
    }
}
