//! Which objects should have near copies, decided over all objects at once.
//!
//! For objects that are few enough to be compared together: a column's chunk has a megabyte, a terabyte a million of them.
//! (Records are a thousand times as many, and are decided one by one as they are used: [`Rounds`](super::Rounds).) Objects
//! that would save most per byte are promoted, and those that save least are demoted to make room. An exchange has to pay: the
//! promoted object must be expected to save more than the demoted ones together, by the cost of its copy, counted twice, and the
//! confidence margin.
//!
//! **Lately and just now.** The expected saving of an object is what it saved *lately*, in half a minute: long enough to tell apart
//! objects that are read once a second. When the hot set moves, this alone would be too long: the old set is ahead until it has
//! faded and the new one has gathered as much. So the expected saving is at most three times what the object would save if it
//! went on as *just now*, in a second and a half. Three times, because queries come in bunches, which a moment may miss. The limit
//! is higher within the confidence margin: many uses a second followed by none are significant, but an object scanned once a
//! second is missing from a moment now and then. An object that heats up gets no such allowance: it has to earn its copy
//! first, which a scan or two do not.
//!
//! **Cooldown.** Of two sets that are read alternately, for some seconds each, the set promoted is always the wrong one. So a
//! demoted object returns after a quarter of a minute, or if there is free room; other sets do not wait. Phases as short as a
//! moment move nothing.
//!
//! Invariant: promoted objects fit into what is free plus what is demoted; preferences to be near, or never near, are kept; if all
//! objects are used alike nothing moves.

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
    /// Whether it was asked to be near as long as there is room (`true`), or never (`false`).
    pub preference: Option<bool>,
}

/// An object to promote, and those to demote for it: indexes of candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// To be promoted.
    pub near: usize,
    /// To be demoted first.
    pub far: Vec<usize>,
}

/// A copy has to save this many times what it costs, lately. Two scans that meet a round differently are one use apart.
const MIN_PAYBACK: f64 = 2.0;
/// And it has to be as many standard deviations ahead of what is demoted for it, if uses come by chance: of many objects that are
/// used alike, the luckiest is some ahead of the unluckiest.
const CONFIDENCE_DEVIATIONS: f64 = 4.0;
/// An object that saves less just now than one part in as many of what it saved lately has cooled down.
const COOLING_FACTOR: f64 = 3.0;
/// After as many candidates that do not pay, colder ones do not either.
const MAX_REJECTED: usize = 64;

/// The exchanges that pay, the best first, where `free_bytes` are free.
pub fn exchanges(candidates: &[Candidate], free_bytes: u64, costs: &Costs) -> Vec<Exchange> {
    let expected_ns: Vec<f64> = candidates
        .iter()
        .map(|one| expected_ns(one, costs))
        .collect();
    let per_byte = |at: &usize| expected_ns[*at] / candidates[*at].bytes.max(1) as f64;
    let copy_ns = |of: &Candidate| lines(of) * costs.copied_ns * MIN_PAYBACK;
    let wants = |at: &usize| match (candidates[*at].is_near, candidates[*at].preference) {
        (true, _) | (_, Some(false)) => false,
        (_, Some(true)) => true,
        (_, None) => expected_ns[*at] > 0.0 && expected_ns[*at] >= copy_ns(&candidates[*at]),
    };
    let places = 0..candidates.len();
    let mut to_promote: Vec<usize> = places.clone().filter(wants).collect();
    if to_promote.is_empty() {
        return Vec::new();
    }
    let is_pinned = |at: usize| candidates[at].preference == Some(true);
    to_promote.sort_by(|a, b| {
        let hotter = per_byte(b).total_cmp(&per_byte(a));
        is_pinned(*b).cmp(&is_pinned(*a)).then(hotter)
    });
    let mut to_demote: Vec<usize> = places
        .filter(|at| candidates[*at].is_near && !is_pinned(*at))
        .collect();
    to_demote.sort_by(|a, b| per_byte(a).total_cmp(&per_byte(b)));
    let (mut exchanges, mut to_demote, mut free_bytes) = (Vec::new(), &to_demote[..], free_bytes);
    let mut rejected = 0;
    for at in to_promote {
        let candidate = &candidates[at];
        let (mut room, mut lost_ns, mut count) = (free_bytes, 0.0, 0);
        while room < candidate.bytes && count < to_demote.len() {
            let demoted = &candidates[to_demote[count]];
            (room, lost_ns, count) = (
                room + demoted.bytes,
                lost_ns + expected_ns[to_demote[count]],
                count + 1,
            );
        }
        let displaces_others = count > 0 && !is_pinned(at);
        if displaces_others && candidate.saved.is_cooling_down {
            continue;
        }
        let use_ns = scan_ns(candidate, costs).max(sample_ns(costs));
        // The variance of a sum of uses whose weights fall exponentially is half the sum times one of them.
        let margin_ns = CONFIDENCE_DEVIATIONS * ((expected_ns[at] + lost_ns) / 2.0 * use_ns).sqrt();
        let is_ahead = expected_ns[at] - lost_ns >= copy_ns(candidate) + margin_ns;
        if room < candidate.bytes || displaces_others && !is_ahead {
            rejected += 1;
            if rejected == MAX_REJECTED {
                break;
            }
            continue;
        }
        let (far, left) = to_demote.split_at(count);
        (to_demote, free_bytes) = (left, room - candidate.bytes);
        exchanges.push(Exchange {
            near: at,
            far: far.to_vec(),
        });
    }
    exchanges
}

/// The expected saving in the next half minute: as much as lately, if what was saved just now makes that plausible.
fn expected_ns(of: &Candidate, costs: &Costs) -> f64 {
    let (saved, recent_saving_ns) = (&of.saved, of.saved.recent_saving_ns());
    if recent_saving_ns == 0.0 {
        return 0.0;
    }
    let by_both = saved.in_order_ns * scan_ns(of, costs) + saved.alone_ns * sample_ns(costs);
    // The highest sum `s` for which this is within the margin: `s - CONFIDENCE_DEVIATIONS * sqrt(s / 2 * use)`, solved for
    // its root.
    let margin = CONFIDENCE_DEVIATIONS * CONFIDENCE_DEVIATIONS / 2.0 * by_both / recent_saving_ns;
    let root = (margin.sqrt() + (margin + 4.0 * saved.just_now_ns).sqrt()) / 2.0;
    let most_ns = (root * root).max(COOLING_FACTOR * saved.just_now_ns);
    recent_saving_ns.min(most_ns * MOMENTS)
}

/// What one scan of the whole object saves.
fn scan_ns(of: &Candidate, costs: &Costs) -> f64 {
    lines(of) * costs.streamed_ns
}

/// What the lookups that one sample stands for save.
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
    fn object(saved_ns: f64, is_near: bool, preference: Option<bool>) -> Candidate {
        Candidate {
            bytes: 64_000,
            saved: Saved {
                in_order_ns: saved_ns,
                alone_ns: 0.0,
                just_now_ns: saved_ns / MOMENTS,
                is_cooling_down: false,
            },
            is_near,
            preference,
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
        // A copy costs 40,000 twice over, and the margin 4 times the root of half a scan times all of them.
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
    fn preferences_are_kept() {
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
    fn an_object_read_no_more_keeps_what_chance_may_have_missed() {
        let expected = |in_order_ns, just_now_ns| {
            let mut object = object(in_order_ns, true, None);
            object.saved.just_now_ns = just_now_ns;
            expected_ns(&object, &COSTS)
        };
        // As ever, or more, or a third.
        for just_now_ns in [1e9 / MOMENTS, 1e9, 1e9 / MOMENTS / COOLING_FACTOR] {
            assert_eq!(expected(1e9, just_now_ns).round(), 1e9);
        }
        assert_eq!(expected(1e9, 1e7), 3e7 * MOMENTS);
        // Of scans that save 10,000 chance may miss eight: four standard deviations, the root of half of the eight.
        assert_eq!(expected(1e9, 0.0).round(), 80_000.0 * MOMENTS);
        assert_eq!(expected(700_000.0, 0.0), 700_000.0);
        let (few, scan) = (expected(1e9, 50_000.0) / MOMENTS, 10_000.0);
        assert!((few - CONFIDENCE_DEVIATIONS * (few / 2.0 * scan).sqrt() - 50_000.0).abs() < 1.0);
        // Of lookups far less, which are counted by the 64.
        let mut looked_up = object(0.0, true, None);
        looked_up.saved.alone_ns = 1e9;
        assert_eq!(
            expected_ns(&looked_up, &COSTS).round(),
            8.0 * 6400.0 * MOMENTS
        );
    }

    #[test]
    fn a_demoted_object_cools_down_unless_there_is_room() {
        let mut objects = [object(0.0, true, None), object(1e9, false, None)];
        objects[1].saved.is_cooling_down = true;
        assert_eq!(exchanges(&objects, 0, &COSTS), []);
        assert_eq!(exchanges(&objects, 64_000, &COSTS), [near(1, &[])]);
        objects[1].preference = Some(true);
        assert_eq!(exchanges(&objects, 0, &COSTS), [near(1, &[0])]);
        // However many rest, others come.
        objects[1].preference = None;
        let mut many = vec![objects[1]; 2 * MAX_REJECTED];
        many.extend([object(0.0, true, None), object(1e8, false, None)]);
        let expected = [near(2 * MAX_REJECTED + 1, &[2 * MAX_REJECTED])];
        assert_eq!(exchanges(&many, 0, &COSTS), expected);
    }
}
