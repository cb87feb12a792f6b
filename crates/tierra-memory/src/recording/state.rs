//! What a recorder has seen so far: of pools that are written, or of those that are read.

use std::collections::HashMap;
use std::ops::Range;
use std::thread::ThreadId;

use super::event::{Event, LineOf, Order, Store, Words, words_at};
use super::file_step::FileStep;
use crate::LINE_BYTES;

/// The most pools of one recording.
pub(super) const MAX_POOLS: usize = 64;

#[derive(Debug)]
pub(super) enum State {
    Writes(Box<Writes>),
    Reads(Reads),
}

/// What recovery does with an image.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// By pool.
    pub(super) pools: Vec<Touched>,
    pub(super) names: Names,
}

/// Which pool's file has which name. Numbers are given once.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) pools: HashMap<String, u8>,
    /// Of the next pool that is not among them.
    pub(super) next: u8,
}

impl Names {
    pub(super) fn pool(&mut self, name: &str) -> u8 {
        if let Some(pool) = self.pools.get(name) {
            return *pool;
        }
        let pool = self.next;
        assert!(
            usize::from(pool) < MAX_POOLS,
            "{MAX_POOLS} pools are recorded at most"
        );
        self.next += 1;
        self.pools.insert(name.to_owned(), pool);
        pool
    }

    pub(super) fn apply(&mut self, step: &FileStep) {
        match step {
            FileStep::Removed { name } => drop(self.pools.remove(name)),
            FileStep::Renamed { from, to } => {
                let pool = self.pools.remove(from);
                self.pools.remove(to);
                self.pools.extend(pool.map(|pool| (to.clone(), pool)));
            }
            _ => {}
        }
    }
}

/// What was written, to be explored later.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) pools: Vec<Memory>,
    pub(super) events: Vec<Event>,
    threads: Vec<ThreadId>,
    pub(super) names: Names,
}

/// A pool as it is in memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Where it lies; zero before it does.
    pub(super) base: usize,
    /// What it holds.
    pub(super) latest: Vec<u8>,
}

/// What recovery touched, as ranges of offsets in their order.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(super) base: usize,
    pub(crate) read: Vec<Range<u64>>,
    pub(crate) written: Vec<Range<u64>>,
}

impl Writes {
    pub(super) fn memory(&mut self, pool: u8) -> &mut Memory {
        let index = usize::from(pool);
        if self.pools.len() <= index {
            self.pools.resize_with(index + 1, Memory::default);
        }
        &mut self.pools[index]
    }

    pub(super) fn thread(&mut self) -> u32 {
        let this = std::thread::current().id();
        let known = self.threads.iter().position(|thread| *thread == this);
        let index = known.unwrap_or_else(|| {
            self.threads.push(this);
            self.threads.len() - 1
        });
        index as u32
    }

    /// Takes note of `bytes` at `at`, line by line, where they differ from what is there.
    pub(super) fn changes(
        &mut self,
        pool: u8,
        at: usize,
        bytes: &[u8],
        order: Order,
        mut found: impl FnMut(&mut Vec<Event>, Store),
    ) {
        // Made when it was mapped.
        let latest = &mut self.pools[usize::from(pool)].latest;
        let mut from = at;
        while from < at + bytes.len() {
            let line = from / LINE_BYTES;
            let to = ((line + 1) * LINE_BYTES).min(at + bytes.len());
            let new = &bytes[from - at..to - at];
            if latest[from..to] != *new {
                let index = line as u32;
                let before = words_at(latest, index);
                latest[from..to].copy_from_slice(new);
                let words = words_at(latest, index);
                let store = Store {
                    line: LineOf { pool, index },
                    mask: changed_words(&before, &words),
                    words,
                    order,
                };
                found(&mut self.events, store);
            }
            from = to;
        }
    }
}

fn changed_words(before: &Words, after: &Words) -> u8 {
    let words = before.iter().zip(after).enumerate();
    words.fold(0, |mask, (index, (before, after))| {
        mask | u8::from(before != after) << index
    })
}
