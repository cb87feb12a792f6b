//! What a pool was told to do, in order: stores, flushes, fences, and marks of who watched.
//!
//! A trace is data: [`Trace::without`] leaves an instruction out, which is the same as a program that
//! forgot it, so a check can be shown to notice every one that matters.

use std::collections::HashMap;

use super::power::Power;
use crate::LINE_BYTES;
use crate::pool::Durability;

/// The words of a line.
pub(super) type Words = [u64; LINE_BYTES / 8];

/// How a store relates to others of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Reaches memory after those before it and before those behind it.
    Program,
    /// Its words reach memory in any order; stores before it have, once one of them has.
    None,
    /// Goes past the cache: its words reach memory in any order, whatever was stored before or is stored
    /// behind it, and certainly at the next fence of its thread, without a flush.
    Stream,
}

/// A store to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Store {
    /// Index of the line.
    pub(super) line: u32,
    /// Which words it changes.
    pub(super) mask: u8,
    /// Their values; the others are as before.
    pub(super) words: Words,
    pub(super) order: Order,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The file grew, with zeros.
    Grown {
        len_bytes: u64,
    },
    /// The file's length is durable.
    LengthSynced,
    Store(Store),
    /// A store past the cache by a thread.
    Streamed {
        thread: u32,
        store: Store,
    },
    /// Stores through a slice, seen when it was handed in and dated back to when it was handed out:
    /// they may have happened, and reached memory, at any moment between.
    Scribbled(Vec<Store>),
    /// The thread wrote lines back, from the first to before the last.
    Flush {
        thread: u32,
        first: u32,
        end: u32,
    },
    Fence {
        thread: u32,
    },
    /// All of the file is durable.
    FileSynced,
    /// Lines, in whole pages, are durable.
    RangeSynced {
        first: u32,
        end: u32,
    },
    /// The program was told that everything up to this step of it has been done.
    Acknowledged(u64),
}

impl Event {
    fn thread(&self) -> Option<u32> {
        match self {
            Event::Flush { thread, .. }
            | Event::Fence { thread }
            | Event::Streamed { thread, .. } => Some(*thread),
            _ => None,
        }
    }

    /// Whether something becomes certain here, so that the moment before it is the one with most
    /// images.
    pub(super) fn is_barrier(&self) -> bool {
        matches!(
            self,
            Event::Fence { .. } | Event::FileSynced | Event::RangeSynced { .. }
        )
    }
}

/// A kind of instruction that a program might leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Lines are sent on their way.
    Flush,
    /// What was sent is waited for: a fence, or a wait for the kernel.
    Fence,
    /// The file's length is made durable.
    LengthSync,
}

/// A history of stores, flushes and fences.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(super) durability: Durability,
    /// What was durable when recording began.
    pub(super) initial: Vec<u8>,
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
            StepKind::Fence => event.is_barrier(),
            StepKind::LengthSync => matches!(event, Event::LengthSynced),
        };
        let events = self.events.iter().enumerate();
        let found = events.filter(|(_, event)| is_of(event));
        found.map(|(index, _)| index).collect()
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
            Event::Flush { first, end, .. } if *end > *first + 1 => *end -= 1,
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
    /// every store, for the caches outlive it.
    pub fn killed_after(&self, events: usize) -> Vec<u8> {
        let mut power = Power::new(self);
        self.events[..events]
            .iter()
            .for_each(|event| power.apply(event));
        // A process that ends waits for nothing, but what it stored is in memory.
        power.apply(&Event::FileSynced);
        power.durable().to_vec()
    }

    /// The history of a process that was killed after `events` events, and of the one that was recorded
    /// as it went on from what [`Trace::killed_after`] says. What the first one did not fence is no more
    /// certain for that. Steps of the second count on.
    pub fn killed_and_continued(&self, events: usize, next: &Trace) -> Trace {
        let mut trace = self.clone();
        trace.events.truncate(events);
        let threads = trace.events.iter().filter_map(Event::thread).max();
        let first = threads.map_or(0, |thread| thread + 1);
        let renumbered = next.events.iter().cloned().map(|mut event| {
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
        let mut power = Power::new(self);
        let mut step = 0;
        for event in &self.events {
            match event {
                Event::Acknowledged(done) => step = *done,
                Event::Flush { thread, first, end } => {
                    let clean = (*first..*end)
                        .filter(|&line| !power.would_flush(*thread, line))
                        .count() as u64;
                    useless.flushed_lines.0 += clean;
                    useless.flushed_lines.1 += u64::from(end - first);
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
