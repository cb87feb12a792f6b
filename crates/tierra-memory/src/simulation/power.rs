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
//! A streamed store ([`Order::Stream`]) waits for none of its line and none waits for it.
//!
//! Invariant: `durable` is what certainly survives; a line is pending exactly if it may still be
//! something else.

use std::collections::{BTreeMap, HashMap};
use std::iter;

use super::files::Files;
use crate::LINE_BYTES;
use crate::random::Random;
use crate::recording::{Event, LineOf, LineRange, Order, Store, Words, words_at};

/// What memory certainly holds and may hold at one moment of a trace.
#[derive(Debug, Default)]
pub(super) struct Power {
    /// By number; `None` for one that is not there yet.
    pools: Vec<Option<Medium>>,
    /// Stores that are not certain to be durable, by line, in their order.
    pending: BTreeMap<LineOf, Vec<Pending>>,
    /// What threads have sent on its way and not fenced, and to which line.
    sent: HashMap<u32, Vec<(LineOf, Sent)>>,
    /// The number of the next store.
    next: u64,
    /// Pools that were made since they were asked for.
    made: Vec<u8>,
    /// Lines whose durable content changed since they were asked for.
    changed: Vec<LineOf>,
    /// The directory that the pools lie in.
    files: Files,
}

/// What is durable of a pool.
#[derive(Debug)]
struct Medium {
    bytes: Vec<u8>,
    len_bytes: u64,
}

/// What a fence makes certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// By a flush: every store numbered below.
    Before(u64),
    /// By being streamed: the store of this number.
    Store(u64),
}

#[derive(Clone, Debug)]
struct Pending {
    number: u64,
    store: Store,
}

impl Power {
    /// Before the first event.
    pub(super) fn new() -> Power {
        Power::default()
    }

    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Made { pool, bytes } => {
                self.make(*pool, bytes);
                self.files.pool_made(*pool);
            }
            Event::File(step) => self.files.apply(step),
            Event::Grown { pool, len_bytes } => {
                self.medium_mut(*pool).bytes.resize(*len_bytes as usize, 0);
            }
            Event::LengthSynced { pool } => self.keep_length(*pool),
            Event::Store(store) => self.store(store),
            Event::Scribbled(stores) => stores.iter().for_each(|store| self.store(store)),
            Event::Flush { thread, lines } => {
                let (next, pending) = (self.next, &self.pending);
                let lines = lines.lines().filter(|line| pending.contains_key(line));
                let sent = self.sent.entry(*thread).or_default();
                sent.extend(lines.map(|line| (line, Sent::Before(next))));
            }
            Event::Streamed { thread, store } => {
                let sent = (store.line, Sent::Store(self.next));
                self.sent.entry(*thread).or_default().push(sent);
                self.store(store);
            }
            Event::Fence { thread } => {
                for (line, sent) in self.sent.remove(thread).unwrap_or_default() {
                    self.keep(line, |pending| match sent {
                        // A flush writes the cache back, which a streamed store has not gone through.
                        Sent::Before(number) => {
                            pending.number < number && pending.store.order != Order::Stream
                        }
                        Sent::Store(number) => pending.number == number,
                    });
                }
            }
            Event::FileSynced { pool } => {
                self.keep_lines(all_lines(*pool));
                self.keep_length(*pool);
            }
            Event::RangeSynced(lines) => {
                self.keep_lines(*lines);
                // What is written back must be found again: the kernel writes the length as well.
                self.keep_length(lines.pool);
            }
            Event::Acknowledged(_) => {}
        }
    }

    /// A pool made in the place of another takes its stores along.
    fn make(&mut self, pool: u8, bytes: &[u8]) {
        self.pending.retain(|line, _| line.pool != pool);
        let sent = self.sent.values_mut();
        sent.for_each(|sent| sent.retain(|(line, _)| line.pool != pool));
        let needed = usize::from(pool) + 1;
        if self.pools.len() < needed {
            self.pools.resize_with(needed, || None);
        }
        self.pools[usize::from(pool)] = Some(Medium {
            bytes: bytes.to_vec(),
            len_bytes: bytes.len() as u64,
        });
        self.made.push(pool);
    }

    fn medium(&self, pool: u8) -> &Medium {
        let medium = self.pools.get(usize::from(pool));
        medium
            .and_then(Option::as_ref)
            .expect("a pool is made before anything happens to it")
    }

    fn medium_mut(&mut self, pool: u8) -> &mut Medium {
        let medium = self.pools.get_mut(usize::from(pool));
        medium
            .and_then(Option::as_mut)
            .expect("a pool is made before anything happens to it")
    }

    fn keep_length(&mut self, pool: u8) {
        let medium = self.medium_mut(pool);
        medium.len_bytes = medium.bytes.len() as u64;
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

    fn keep_lines(&mut self, lines: LineRange) {
        let lines: Vec<LineOf> = self
            .pending
            .range(lines.bounds())
            .map(|(line, _)| *line)
            .collect();
        for line in lines {
            self.keep(line, |_| true);
        }
    }

    /// Makes stores to a line durable. What they overwrote can come back no more.
    fn keep(&mut self, line: LineOf, is_certain: impl Fn(&Pending) -> bool) {
        let mut words = self.oldest(line);
        let Some(pending) = self.pending.get_mut(&line) else {
            return;
        };
        let mut uncertain: Vec<Pending> = Vec::new();
        for next in pending.drain(..) {
            if is_certain(&next) {
                apply(&mut words, &next.store, next.store.mask);
                for earlier in &mut uncertain {
                    earlier.store.mask &= !next.store.mask;
                }
            } else {
                uncertain.push(next);
            }
        }
        uncertain.retain(|pending| pending.store.mask != 0);
        match uncertain.is_empty() {
            true => drop(self.pending.remove(&line)),
            false => *pending = uncertain,
        }
        let at = line.index as usize * LINE_BYTES;
        let durable = &mut self.medium_mut(line.pool).bytes;
        durable[at..at + LINE_BYTES].copy_from_slice(&bytes_of(&words));
        self.changed.push(line);
    }

    /// Whether a flush by this thread would send something on its way that it has not sent before.
    pub(super) fn would_flush(&self, thread: u32, line: LineOf) -> bool {
        // What was streamed past the cache is no flush's business.
        let cached = |pending: &&Pending| pending.store.order != Order::Stream;
        let Some(newest) = self.stores(line).iter().rfind(cached) else {
            return false;
        };
        let sent = self.sent.get(&thread).into_iter().flatten();
        let is_sent = |sent: &Sent| matches!(*sent, Sent::Before(number) if newest.number < number);
        !sent
            .filter(|(of, _)| *of == line)
            .any(|(_, sent)| is_sent(sent))
    }

    /// Whether a fence by this thread would wait for anything.
    pub(super) fn would_fence(&self, thread: u32) -> bool {
        self.sent.get(&thread).is_some_and(|sent| !sent.is_empty())
    }

    /// The directory that the pools lie in.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// Whether there is such a pool by now.
    pub(super) fn is_made(&self, pool: u8) -> bool {
        matches!(self.pools.get(usize::from(pool)), Some(Some(_)))
    }

    /// What is durable of a pool, as far as its file certainly reaches.
    pub(super) fn durable(&self, pool: u8) -> &[u8] {
        &self.medium(pool).bytes
    }

    /// A file's least and greatest possible length.
    pub(super) fn len_bytes(&self, pool: u8) -> (u64, u64) {
        let medium = self.medium(pool);
        (medium.len_bytes, medium.bytes.len() as u64)
    }

    /// Pools that were made since this was last asked.
    pub(super) fn take_made(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.made)
    }

    /// Lines whose durable content changed since this was last asked.
    pub(super) fn take_changed(&mut self) -> Vec<LineOf> {
        std::mem::take(&mut self.changed)
    }

    /// Those of some lines that may hold something else than what is durable.
    pub(super) fn pending(&self, lines: LineRange) -> impl Iterator<Item = LineOf> + '_ {
        self.pending.range(lines.bounds()).map(|(line, _)| *line)
    }

    /// The line as it certainly is.
    pub(super) fn oldest(&self, line: LineOf) -> Words {
        words_at(self.durable(line.pool), line.index)
    }

    /// The line after all stores.
    pub(super) fn newest(&self, line: LineOf) -> Words {
        let mut words = self.oldest(line);
        for Pending { store, .. } in self.stores(line) {
            apply(&mut words, store, store.mask);
        }
        words
    }

    /// Every version of a line, the durable one first, each once; `None` if there are more than `most`.
    pub(super) fn versions(&self, line: LineOf, most: usize) -> Option<Vec<Words>> {
        let stores = self.stores(line);
        let mut versions = vec![self.oldest(line)];
        // Which store is the last to have come through the cache, and which of its words have.
        let last = stores.iter().enumerate();
        let last = last.filter(|(_, pending)| pending.store.order != Order::Stream);
        let last =
            last.flat_map(|(at, pending)| part_masks(&pending.store).map(move |kept| (at, kept)));
        for (last, kept) in iter::once((usize::MAX, 0)).chain(last) {
            let mut made = vec![self.oldest(line)];
            for (at, Pending { store, .. }) in stores.iter().enumerate() {
                if store.order == Order::Stream {
                    made = made.iter().flat_map(|words| parts(words, store)).collect();
                } else if last != usize::MAX && at <= last {
                    let kept = if at == last { kept } else { store.mask };
                    made.iter_mut().for_each(|words| apply(words, store, kept));
                }
                if made.len() > most {
                    return None;
                }
            }
            for version in made {
                if !versions.contains(&version) {
                    versions.push(version);
                }
            }
            if versions.len() > most {
                return None;
            }
        }
        Some(versions)
    }

    /// Some version of a line: often the oldest or the newest, else one in between.
    pub(super) fn any_version(&self, line: LineOf, random: &mut Random) -> Words {
        let stores = self.stores(line);
        let last = match random.below(4) {
            0 => return self.oldest(line),
            1 => return self.newest(line),
            _ => random.below(stores.len() as u64) as usize,
        };
        let mut words = self.oldest(line);
        for (at, Pending { store, .. }) in stores.iter().enumerate() {
            let kept = match store.order {
                Order::Stream => store.mask & random.next() as u8,
                _ if at > last => 0,
                Order::None if at == last => store.mask & random.next() as u8,
                Order::None | Order::Program => store.mask,
            };
            apply(&mut words, store, kept);
        }
        words
    }

    fn stores(&self, line: LineOf) -> &[Pending] {
        self.pending.get(&line).map_or(&[], Vec::as_slice)
    }
}

fn all_lines(pool: u8) -> LineRange {
    LineRange {
        pool,
        first: 0,
        end: u32::MAX,
    }
}

/// Which words of a store may be there alone.
fn part_masks(store: &Store) -> impl Iterator<Item = u8> + use<> {
    let (mask, order) = (store.mask, store.order);
    (1..=mask).filter(move |part| match order {
        Order::Program => *part == mask,
        Order::None | Order::Stream => part & !mask == 0,
    })
}

/// The line with any part of a streamed store.
fn parts(words: &Words, store: &Store) -> impl Iterator<Item = Words> {
    let (words, store) = (*words, *store);
    iter::once(0).chain(part_masks(&store)).map(move |kept| {
        let mut words = words;
        apply(&mut words, &store, kept);
        words
    })
}

fn apply(words: &mut Words, store: &Store, mask: u8) {
    for (index, word) in words.iter_mut().enumerate() {
        if mask >> index & 1 == 1 {
            *word = store.words[index];
        }
    }
}

/// The bytes of a line's words.
pub(super) fn bytes_of(words: &Words) -> [u8; LINE_BYTES] {
    let mut bytes = [0; LINE_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREAD: u32 = 0;
    const FIRST: LineOf = LineOf { pool: 0, index: 0 };
    const SECOND: LineOf = LineOf { pool: 0, index: 1 };
    /// The first line of another pool.
    const OTHER: LineOf = LineOf { pool: 1, index: 0 };

    fn power() -> Power {
        let mut power = Power::new();
        for pool in 0..2 {
            power.apply(&Event::Made {
                pool,
                bytes: vec![0; 2 * LINE_BYTES],
            });
        }
        power
    }

    fn flush(thread: u32, line: LineOf) -> Event {
        let LineOf { pool, index } = line;
        let lines = LineRange {
            pool,
            first: index,
            end: index + 1,
        };
        Event::Flush { thread, lines }
    }

    /// Words 0 and on of line 0 get these values.
    fn store(order: Order, words: &[(usize, u64)]) -> Store {
        let mut store = Store {
            line: FIRST,
            mask: 0,
            words: Words::default(),
            order,
        };
        for (at, word) in words {
            store.mask |= 1 << at;
            store.words[*at] = *word;
        }
        store
    }

    /// The first two words of every version, sorted.
    fn versions(power: &Power) -> Vec<(u64, u64)> {
        versions_of(power, FIRST)
    }

    fn versions_of(power: &Power, line: LineOf) -> Vec<(u64, u64)> {
        let versions = power.versions(line, 100).unwrap();
        let mut firsts: Vec<_> = versions.iter().map(|words| (words[0], words[1])).collect();
        firsts.sort_unstable();
        let mut random = Random::new(1);
        // Of a line that is certain there is nothing to draw.
        for _ in 0..if versions.len() > 1 { 100 } else { 0 } {
            assert!(versions.contains(&power.any_version(line, &mut random)));
        }
        firsts
    }

    #[test]
    fn stores_to_one_line_come_in_their_order() {
        let mut power = power();
        for (at, word) in [(0, 1), (1, 2), (0, 3)] {
            power.apply(&Event::Store(store(Order::Program, &[(at, word)])));
        }
        assert_eq!(versions(&power), [(0, 0), (1, 0), (1, 2), (3, 2)]);
        assert!(power.versions(FIRST, 3).is_none());
    }

    #[test]
    fn words_of_a_copy_come_in_any_order_and_before_what_is_behind_it() {
        let mut power = power();
        power.apply(&Event::Store(store(Order::None, &[(0, 1), (1, 1)])));
        power.apply(&Event::Store(store(Order::Program, &[(0, 2)])));
        assert_eq!(versions(&power), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1)]);
    }

    #[test]
    fn a_line_is_certain_once_it_was_flushed_and_fenced_by_the_same_thread() {
        let mut power = power();
        power.apply(&Event::Store(store(Order::Program, &[(0, 1)])));
        assert!(power.would_flush(THREAD, FIRST) && !power.would_flush(THREAD, SECOND));
        power.apply(&flush(THREAD, FIRST));
        assert!(!power.would_flush(THREAD, FIRST) && power.would_flush(THREAD + 1, FIRST));
        power.apply(&Event::Store(store(Order::Program, &[(1, 1)])));
        power.apply(&Event::Fence { thread: THREAD + 1 });
        assert_eq!(
            versions(&power),
            [(0, 0), (1, 0), (1, 1)],
            "another's fence"
        );
        assert!(power.would_fence(THREAD));
        power.apply(&Event::Fence { thread: THREAD });
        assert_eq!(versions(&power), [(1, 0), (1, 1)], "stored after the flush");
        assert!(!power.would_fence(THREAD));
    }

    #[test]
    fn a_flush_sends_what_is_cached_and_nothing_else() {
        let mut power = power();
        power.apply(&Event::Streamed {
            thread: THREAD,
            store: store(Order::Stream, &[(1, 1)]),
        });
        assert!(!power.would_flush(THREAD, FIRST), "streamed");
        power.apply(&Event::Store(store(Order::Program, &[(0, 1)])));
        assert!(power.would_flush(THREAD, FIRST));
        power.apply(&flush(THREAD + 1, FIRST));
        power.apply(&Event::Fence { thread: THREAD + 1 });
        assert_eq!(versions(&power), [(1, 0), (1, 1)], "streamed by another");
    }

    #[test]
    fn a_streamed_store_waits_for_nothing_but_a_fence() {
        let mut power = power();
        let streamed = |words: &[(usize, u64)]| Event::Streamed {
            thread: THREAD,
            store: store(Order::Stream, words),
        };
        power.apply(&Event::Store(store(Order::Program, &[(0, 1)])));
        power.apply(&streamed(&[(1, 1)]));
        power.apply(&Event::Store(store(Order::Program, &[(0, 2)])));
        let all = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
        assert_eq!(versions(&power), all);
        power.apply(&Event::Fence { thread: THREAD });
        assert_eq!(versions(&power), [(0, 1), (1, 1), (2, 1)]);
    }

    /// One fence of the processor serves all pools; what the kernel writes back is one file.
    #[test]
    fn pools_share_fences_and_nothing_else() {
        let mut power = power();
        let stored = |line| Store {
            line,
            ..store(Order::Program, &[(0, 1)])
        };
        for line in [FIRST, OTHER] {
            power.apply(&Event::Store(stored(line)));
            power.apply(&flush(THREAD, line));
        }
        power.apply(&Event::Fence { thread: THREAD });
        assert_eq!(versions_of(&power, FIRST), [(1, 0)]);
        assert_eq!(versions_of(&power, OTHER), [(1, 0)]);
        for line in [FIRST, OTHER] {
            power.apply(&Event::Store(Store {
                line,
                ..store(Order::Program, &[(1, 2)])
            }));
        }
        power.apply(&Event::FileSynced { pool: OTHER.pool });
        assert_eq!(versions_of(&power, FIRST), [(1, 0), (1, 2)]);
        assert_eq!(versions_of(&power, OTHER), [(1, 2)]);
    }
}
