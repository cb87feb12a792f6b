//! Which objects should have the near memory that there is, all of them being known.
//!
//! For objects that are few enough to be looked at together: a column's chunk has a megabyte, a terabyte a million of them.
//! (Records are a thousand times as many, and are judged one by one as they are used: [`Border`](super::Border).) Those
//! that would save most per byte come near, those that save least go, but only as far as it pays: the copy must have paid for
//! itself by what it saved lately more than what goes for it, and more than luck explains.
//!
//! Invariant: what comes fits into what is free and what goes; what was asked to be near, or never, is; where all are used
//! alike nothing moves.

use super::costs::Costs;
use super::uses::SAMPLED;
use crate::LINE_BYTES;

/// One of the objects that compete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Bytes that its copy takes.
    pub bytes: u64,
    /// What a near copy saves, or would ([`Uses::saved_ns`](super::Uses::saved_ns)).
    pub saved_ns: f64,
    /// Whether it has one.
    pub is_near: bool,
    /// Whether somebody asked for it to be near as long as there is room, or never.
    pub wish: Option<bool>,
}

/// What comes near, and what goes for it: places among the candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Comes.
    pub near: usize,
    /// Go first.
    pub far: Vec<usize>,
}

/// A copy has to save this many times what it costs, lately. Two scans that meet a round differently are one use apart.
const PAYS: f64 = 2.0;
/// And it has to be so many standard deviations ahead of what goes for it, if uses come by chance: of many that are used
/// alike, the luckiest is some ahead of the unluckiest.
const LUCK: f64 = 4.0;
/// After so many that do not pay, colder ones do not either.
const TRIES: usize = 64;

/// The exchanges that pay, the best first, where `free_bytes` are free.
pub fn exchanges(candidates: &[Candidate], free_bytes: u64, costs: &Costs) -> Vec<Exchange> {
    let per_byte = |at: &usize| candidates[*at].saved_ns / candidates[*at].bytes.max(1) as f64;
    let copy_ns = |of: &Candidate| of.bytes as f64 / LINE_BYTES as f64 * costs.copied_ns * PAYS;
    let wants = |of: &Candidate| match (of.is_near, of.wish) {
        (true, _) | (_, Some(false)) => false,
        (_, Some(true)) => true,
        (_, None) => of.saved_ns > 0.0 && of.saved_ns >= copy_ns(of),
    };
    let places = 0..candidates.len();
    let mut come: Vec<usize> = places
        .clone()
        .filter(|at| wants(&candidates[*at]))
        .collect();
    if come.is_empty() {
        return Vec::new();
    }
    let is_asked_for = |at: usize| candidates[at].wish == Some(true);
    come.sort_by(|a, b| {
        let hotter = per_byte(b).total_cmp(&per_byte(a));
        is_asked_for(*b).cmp(&is_asked_for(*a)).then(hotter)
    });
    let mut go: Vec<usize> = places
        .filter(|at| candidates[*at].is_near && !is_asked_for(*at))
        .collect();
    go.sort_by(|a, b| per_byte(a).total_cmp(&per_byte(b)));
    let (mut exchanges, mut go, mut free_bytes) = (Vec::new(), &go[..], free_bytes);
    let mut tries = 0;
    for at in come {
        let comes = &candidates[at];
        let (mut room, mut lost_ns, mut count) = (free_bytes, 0.0, 0);
        while room < comes.bytes && count < go.len() {
            let goes = &candidates[go[count]];
            (room, lost_ns, count) = (room + goes.bytes, lost_ns + goes.saved_ns, count + 1);
        }
        let ahead_ns = comes.saved_ns - lost_ns;
        let pays = count == 0
            || is_asked_for(at)
            || ahead_ns >= copy_ns(comes) + luck_ns(comes, lost_ns, costs);
        if room < comes.bytes || !pays {
            tries += 1;
            if tries == TRIES {
                break;
            }
            continue;
        }
        let (far, left) = go.split_at(count);
        (go, free_bytes) = (left, room - comes.bytes);
        exchanges.push(Exchange {
            near: at,
            far: far.to_vec(),
        });
    }
    exchanges
}

/// What chance alone may have put `comes` ahead of something that saved `lost_ns`.
fn luck_ns(comes: &Candidate, lost_ns: f64, costs: &Costs) -> f64 {
    let lines = comes.bytes as f64 / LINE_BYTES as f64;
    let use_ns = (lines * costs.streamed_ns).max(SAMPLED as f64 * costs.looked_up_ns);
    // The variance of a sum of such uses whose weights fall exponentially is half the sum times one of them.
    LUCK * ((comes.saved_ns + lost_ns) / 2.0 * use_ns).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Random;

    /// A scan of an object saves 10,000.
    const COSTS: Costs = Costs {
        streamed_ns: 10.0,
        looked_up_ns: 100.0,
        copied_ns: 20.0,
    };

    /// A thousand lines.
    fn object(saved_ns: f64, is_near: bool, wish: Option<bool>) -> Candidate {
        Candidate {
            bytes: 64_000,
            saved_ns,
            is_near,
            wish,
        }
    }

    fn near(at: usize, far: &[usize]) -> Exchange {
        let far = far.to_vec();
        Exchange { near: at, far }
    }

    #[test]
    fn the_hottest_come_for_the_coldest_where_it_pays() {
        let objects = [
            object(0.0, true, None),
            object(300_000.0, false, None),
            object(10_000.0, true, None),
            object(500_000.0, false, None),
            object(290_000.0, true, None),
            object(39_000.0, false, None),
        ];
        let expected = [near(3, &[0]), near(1, &[2])];
        assert_eq!(exchanges(&objects, 0, &COSTS), expected);
        // What is free is taken first.
        let expected = [near(3, &[]), near(1, &[0])];
        assert_eq!(exchanges(&objects, 64_000, &COSTS), expected);
        // A copy costs 40,000 twice over, and luck 4 times the root of half a scan times all of them.
        let objects = [object(0.0, true, None), object(160_000.0, false, None)];
        assert_eq!(exchanges(&objects, 0, &COSTS), [near(1, &[0])]);
        let objects = [object(0.0, true, None), object(149_000.0, false, None)];
        assert_eq!(exchanges(&objects, 0, &COSTS), []);
        let objects = [object(1e9, true, None), object(1.01e9, false, None)];
        assert_eq!(exchanges(&objects, 0, &COSTS), []);
        let objects = [object(1e9, true, None), object(1.02e9, false, None)];
        assert_eq!(exchanges(&objects, 0, &COSTS), [near(1, &[0])]);
    }

    #[test]
    fn wishes_are_kept() {
        let objects = [
            object(0.0, true, Some(true)),
            object(1e9, false, Some(false)),
            object(1e6, true, None),
            object(0.0, false, Some(true)),
            object(1e9, false, None),
        ];
        assert_eq!(exchanges(&objects, 0, &COSTS), [near(3, &[2])]);
    }

    #[test]
    fn large_ones_come_for_several_and_what_does_not_fit_stays() {
        let mut objects = vec![object(1000.0, true, None); 4];
        let large = |bytes| Candidate {
            bytes,
            ..object(1e7, false, None)
        };
        objects.push(large(64_000 * 9));
        objects.push(large(64_000 * 3));
        assert_eq!(exchanges(&objects, 0, &COSTS), [near(5, &[0, 1, 2])]);
    }

    /// Rounds of uses and exchanges. How many moved in each.
    fn moves(rates: impl Fn(usize, usize) -> f64, rounds: usize) -> (Vec<usize>, Vec<Candidate>) {
        let mut random = Random::new(5);
        let mut objects: Vec<_> = (0..100).map(|at| object(0.0, at < 25, None)).collect();
        let mut moved = Vec::new();
        for round in 0..rounds {
            for (at, object) in objects.iter_mut().enumerate() {
                // Scans of all of it, some of which are not over.
                let scans = rates(round, at) + (random.next() % 1000) as f64 / 1000.0;
                object.saved_ns = object.saved_ns * 0.97 + scans.floor() * 10_000.0;
            }
            let exchanges = exchanges(&objects, 0, &COSTS);
            moved.push(exchanges.len());
            for exchange in exchanges {
                objects[exchange.near].is_near = true;
                exchange
                    .far
                    .iter()
                    .for_each(|at| objects[*at].is_near = false);
            }
            assert_eq!(objects.iter().filter(|object| object.is_near).count(), 25);
        }
        (moved, objects)
    }

    #[test]
    fn hot_ones_come_near_and_stay_and_another_hot_set_follows() {
        let hot = |round: usize, at: usize| {
            let first = if round < 100 { 40 } else { 70 };
            if (first..first + 20).contains(&at) {
                1.0
            } else {
                0.0
            }
        };
        let (moved, objects) = moves(hot, 300);
        assert!((70..90).all(|at| objects[at].is_near));
        // What fills the rest of near memory is used alike.
        assert!(moved[60..100].iter().sum::<usize>() <= 2, "{moved:?}");
        assert!(moved[240..].iter().sum::<usize>() <= 2, "{moved:?}");
        assert!(moved.iter().sum::<usize>() <= 80, "{moved:?}");
    }

    #[test]
    fn where_all_are_used_alike_nothing_goes_on_moving() {
        for rate in [0.0, 0.1, 0.3, 0.5, 3.5, 50.5] {
            let (moved, _) = moves(|_, _| rate, 300);
            assert!(moved.iter().sum::<usize>() <= 25, "{rate}: {moved:?}");
            assert!(moved[100..].iter().sum::<usize>() <= 5, "{rate}: {moved:?}");
        }
    }
}
