//! The mover's rules, played over many uses of objects that have no bytes: what comes near, and how much is moved for it.
//!
//! The holder here does what a key-value store does: it notes uses, goes around all objects as there are uses, halves heats
//! in rounds that say so, and searches for something cold where room is lacking. Uses are drawn with a printed seed.

use super::{Border, Heat, Round};
use crate::simulation::Random;

const OBJECTS: usize = 20_000;
/// Uses for each object that a round passes.
const USES_PER_OBJECT: usize = 1;
/// Objects searched for something cold before a use, at most.
const SEARCHED: usize = 8;
const SEED: u64 = 20_261_122;

/// The chances of ranks, as YCSB's zipfian has them: one over the rank, to the power of 0.99.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(ranks: usize) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=ranks).map(|rank| {
            sum += (rank as f64).powf(-0.99);
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, random: &mut Random) -> usize {
        let at = random.next() as f64 / u64::MAX as f64 * self.0[self.0.len() - 1];
        self.0.partition_point(|&sum| sum < at)
    }

    /// The share of uses that the first ranks have.
    fn share(&self, ranks: usize) -> f64 {
        self.0[ranks - 1] / self.0[self.0.len() - 1]
    }
}

/// Whoever holds the objects, of one size.
struct Holder {
    border: Border,
    random: Random,
    /// How hot each is, and whether it is near.
    objects: Vec<(Heat, bool)>,
    /// The order in which they are met, which says nothing of their ages, as a hash table's does not.
    order: Vec<usize>,
    /// How many more may be near.
    free: usize,
    reserve: usize,
    /// Where the round is, and the search.
    round: usize,
    search: usize,
    uses: usize,
    young_rounds: u32,
    at_round: Round,
    total: Round,
    to_far: u64,
}

impl Holder {
    fn new(near: usize) -> Holder {
        println!("seed {SEED}");
        let mut holder = Holder {
            border: Border::default(),
            random: Random::new(SEED),
            objects: Vec::new(),
            order: Vec::new(),
            free: near,
            reserve: near / 64,
            round: 0,
            search: 0,
            uses: 0,
            young_rounds: 0,
            at_round: Round::default(),
            total: Round::default(),
            to_far: 0,
        };
        (0..OBJECTS).for_each(|_| holder.add());
        holder
    }

    fn add(&mut self) {
        let is_near = self.free > 0;
        self.free -= usize::from(is_near);
        let born = Heat::from_bits(self.border.floor().bits() + 1);
        self.order.push(self.objects.len());
        self.objects.push((born, is_near));
        let (last, other) = (
            self.order.len() - 1,
            self.random.next() as usize % self.order.len(),
        );
        self.order.swap(last, other);
    }

    fn ages(&self) -> bool {
        self.young_rounds + 1 >= self.border.rounds_to_age()
    }

    fn use_one(&mut self, at: usize) {
        self.make_room();
        self.uses += 1;
        if self.uses.is_multiple_of(USES_PER_OBJECT) {
            self.go_round();
        }
        let (mut heat, is_near) = self.objects[at];
        self.total.uses += 1;
        self.total.near_uses += u64::from(is_near);
        if !self
            .random
            .next()
            .is_multiple_of(self.border.noted().into())
        {
            return;
        }
        heat = heat.used((self.random.next() >> 32) as u32);
        let is_wanted = !is_near && self.border.attracts(heat);
        let comes = is_wanted && self.free > self.reserve / 2;
        self.objects[at] = (heat, is_near || comes);
        self.free -= usize::from(comes);
        self.total.moved += u64::from(comes);
        if comes {
            self.border.note_move();
        }
        self.total.refused += u64::from(is_wanted && !comes);
    }

    fn go_round(&mut self) {
        let ages = self.ages();
        let (heat, is_near) = &mut self.objects[self.order[self.round]];
        if *is_near {
            self.border.meet(*heat, 1);
        }
        if ages {
            *heat = heat.aged();
        }
        self.round += 1;
        if self.round >= self.objects.len() {
            self.round = 0;
            let (now, before) = (self.total, self.at_round);
            self.border.end_round(Round {
                uses: now.uses - before.uses,
                near_uses: now.near_uses - before.near_uses,
                moved: now.moved - before.moved,
                refused: now.refused - before.refused,
                aged: ages,
            });
            self.at_round = now;
            self.young_rounds = if ages { 0 } else { self.young_rounds + 1 };
        }
    }

    fn make_room(&mut self) {
        let ages = self.ages();
        for _ in 0..SEARCHED {
            if self.free >= self.reserve {
                return;
            }
            self.search = (self.search + 1) % self.objects.len();
            let at = self.order[self.search];
            let (mut heat, is_near) = self.objects[at];
            if ages && self.search < self.round {
                heat = heat.younger();
            }
            if is_near {
                self.border.meet(heat, 1);
                if self.border.repels(heat) {
                    self.objects[at].1 = false;
                    self.free += 1;
                    self.to_far += 1;
                }
            }
        }
    }

    /// The share of near ones among as many uses, and moves near per use.
    fn serve(&mut self, uses: usize, mut draw: impl FnMut(&mut Holder) -> usize) -> (f64, f64) {
        let before = self.total;
        for _ in 0..uses {
            let at = draw(self);
            self.use_one(at);
        }
        let uses = uses as f64;
        (
            (self.total.near_uses - before.near_uses) as f64 / uses,
            (self.total.moved - before.moved) as f64 / uses,
        )
    }
}

#[test]
fn a_quarter_of_near_memory_holds_nearly_what_it_could_and_then_is_quiet() {
    let zipf = Zipf::new(OBJECTS);
    let mut holder = Holder::new(OBJECTS / 4);
    let mut draw = |holder: &mut Holder| zipf.draw(&mut holder.random);
    holder.serve(60 * OBJECTS, &mut draw);
    let (share, moved) = holder.serve(20 * OBJECTS, &mut draw);
    let best = zipf.share(OBJECTS / 4);
    assert!(share > best - 0.025, "{share} of {best}");
    assert!(moved < 0.01, "{moved}");
    assert!(holder.border.noted() > 1);
}

#[test]
fn where_all_is_used_alike_moves_end() {
    let mut holder = Holder::new(OBJECTS / 4);
    let mut draw = |holder: &mut Holder| holder.random.next() as usize % OBJECTS;
    holder.serve(40 * OBJECTS, &mut draw);
    let (share, moved) = holder.serve(100 * OBJECTS, &mut draw);
    assert!((0.23..0.27).contains(&share), "{share}");
    assert!(moved < 0.005, "{moved}");
}

#[test]
fn another_hot_set_is_followed() {
    let zipf = Zipf::new(OBJECTS);
    let mut holder = Holder::new(OBJECTS / 4);
    holder.serve(100 * OBJECTS, |holder| zipf.draw(&mut holder.random));
    let mut other = |holder: &mut Holder| (zipf.draw(&mut holder.random) + OBJECTS / 2) % OBJECTS;
    // Long settled: what was hot for a hundred rounds has to go within ten.
    holder.serve(10 * OBJECTS, &mut other);
    let (share, _) = holder.serve(5 * OBJECTS, &mut other);
    let best = zipf.share(OBJECTS / 4);
    assert!(share > 0.93 * best, "{share} of {best}");
}

#[test]
fn what_is_new_and_hot_stays_near_round_after_round() {
    let zipf = Zipf::new(OBJECTS);
    let mut holder = Holder::new(OBJECTS / 4);
    // One use in twenty adds an object, and the newest are the hottest.
    let mut latest = |holder: &mut Holder| {
        if holder.random.next().is_multiple_of(20) {
            holder.add();
        }
        holder.objects.len() - 1 - zipf.draw(&mut holder.random)
    };
    holder.serve(8 * OBJECTS, &mut latest);
    for part in 0..40 {
        let (share, _) = holder.serve(OBJECTS / 2, &mut latest);
        assert!(share > 0.80, "{share} in part {part}");
    }
    assert!(holder.to_far > 0);
}

#[test]
fn with_room_for_all_nothing_moves() {
    let mut holder = Holder::new(2 * OBJECTS);
    let zipf = Zipf::new(OBJECTS);
    let (share, moved) = holder.serve(10 * OBJECTS, |holder| zipf.draw(&mut holder.random));
    assert_eq!((share, moved), (1.0, 0.0));
    assert!(holder.border.noted() > 1, "nothing is to be learnt");
}
