//! Which objects should have the near memory that there is, all of them being known.
//!
//! For objects that are few enough to be looked at together: a column's chunk has a megabyte, a terabyte a million of them.
//! (Records are a thousand times as many, and are judged one by one as they are used: [`Rounds`](super::Rounds).) Those
//! that would save most per byte come near, those that save least go, but only as far as it pays: the copy must have paid for
//! itself by what it saved lately more than what goes for it, and more than luck explains.
//!
//! **Lately and just now.** An object is taken to save what it saved *lately*, in half a minute: long enough to tell apart what is read
//! once a second. When the hot set moves, this alone would be too long: the old set is ahead until it has faded and the new one
//! has gathered as much. So an object is worth no more than three times what it would save if it went on as *just now*, in a
//! second and a half. Three times, because queries come in bunches, which a moment may miss; and more as far as luck goes: many
//! uses a second and then none are no luck, but what is scanned once a second is missing from a moment now and then, and can only
//! fade. What heats up gets no such help: it has to earn its copy first, which a scan or two do not.
//!
//! **Rest.** Of two sets that are read in turn, for some seconds each, the one that follows is always late. So what went comes back
//! after a quarter of a minute, or where there is free room; other sets do not wait. Turns as short as a moment move nothing.
//!
//! Invariant: what comes fits into what is free and what goes; what was asked to be near, or never, is; where all are used
//! alike nothing moves.

use super::costs::Costs;
use super::uses::{MOMENTS, SAMPLED, Saved};
use crate::LINE_BYTES;

/// One of the objects that compete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Bytes that its copy takes.
    pub bytes: u64,
    /// What a near copy saves, or would ([`Uses::settle`](super::Uses::settle)).
    pub saved: Saved,
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
/// What saves less just now than one part in so many of what it saved lately has cooled down.
const COOLER: f64 = 3.0;
/// After so many that do not pay, colder ones do not either.
const TRIES: usize = 64;

/// The exchanges that pay, the best first, where `free_bytes` are free.
pub fn exchanges(candidates: &[Candidate], free_bytes: u64, costs: &Costs) -> Vec<Exchange> {
    let worth_ns: Vec<f64> = candidates.iter().map(|one| worth_ns(one, costs)).collect();
    let per_byte = |at: &usize| worth_ns[*at] / candidates[*at].bytes.max(1) as f64;
    let copy_ns = |of: &Candidate| lines(of) * costs.copied_ns * PAYS;
    let wants = |at: &usize| match (candidates[*at].is_near, candidates[*at].wish) {
        (true, _) | (_, Some(false)) => false,
        (_, Some(true)) => true,
        (_, None) => worth_ns[*at] > 0.0 && worth_ns[*at] >= copy_ns(&candidates[*at]),
    };
    let places = 0..candidates.len();
    let mut come: Vec<usize> = places.clone().filter(wants).collect();
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
            (room, lost_ns, count) = (room + goes.bytes, lost_ns + worth_ns[go[count]], count + 1);
        }
        let is_pushed_in = count > 0 && !is_asked_for(at);
        if is_pushed_in && comes.saved.rests {
            continue;
        }
        let use_ns = scan_ns(comes, costs).max(sample_ns(costs));
        // The variance of a sum of uses whose weights fall exponentially is half the sum times one of them.
        let luck_ns = LUCK * ((worth_ns[at] + lost_ns) / 2.0 * use_ns).sqrt();
        let is_ahead = worth_ns[at] - lost_ns >= copy_ns(comes) + luck_ns;
        if room < comes.bytes || is_pushed_in && !is_ahead {
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

/// What it will have saved in another half minute: as much as lately, if what was saved just now makes that possible.
fn worth_ns(of: &Candidate, costs: &Costs) -> f64 {
    let (saved, lately_ns) = (&of.saved, of.saved.lately_ns());
    if lately_ns == 0.0 {
        return 0.0;
    }
    let by_both = saved.in_order_ns * scan_ns(of, costs) + saved.alone_ns * sample_ns(costs);
    // The highest sum `s` that luck makes as little as this: `s - LUCK * sqrt(s / 2 * use)`, solved for its root.
    let luck = LUCK * LUCK / 2.0 * by_both / lately_ns;
    let root = (luck.sqrt() + (luck + 4.0 * saved.just_now_ns).sqrt()) / 2.0;
    let most_ns = (root * root).max(COOLER * saved.just_now_ns);
    lately_ns.min(most_ns * MOMENTS)
}

/// What one scan of all of it saves.
fn scan_ns(of: &Candidate, costs: &Costs) -> f64 {
    lines(of) * costs.streamed_ns
}

/// What those lookups save that are counted as one.
fn sample_ns(costs: &Costs) -> f64 {
    SAMPLED as f64 * costs.looked_up_ns
}

fn lines(of: &Candidate) -> f64 {
    of.bytes as f64 / LINE_BYTES as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scan of an object saves 10,000.
    const COSTS: Costs = Costs {
        streamed_ns: 10.0,
        looked_up_ns: 100.0,
        copied_ns: 20.0,
    };

    /// A thousand lines, which are read as ever.
    fn object(saved_ns: f64, is_near: bool, wish: Option<bool>) -> Candidate {
        Candidate {
            bytes: 64_000,
            saved: Saved {
                in_order_ns: saved_ns,
                alone_ns: 0.0,
                just_now_ns: saved_ns / MOMENTS,
                rests: false,
            },
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

    #[test]
    fn what_is_read_no_more_is_worth_what_luck_may_have_missed() {
        let worth = |in_order_ns, just_now_ns| {
            let mut object = object(in_order_ns, true, None);
            object.saved.just_now_ns = just_now_ns;
            worth_ns(&object, &COSTS)
        };
        // As ever, or more, or a third.
        for just_now_ns in [1e9 / MOMENTS, 1e9, 1e9 / MOMENTS / COOLER] {
            assert_eq!(worth(1e9, just_now_ns).round(), 1e9);
        }
        assert_eq!(worth(1e9, 1e7), 3e7 * MOMENTS);
        // Of scans that save 10,000 luck may miss eight: four standard deviations, the root of half of the eight.
        assert_eq!(worth(1e9, 0.0).round(), 80_000.0 * MOMENTS);
        assert_eq!(worth(700_000.0, 0.0), 700_000.0);
        let (few, scan) = (worth(1e9, 50_000.0) / MOMENTS, 10_000.0);
        assert!((few - LUCK * (few / 2.0 * scan).sqrt() - 50_000.0).abs() < 1.0);
        // Of lookups far less, which are counted by the 64.
        let mut looked_up = object(0.0, true, None);
        looked_up.saved.alone_ns = 1e9;
        assert_eq!(worth_ns(&looked_up, &COSTS).round(), 8.0 * 6400.0 * MOMENTS);
    }

    #[test]
    fn what_went_rests_unless_there_is_room() {
        let mut objects = [object(0.0, true, None), object(1e9, false, None)];
        objects[1].saved.rests = true;
        assert_eq!(exchanges(&objects, 0, &COSTS), []);
        assert_eq!(exchanges(&objects, 64_000, &COSTS), [near(1, &[])]);
        objects[1].wish = Some(true);
        assert_eq!(exchanges(&objects, 0, &COSTS), [near(1, &[0])]);
        // However many rest, others come.
        objects[1].wish = None;
        let mut many = vec![objects[1]; 2 * TRIES];
        many.extend([object(0.0, true, None), object(1e8, false, None)]);
        let expected = [near(2 * TRIES + 1, &[2 * TRIES])];
        assert_eq!(exchanges(&many, 0, &COSTS), expected);
    }
}
