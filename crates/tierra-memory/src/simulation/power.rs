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
    /// What threads have sent on its way and not fenced, and to which line.
    sent: HashMap<u32, Vec<(u32, Sent)>>,
    /// The number of the next store.
    next: u64,
    /// Lines of `durable` that changed since they were asked for.
    changed: Vec<u32>,
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
    pub(super) fn new(trace: &Trace) -> Power {
        Power {
            durable: trace.initial.clone(),
            durable_len_bytes: trace.initial.len() as u64,
            pending: BTreeMap::new(),
            sent: HashMap::new(),
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
                let (next, pending) = (self.next, &self.pending);
                let lines = (*first..*end).filter(|line| pending.contains_key(line));
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
            self.keep(line, |_| true);
        }
    }

    /// Makes stores to a line durable. What they overwrote can come back no more.
    fn keep(&mut self, line: u32, is_certain: impl Fn(&Pending) -> bool) {
        let Some(pending) = self.pending.get_mut(&line) else {
            return;
        };
        let mut words = words_at(&self.durable, line);
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
        let at = line as usize * LINE_BYTES;
        self.durable[at..at + LINE_BYTES].copy_from_slice(&bytes_of(&words));
        self.changed.push(line);
    }

    /// Whether a flush by this thread would send something on its way that it has not sent before.
    pub(super) fn would_flush(&self, thread: u32, line: u32) -> bool {
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
    pub(super) fn any_version(&self, line: u32, random: &mut Random) -> Words {
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

    fn stores(&self, line: u32) -> &[Pending] {
        self.pending.get(&line).map_or(&[], Vec::as_slice)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::Durability;

    const THREAD: u32 = 0;

    fn power() -> Power {
        Power::new(&Trace {
            durability: Durability::CacheLine,
            initial: vec![0; 2 * LINE_BYTES],
            events: Vec::new(),
        })
    }

    /// Words 0 and on of line 0 get these values.
    fn store(order: Order, words: &[(usize, u64)]) -> Store {
        let mut store = Store {
            line: 0,
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
        let versions = power.versions(0, 100).unwrap();
        let mut firsts: Vec<_> = versions.iter().map(|words| (words[0], words[1])).collect();
        firsts.sort_unstable();
        let mut random = Random::new(1);
        for _ in 0..100 {
            assert!(versions.contains(&power.any_version(0, &mut random)));
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
        assert!(power.versions(0, 3).is_none());
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
        let flush = |thread| Event::Flush {
            thread,
            first: 0,
            end: 1,
        };
        power.apply(&Event::Store(store(Order::Program, &[(0, 1)])));
        assert!(power.would_flush(THREAD, 0) && !power.would_flush(THREAD, 1));
        power.apply(&flush(THREAD));
        assert!(!power.would_flush(THREAD, 0) && power.would_flush(THREAD + 1, 0));
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
        assert!(!power.would_flush(THREAD, 0), "streamed");
        power.apply(&Event::Store(store(Order::Program, &[(0, 1)])));
        assert!(power.would_flush(THREAD, 0));
        power.apply(&Event::Flush {
            thread: THREAD + 1,
            first: 0,
            end: 1,
        });
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
}
