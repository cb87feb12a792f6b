//! What exchanges promise over time: a hot set is followed and stays, and nothing else moves. A round takes a simulated second.

use std::time::Duration;

use crate::LINE_BYTES;
use crate::placement::{Candidate, Costs, Uses, exchanges};
use crate::random::Random;

/// About what emulated Optane has.
const COSTS: Costs = Costs {
    streamed_ns: 5.0,
    looked_up_ns: 50.0,
    copied_ns: 14.0,
};
const LINES: u64 = 1 << 17;
const BYTES: u64 = LINES * LINE_BYTES as u64;
/// Lookups of an object in a second, if they find it near; far they take twice as long, and there are half as many.
const LOOK_UPS: u64 = 700_000;

/// Objects of a chunk's size, of which the first ones are near.
struct Rounds {
    uses: Vec<Uses>,
    near: Vec<bool>,
    random: Random,
}

impl Rounds {
    fn new(objects: usize, near: usize) -> Self {
        Self {
            uses: (0..objects).map(|_| Uses::default()).collect(),
            near: (0..objects).map(|at| at < near).collect(),
            random: Random::new(5),
        }
    }

    fn look_up(&self, objects: impl IntoIterator<Item = usize>, seconds: f64) {
        for at in objects {
            let count = LOOK_UPS as f64 * seconds * if self.near[at] { 1.0 } else { 0.5 };
            self.uses[at].looked_up(count as u64);
        }
    }

    /// All of an object is scanned by chance, so often on average.
    fn scan(&mut self, at: usize, mean: f64) {
        // A sum of many rare events is Poisson's.
        const TRIALS: u64 = 200;
        let threshold = (mean / TRIALS as f64 * (1 << 20) as f64) as u64;
        let trial = |_: &u64| self.random.next() % (1 << 20) < threshold;
        let scans = (0..TRIALS).filter(trial).count() as u64;
        (scans > 0).then(|| self.uses[at].streamed(scans * BYTES));
    }

    /// How many came near.
    fn end_second(&mut self) -> usize {
        let candidates = self.uses.iter().zip(&self.near);
        let candidates = candidates.map(|(uses, is_near)| Candidate {
            bytes: BYTES,
            saved: uses.settle(Duration::from_secs(1), &COSTS),
            is_near: *is_near,
            preference: None,
        });
        let candidates: Vec<_> = candidates.collect();
        let exchanges = exchanges(&candidates, 0, &COSTS);
        for exchange in &exchanges {
            self.near[exchange.near] = true;
            for at in &exchange.far {
                self.near[*at] = false;
                self.uses[*at].start_cooldown();
            }
        }
        let near = |near: &[bool]| near.iter().filter(|is_near| **is_near).count();
        assert_eq!(
            near(&self.near),
            candidates.iter().filter(|one| one.is_near).count()
        );
        exchanges.len()
    }

    fn are_near(&self, mut objects: impl Iterator<Item = usize>) -> bool {
        objects.all(|at| self.near[at])
    }
}

#[test]
fn a_hot_set_that_is_looked_up_is_followed_within_eight_seconds_and_stays() {
    // However long the one before was hot.
    for hot_s in [20, 31, 120, 1000] {
        let mut rounds = Rounds::new(20, 5);
        for first in [8, 12, 16, 4] {
            let hot = || first..first + 4;
            let mut followed_s = None;
            for second in 1..=hot_s {
                rounds.look_up(hot(), 1.0);
                let moved = rounds.end_second();
                assert!(followed_s.is_none() || moved == 0, "{moved} in {second} s");
                followed_s = followed_s.or(rounds.are_near(hot()).then_some(second));
            }
            assert!(followed_s.is_some_and(|s| s <= 8), "{followed_s:?}");
        }
    }
}

#[test]
fn a_hot_set_that_is_scanned_is_followed_the_sooner_the_more_it_is_scanned() {
    for (scans, within_s) in [(50.0, 10), (20.0, 20), (2.0, 60)] {
        let mut rounds = Rounds::new(100, 25);
        for first in [40, 70] {
            let hot = || first..first + 20;
            let mut moved = Vec::new();
            for _ in 0..within_s + 60 {
                hot().for_each(|at| rounds.scan(at, scans));
                moved.push(rounds.end_second());
            }
            assert!(rounds.are_near(hot()));
            let late = moved[within_s..].iter().sum::<usize>();
            assert_eq!(late, 0, "{scans} a second: {moved:?}");
            assert!(moved.iter().sum::<usize>() <= 25, "{moved:?}");
        }
    }
}

#[test]
fn a_steady_mix_does_not_go_on_moving() {
    let alike = |_: usize| 1.0;
    // Zipf's, in an order that has nothing to do with what is near at first.
    let skewed = |at: usize| 20.0 / (1 + at * 37 % 100) as f64;
    let mixes: [&dyn Fn(usize) -> f64; 2] = [&alike, &skewed];
    for mix in mixes {
        for scans in [0.1, 0.5, 3.5, 10.0] {
            let (mut rounds, mut moved) = (Rounds::new(100, 25), Vec::new());
            for _ in 0..300 {
                (0..100).for_each(|at| rounds.scan(at, scans * mix(at)));
                moved.push(rounds.end_second());
            }
            assert!(moved.iter().sum::<usize>() <= 25, "{scans}: {moved:?}");
            let late = moved[100..].iter().sum::<usize>();
            assert!(late <= 5, "{scans}: {moved:?}");
        }
    }
}

#[test]
fn queries_that_come_at_random_do_not_chase_each_other() {
    // Each of five sets is looked up by two queries a second, all of its objects by each, so that its luck is theirs.
    let (mut rounds, mut moved) = (Rounds::new(20, 4), 0);
    for _ in 0..2000 {
        for query in 0..100 {
            let first = query % 5 * 4;
            if rounds.random.next() % 10 == 0 {
                (first..first + 4).for_each(|at| rounds.uses[at].looked_up(100_000));
            }
        }
        moved += rounds.end_second();
    }
    // Some do: of what was saved in half a minute, 300 ms, a copy costs 2.
    assert!(moved <= 150, "{moved}");
}

#[test]
fn sets_that_are_read_in_turn_do_not_chase_each_other() {
    for turn_tenths in [1, 3, 10, 15, 20, 30, 40, 50, 60, 80, 100, 150, 200, 300] {
        const SECONDS: usize = 600;
        let (mut rounds, mut moved, mut near) = (Rounds::new(8, 4), 0, 0);
        for tenth in 0..SECONDS * 10 {
            let first = tenth / turn_tenths % 2 * 4;
            rounds.look_up(first..first + 4, 0.1);
            near += usize::from(rounds.near[first]);
            if tenth % 10 == 9 {
                moved += rounds.end_second();
            }
        }
        let percent = near * 100 / (SECONDS * 10);
        let what = format!("{turn_tenths} tenths: {percent} % near, {moved} moves");
        match turn_tenths {
            ..=30 => assert_eq!((percent, moved), (50, 0), "{what}"),
            // They rest for a quarter of a minute; half of the time is near if nothing moves.
            31..200 => assert!(percent >= 33 && moved <= 4 * SECONDS / 15, "{what}"),
            _ => assert!(percent >= 70, "{what}"),
        }
    }
}

#[test]
fn scans_of_everything_do_not_push_out_what_is_read_now_and_then() {
    let mut rounds = Rounds::new(100, 4);
    for second in 0..200 {
        match second {
            // What is hot waits meanwhile.
            150..158 => {
                let scanned = 4 + (second - 150) * 12..4 + (second - 149) * 12;
                scanned.for_each(|at| rounds.uses[at].streamed(3 * BYTES));
            }
            _ if second % 2 == 0 => (0..4).for_each(|at| rounds.uses[at].streamed(BYTES)),
            _ => {}
        }
        assert_eq!(rounds.end_second(), 0, "in second {second}");
    }
}
