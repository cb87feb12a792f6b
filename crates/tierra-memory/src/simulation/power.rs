//! The state of every line, and what a power cut could leave of it.
//!
//! ```text
//!            store            flush by a thread         fence by that thread
//!   clean  -------->  dirty  ------------------>  flushed  ------------------>  clean, durable
//!                        \_________ a power cut may keep any version ________/
//! ```
//! A line that is not clean was evicted from the cache at some moment, or never: memory holds it as it
//! was after any of the stores since. Stores of [`Order::Program`] come in their order; of a copy, whose
//! order is the compiler's affair, any of its words may have come before it was complete.
//!
//! Invariant: `durable` is what certainly survives; a line is pending exactly if it may still be
//! something else.

use std::collections::{BTreeMap, HashMap};

use super::random::Random;
use super::trace::{Event, Order, Store, Trace, Words};
use crate::LINE_BYTES;

/// What memory certainly holds and may hold at one moment of a trace.
#[derive(Debug)]
pub(super) struct Power {
    durable: Vec<u8>,
    durable_len_bytes: u64,
    /// Stores that are not certain to be durable, by line, in their order.
    pending: BTreeMap<u32, Vec<Pending>>,
    /// Lines that threads have flushed and not fenced, up to which store.
    flushed: HashMap<u32, Vec<(u32, u64)>>,
    /// The number of the next store.
    next: u64,
    /// Lines of `durable` that changed since they were asked for.
    changed: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Pending {
    number: u64,
    store: Store,
}

impl Power {
    pub(super) fn new(trace: &Trace) -> Power {
        Power {
            durable: trace.initial.clone(),
            durable_len_bytes: trace.initial.len() as u64,
            pending: BTreeMap::new(),
            flushed: HashMap::new(),
            next: 0,
            changed: Vec::new(),
        }
    }

    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Grown { len_bytes } => self.durable.resize(*len_bytes as usize, 0),
            Event::LengthSynced => self.durable_len_bytes = self.durable.len() as u64,
            Event::Store(store) => self.store(store),
            Event::Scribbled(stores) => stores.iter().for_each(|store| self.store(store)),
            Event::Flush { thread, first, end } => {
                let (last, pending) = (self.next, &self.pending);
                let lines = (*first..*end).filter(|line| pending.contains_key(line));
                let flushed = self.flushed.entry(*thread).or_default();
                flushed.extend(lines.map(|line| (line, last)));
            }
            Event::Fence { thread } => {
                for (line, before) in self.flushed.remove(thread).unwrap_or_default() {
                    self.keep(line, before);
                }
            }
            Event::FileSynced => {
                self.keep_lines(0, u32::MAX);
                self.durable_len_bytes = self.durable.len() as u64;
            }
            Event::RangeSynced { first, end } => {
                self.keep_lines(*first, *end);
                // What is written back must be found again: the kernel writes the length as well.
                self.durable_len_bytes = self.durable.len() as u64;
            }
            Event::Acknowledged(_) => {}
        }
    }

    fn store(&mut self, store: &Store) {
        let number = self.next;
        self.next += 1;
        let pending = Pending {
            number,
            store: *store,
        };
        self.pending.entry(store.line).or_default().push(pending);
    }

    fn keep_lines(&mut self, first: u32, end: u32) {
        let lines: Vec<u32> = self
            .pending
            .range(first..end)
            .map(|(line, _)| *line)
            .collect();
        for line in lines {
            self.keep(line, u64::MAX);
        }
    }

    /// Makes stores to a line durable, those numbered below `before`.
    fn keep(&mut self, line: u32, before: u64) {
        let Some(pending) = self.pending.get_mut(&line) else {
            return;
        };
        let certain = pending.partition_point(|pending| pending.number < before);
        let mut words = words_at(&self.durable, line);
        for Pending { store, .. } in pending.drain(..certain) {
            apply(&mut words, &store, store.mask);
        }
        if pending.is_empty() {
            self.pending.remove(&line);
        }
        let at = line as usize * LINE_BYTES;
        self.durable[at..at + LINE_BYTES].copy_from_slice(&bytes_of(&words));
        self.changed.push(line);
    }

    /// Whether a flush by this thread would send something on its way that it has not sent before.
    pub(super) fn would_flush(&self, thread: u32, line: u32) -> bool {
        let Some(newest) = self.pending.get(&line).and_then(|pending| pending.last()) else {
            return false;
        };
        let sent = self.flushed.get(&thread).into_iter().flatten();
        !sent
            .filter(|(sent, _)| *sent == line)
            .any(|(_, before)| newest.number < *before)
    }

    /// Whether a fence by this thread would wait for anything.
    pub(super) fn would_fence(&self, thread: u32) -> bool {
        self.flushed
            .get(&thread)
            .is_some_and(|flushed| !flushed.is_empty())
    }

    /// What is durable, as far as the file certainly reaches.
    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// The file's least and greatest possible length.
    pub(super) fn len_bytes(&self) -> (u64, u64) {
        (self.durable_len_bytes, self.durable.len() as u64)
    }

    /// Lines whose durable content changed since this was last asked.
    pub(super) fn take_changed(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Lines below `end`, from `first` on, that may hold something else than what is durable.
    pub(super) fn pending(&self, first: u32, end: u32) -> impl Iterator<Item = u32> + '_ {
        self.pending.range(first..end).map(|(line, _)| *line)
    }

    /// The line as it certainly is.
    pub(super) fn oldest(&self, line: u32) -> Words {
        words_at(&self.durable, line)
    }

    /// The line after all stores.
    pub(super) fn newest(&self, line: u32) -> Words {
        let mut words = self.oldest(line);
        for Pending { store, .. } in self.stores(line) {
            apply(&mut words, store, store.mask);
        }
        words
    }

    /// Every version of a line, the durable one first, each once; `None` if there are more than `most`.
    pub(super) fn versions(&self, line: u32, most: usize) -> Option<Vec<Words>> {
        let mut words = self.oldest(line);
        let mut versions = vec![words];
        for Pending { store, .. } in self.stores(line) {
            for kept in part_masks(store) {
                let mut version = words;
                apply(&mut version, store, kept);
                if !versions.contains(&version) {
                    if versions.len() == most {
                        return None;
                    }
                    versions.push(version);
                }
            }
            apply(&mut words, store, store.mask);
        }
        Some(versions)
    }

    /// Some version of a line: often the oldest or the newest, else one in between.
    pub(super) fn any_version(&self, line: u32, random: &mut Random) -> Words {
        match random.below(4) {
            0 => self.oldest(line),
            1 => self.newest(line),
            _ => {
                let stores = self.stores(line);
                let last = random.below(stores.len() as u64) as usize;
                let mut words = self.oldest(line);
                for Pending { store, .. } in &stores[..last] {
                    apply(&mut words, store, store.mask);
                }
                let store = &stores[last].store;
                let kept = match store.order {
                    Order::Program => store.mask,
                    Order::None => store.mask & random.next() as u8,
                };
                apply(&mut words, store, kept);
                words
            }
        }
    }

    fn stores(&self, line: u32) -> &[Pending] {
        self.pending.get(&line).map_or(&[], Vec::as_slice)
    }
}

/// Which words of a store may be there alone.
fn part_masks(store: &Store) -> impl Iterator<Item = u8> {
    let (mask, order) = (store.mask, store.order);
    (1..=mask).filter(move |part| match order {
        Order::Program => *part == mask,
        Order::None => part & !mask == 0,
    })
}

fn apply(words: &mut Words, store: &Store, mask: u8) {
    for (index, word) in words.iter_mut().enumerate() {
        if mask >> index & 1 == 1 {
            *word = store.words[index];
        }
    }
}

/// The words of a line in a pool's bytes.
pub(super) fn words_at(bytes: &[u8], line: u32) -> Words {
    let mut words = Words::default();
    let line = &bytes[line as usize * LINE_BYTES..][..LINE_BYTES];
    for (word, bytes) in words.iter_mut().zip(line.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(bytes);
        *word = u64::from_ne_bytes(eight);
    }
    words
}

/// The bytes of a line's words.
pub(super) fn bytes_of(words: &Words) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
