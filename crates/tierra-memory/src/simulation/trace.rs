//! The events of pools, in order: stores, flushes, fences, and marks of an observer.
//!
//! A trace is data: [`Trace::without`] leaves an instruction out, which is the same as a program that
//! forgot it, so a check can be shown to notice every one that matters. [`Recorder::unseen`] finds a store that no trace has.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use super::files::{Content, pools_of};
use super::power::Power;
use crate::durability::Durability;
use crate::pool::Pool;
use crate::recording::{Event, FileStep, Recorder};

/// A kind of instruction that a program might leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Lines are sent on their way.
    Flush,
    /// What was sent is waited for: a fence, or a wait for the kernel.
    Fence,
    /// The file's length is made durable.
    LengthSync,
    /// What a file of the directory holds is made durable, or the directory's names are.
    FileSync,
}

/// A history of stores, flushes and fences.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(super) durability: Durability,
    pub(super) events: Vec<Event>,
}

/// Flushes and fences that made nothing durable, by the step that was under way (the last one
/// acknowledged before).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Useless {
    /// Lines flushed that held nothing new, and how many lines were flushed in all.
    pub flushed_lines: (u64, u64),
    /// Fences with nothing flushed before them, and how many there were in all.
    pub fences: (u64, u64),
    /// Useless lines by step.
    pub flushed_lines_by_step: HashMap<u64, u64>,
    /// Useless fences by step.
    pub fences_by_step: HashMap<u64, u64>,
}

impl Trace {
    /// Steps recorded.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Which events are of a kind.
    pub fn steps(&self, kind: StepKind) -> Vec<usize> {
        let is_of = |event: &Event| match kind {
            StepKind::Flush => matches!(event, Event::Flush { .. }),
            StepKind::Fence => event.is_wait(),
            StepKind::LengthSync => matches!(event, Event::LengthSynced { .. }),
            StepKind::FileSync => matches!(event, Event::File(step) if step.is_barrier()),
        };
        let events = self.events.iter().enumerate();
        let found = events.filter(|(_, event)| is_of(event));
        found.map(|(index, _)| index).collect()
    }

    /// [`Trace::steps`] that concern this pool alone: all but fences of the processor, which serve all.
    pub fn steps_of_pool(&self, kind: StepKind, pool: usize) -> Vec<usize> {
        let is_of = |event: &Event| match event {
            Event::Flush { lines, .. } | Event::RangeSynced(lines) => lines.pool == pool as u8,
            Event::FileSynced { pool: of } | Event::LengthSynced { pool: of } => *of == pool as u8,
            _ => false,
        };
        let mut steps = self.steps(kind);
        steps.retain(|&step| is_of(&self.events[step]));
        steps
    }

    /// The same history without one event: a program that left a flush or a fence out.
    ///
    /// # Panics
    /// If there is no such event.
    pub fn without(&self, event: usize) -> Trace {
        let mut trace = self.clone();
        trace.events.remove(event);
        trace
    }

    /// The same history in which a flush misses its last line: a program that rounds a length down.
    /// `None` if the event is no flush of several lines.
    pub fn without_last_line(&self, event: usize) -> Option<Trace> {
        let mut trace = self.clone();
        match trace.events.get_mut(event)? {
            Event::Flush { lines, .. } if lines.end > lines.first + 1 => lines.end -= 1,
            _ => return None,
        }
        Some(trace)
    }

    /// The same history with one event moved to behind another: a program that does things in the wrong
    /// order.
    ///
    /// # Panics
    /// If there is no such event, or `event > behind`.
    pub fn delayed(&self, event: usize, behind: usize) -> Trace {
        let mut trace = self.clone();
        trace.events[event..=behind].rotate_left(1);
        trace
    }

    /// What a process that was killed after `events` events left to the next one: the pool's bytes with
    /// every store, for the caches outlive it. Of several pools, the first one's.
    pub fn killed_after(&self, events: usize) -> Vec<u8> {
        let mut pools = self.pools_killed_after(events).into_iter();
        pools.next().flatten().unwrap_or_default()
    }

    /// [`Trace::killed_after`] of every pool; `None` for one that there was not yet.
    pub fn pools_killed_after(&self, events: usize) -> Vec<Option<Vec<u8>>> {
        let mut power = Power::new();
        self.events[..events]
            .iter()
            .for_each(|event| power.apply(event));
        let pools = (0..self.pools()).map(|pool| {
            power.is_made(pool).then(|| {
                // A process that ends waits for nothing, but what it stored is in memory.
                power.apply(&Event::FileSynced { pool });
                power.durable(pool).to_vec()
            })
        });
        pools.collect()
    }

    /// What a process that was killed after `events` events left in the directory that was recorded, pools and all;
    /// `dir` is made.
    ///
    /// # Errors
    /// Those of writing it.
    pub fn directory_killed_after(&self, events: usize, dir: &Path) -> io::Result<()> {
        let mut power = Power::new();
        self.events[..events]
            .iter()
            .for_each(|event| power.apply(event));
        std::fs::create_dir(dir)?;
        for (name, content) in power.files().now() {
            let path = dir.join(name);
            match content {
                Content::Bytes(bytes) => std::fs::write(path, bytes)?,
                Content::Pool(pool) => {
                    power.apply(&Event::FileSynced { pool });
                    std::fs::write(path, power.durable(pool))?;
                }
            }
        }
        Ok(())
    }

    /// Pools recorded.
    pub(super) fn pools(&self) -> u8 {
        let made = self.events.iter().filter_map(|event| match event {
            Event::Made { pool, .. }
            | Event::File(FileStep::Created {
                pool: Some(pool), ..
            }) => Some(pool + 1),
            _ => None,
        });
        made.max().unwrap_or(0)
    }

    /// The history of a process that was killed after `events` events, and of the one that was recorded
    /// as it went on from what [`Trace::killed_after`] says. What the first one did not fence is no more
    /// certain for that. Steps of the second count on.
    pub fn killed_and_continued(&self, events: usize, next: &Trace) -> Trace {
        let mut trace = self.clone();
        trace.events.truncate(events);
        let threads = trace.events.iter().filter_map(Event::thread).max();
        let first = threads.map_or(0, |thread| thread + 1);
        let made = trace.events.iter().filter_map(|event| match event {
            Event::Made { pool, .. } => Some(*pool),
            _ => None,
        });
        let known: HashSet<u8> = made.collect();
        // What it opened is what was left, and as uncertain as that.
        let is_new =
            |event: &&Event| !matches!(event, Event::Made { pool, .. } if known.contains(pool));
        let renumbered = next.events.iter().filter(is_new).cloned().map(|mut event| {
            if let Event::Flush { thread, .. }
            | Event::Fence { thread }
            | Event::Streamed { thread, .. } = &mut event
            {
                *thread += first;
            }
            event
        });
        trace.events.extend(renumbered);
        trace
    }

    /// What was flushed and fenced for nothing.
    pub fn useless(&self) -> Useless {
        let mut useless = Useless::default();
        let mut power = Power::new();
        let mut step = 0;
        for event in &self.events {
            match event {
                Event::Acknowledged(done) => step = *done,
                Event::Flush { thread, lines } => {
                    let clean = lines
                        .lines()
                        .filter(|&line| !power.would_flush(*thread, line))
                        .count() as u64;
                    useless.flushed_lines.0 += clean;
                    useless.flushed_lines.1 += u64::from(lines.end - lines.first);
                    if clean > 0 {
                        *useless.flushed_lines_by_step.entry(step).or_default() += clean;
                    }
                }
                Event::Fence { thread } => {
                    useless.fences.1 += 1;
                    if !power.would_fence(*thread) {
                        useless.fences.0 += 1;
                        *useless.fences_by_step.entry(step).or_default() += 1;
                    }
                }
                _ => {}
            }
            power.apply(event);
        }
        useless
    }
}

impl Recorder {
    /// What was recorded so far.
    pub fn trace(&self) -> Trace {
        Trace {
            durability: self.durability(),
            events: self.events(),
        }
    }

    /// Offsets of lines of the pool that differ from the recording: stores that were not recorded. Called while
    /// there is no writer.
    pub fn unseen(&self, pool: &Pool) -> Vec<u64> {
        self.differences(pool.raw_bytes(0, pool.len_bytes()))
    }

    /// This recording, for a process that goes on with what another one left that was killed after `events` events
    /// ([`Trace::directory_killed_after`]): its pools keep their numbers.
    pub fn going_on(self, trace: &Trace, events: usize) -> Recorder {
        let mut power = Power::new();
        trace.events[..events]
            .iter()
            .for_each(|event| power.apply(event));
        self.name_pools(pools_of(&power.files().now()), trace.pools());
        self
    }
}
