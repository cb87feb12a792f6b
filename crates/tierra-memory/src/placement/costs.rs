//! The extra cost of far memory over near, and the cost of copying: these turn uses into nanoseconds.
//!
//! Measured where the data lies, by reading some of it, so that pages, caches and other readers count as they
//! do for queries; or taken from what is emulated. It takes a few milliseconds and writes nothing.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use crate::LINE_BYTES;
use crate::emulation::FarMemory;
use crate::topology::SocketId;

/// Nanoseconds for a line of 64 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// What a far line costs more than a near one if lines are read in order.
    pub streamed_ns: f64,
    /// And if each is looked up.
    pub looked_up_ns: f64,
    /// Reading a far line and writing it near.
    pub copied_ns: f64,
}

/// Nanoseconds that reading a line takes, one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineTimes {
    /// One after the other.
    pub in_order_ns: f64,
    /// Its address known only once the line before is there.
    pub alone_ns: f64,
    /// A line in order at full bandwidth, while so many threads read that more would read no faster; 0: no limit is known.
    pub shared_ns: f64,
}

/// Lookups that are taken to wait together: groups have dozens, statements for one key have one.
const OVERLAP: f64 = 4.0;
/// Lines read in order, and each alone.
const IN_ORDER_LINES: usize = 1 << 17;
const ALONE_LINES: usize = 1 << 12;
/// Lines read sequentially at a time.
const RUN_LINES: usize = 1 << 6;

impl LineTimes {
    /// Of memory of which nothing is known.
    pub const USUAL: LineTimes = LineTimes {
        in_order_ns: 5.0,
        alone_ns: 100.0,
        shared_ns: 0.0,
    };

    /// Of one of many lookups, which wait together.
    pub fn looked_up_ns(self) -> f64 {
        self.alone_ns / OVERLAP
    }

    /// Of one of so many threads that read at the same time: what one takes alone, or its turn at the bandwidth that they share.
    #[must_use]
    pub fn loaded(self, readers: usize) -> LineTimes {
        let turn_ns = self.shared_ns * readers as f64;
        LineTimes {
            in_order_ns: self.in_order_ns.max(turn_ns),
            // Lines of lookups that wait together have a turn each.
            alone_ns: self.alone_ns.max(turn_ns * OVERLAP),
            ..self
        }
    }

    /// Of reading some of `pieces` in one thread; `None` if they have too few lines.
    pub fn measure(pieces: &[&[u8]]) -> Option<LineTimes> {
        let pieces = with_lines(pieces);
        if pieces.is_empty() {
            return None;
        }
        let (in_order_ns, mut sum) = read_in_order(&pieces, 1);
        let mut seed = 2;
        let began = Instant::now();
        for _ in 0..ALONE_LINES {
            // Where the next line is depends on what this one has.
            seed = mixed(seed ^ (sum & 1));
            let piece = pieces[seed as usize % pieces.len()];
            let line = (seed >> 32) as usize % (piece.len() / LINE_BYTES);
            sum = sum.wrapping_add(u64::from(piece[line * LINE_BYTES]));
        }
        let alone_ns = began.elapsed().as_nanos() as f64 / ALONE_LINES as f64;
        black_box(sum);
        Some(LineTimes {
            in_order_ns,
            alone_ns,
            shared_ns: 0.0,
        })
    }

    /// The same with what a line takes at full bandwidth, of so many threads that read some of `pieces`.
    #[must_use]
    pub fn shared_by(self, pieces: &[&[u8]], threads: usize) -> LineTimes {
        let pieces = with_lines(pieces);
        if pieces.is_empty() {
            return self;
        }
        let pieces = &pieces;
        let lines_per_ns = thread::scope(|scope| {
            let read = |seed| scope.spawn(move || 1.0 / read_in_order(pieces, seed).0);
            let readers: Vec<_> = (1..=threads.max(1) as u64).map(read).collect();
            let rates = readers.into_iter().map(|reader| reader.join());
            // A thread that panicked has read nothing.
            rates.map(|rate| rate.unwrap_or(0.0)).sum::<f64>()
        });
        LineTimes {
            shared_ns: 1.0 / lines_per_ns,
            ..self
        }
    }

    /// The mean of some; `None` of none.
    pub fn mean(all: &[LineTimes]) -> Option<LineTimes> {
        let mean = |of: fn(&LineTimes) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
        (!all.is_empty()).then(|| LineTimes {
            in_order_ns: mean(|times| times.in_order_ns),
            alone_ns: mean(|times| times.alone_ns),
            shared_ns: mean(|times| times.shared_ns),
        })
    }

    /// At least what emulated far memory takes, for a thread of the first socket. One thread may have all its bandwidth.
    #[must_use]
    pub fn emulated(self, far: &FarMemory) -> LineTimes {
        let far = far.as_seen_from(SocketId(0));
        let line_ns = LINE_BYTES as f64 / far.sequential_read_gb_per_s;
        LineTimes {
            in_order_ns: self.in_order_ns.max(line_ns),
            alone_ns: self.alone_ns.max(far.latency_ns),
            shared_ns: self.shared_ns.max(line_ns),
        }
    }
}

impl Costs {
    /// Of far memory over near.
    pub fn of(far: LineTimes, near: LineTimes) -> Costs {
        Costs {
            streamed_ns: (far.in_order_ns - near.in_order_ns).max(0.0),
            looked_up_ns: (far.looked_up_ns() - near.looked_up_ns()).max(0.0),
            copied_ns: far.in_order_ns + near.in_order_ns,
        }
    }
}

/// The whole lines.
fn lines_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() / LINE_BYTES * LINE_BYTES]
}

/// Those that have enough lines to be read, without what follows the last whole one.
fn with_lines<'a>(pieces: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let pieces = pieces.iter().map(|piece| lines_of(piece));
    let has_lines = |piece: &&[u8]| piece.len() >= RUN_LINES * LINE_BYTES;
    pieces.filter(has_lines).collect()
}

/// Reads runs of lines here and there; returns the nanoseconds of a line, and the sum of what was read.
fn read_in_order(pieces: &[&[u8]], mut seed: u64) -> (f64, u64) {
    let mut sum = 0;
    let began = Instant::now();
    for _ in 0..IN_ORDER_LINES / RUN_LINES {
        seed = mixed(seed);
        let piece = pieces[seed as usize % pieces.len()];
        let runs = piece.len() / (RUN_LINES * LINE_BYTES);
        let first = (seed >> 32) as usize % runs * RUN_LINES * LINE_BYTES;
        let run = &piece[first..first + RUN_LINES * LINE_BYTES];
        sum += run.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
    let taken_ns = began.elapsed().as_nanos() as f64;
    (taken_ns / IN_ORDER_LINES as f64, black_box(sum))
}

/// The last steps of SplitMix64 (Steele, Lea, Flood 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_lines_tells_nothing_and_others_take_some_time() {
        assert_eq!(LineTimes::measure(&[]), None);
        assert_eq!(LineTimes::measure(&[&[7; 1000]]), None);
        let bytes = vec![7; 1 << 20];
        let near = LineTimes::measure(&[&bytes, &bytes[..100], &bytes[5..]]).unwrap();
        assert!(near.in_order_ns > 0.0 && near.alone_ns > 0.0, "{near:?}");
        assert_eq!(near.shared_ns, 0.0);
        assert_eq!(near.shared_by(&[], 2), near);
        let shared = near.shared_by(&[&bytes], 2);
        assert!(shared.shared_ns > 0.0 && shared.shared_ns.is_finite());
    }

    #[test]
    fn the_mean_of_none_is_none() {
        assert_eq!(LineTimes::mean(&[]), None);
        let twice = LineTimes {
            in_order_ns: 10.0,
            alone_ns: 300.0,
            shared_ns: 2.0,
        };
        let mean = LineTimes::mean(&[LineTimes::USUAL, twice]).unwrap();
        let expected = LineTimes {
            in_order_ns: 7.5,
            alone_ns: 200.0,
            shared_ns: 1.0,
        };
        assert_eq!(mean, expected);
    }

    #[test]
    fn readers_wait_for_their_turn_once_they_are_many() {
        let times = LineTimes {
            in_order_ns: 5.0,
            alone_ns: 100.0,
            shared_ns: 2.0,
        };
        let loaded = |readers| times.loaded(readers);
        assert_eq!([0, 1, 2].map(loaded), [times; 3]);
        let many = loaded(20);
        assert_eq!((many.in_order_ns, many.alone_ns), (40.0, 160.0));
        assert_eq!(LineTimes::USUAL.loaded(1000), LineTimes::USUAL);
    }

    #[test]
    fn costs_are_what_far_memory_takes_longer() {
        let near = LineTimes::USUAL;
        let optane = FarMemory::OPTANE.whole();
        let costs = Costs::of(near.emulated(&optane), near);
        assert_eq!((costs.streamed_ns, costs.looked_up_ns), (0.0, 50.0));
        assert_eq!(costs.copied_ns, 10.0);
        assert_eq!(near.emulated(&optane).loaded(9).in_order_ns, 16.0);
        let slow = FarMemory {
            sequential_read_gb_per_s: 4.0,
            ..optane
        };
        let costs = Costs::of(near.emulated(&slow), near);
        assert_eq!((costs.streamed_ns, costs.copied_ns), (11.0, 21.0));
        assert_eq!(Costs::of(near, near.emulated(&slow)).streamed_ns, 0.0);
    }
}
