//! The mover's rules, played over many uses of objects that have no bytes: what comes near, and how much is moved for it.
//!
//! The holder here does what a key-value store does, by the same clock ([`Rounds`]): it notes uses, goes around all objects, halves
//! heats in rounds that say so, and searches for something cold where room is lacking. Uses are drawn with a printed seed.

use crate::Speed;
use crate::placement::{Heat, Migrations, Rounds};
use crate::random::Random;

const OBJECTS: usize = 20_000;
/// Objects that a step visits.
const STEP_OBJECTS: usize = Rounds::STEP_USES as usize;
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

/// The owner of the objects, which have one size.
struct Holder {
    rounds: Rounds,
    random: Random,
    /// How hot each is, and where.
    objects: Vec<(Heat, Speed)>,
    /// The order in which they are met, which says nothing of their ages, as a hash table's does not.
    order: Vec<usize>,
    /// How many more may be near.
    free: usize,
    reserve: usize,
    /// Where the round is, and the search.
    round: usize,
    search: usize,
}

impl Holder {
    fn new(near: usize) -> Holder {
        println!("seed {SEED}");
        let mut holder = Holder {
            rounds: Rounds::default(),
            random: Random::new(SEED),
            objects: Vec::new(),
            order: Vec::new(),
            free: near,
            reserve: near / 64,
            round: 0,
            search: 0,
        };
        (0..OBJECTS).for_each(|_| holder.add());
        holder
    }

    fn add(&mut self) {
        let speed = if self.free > 0 {
            self.free -= 1;
            Speed::Near
        } else {
            Speed::Far
        };
        self.order.push(self.objects.len());
        self.objects.push((self.rounds.initial_heat(), speed));
        let (last, other) = (
            self.order.len() - 1,
            self.random.next() as usize % self.order.len(),
        );
        self.order.swap(last, other);
    }

    fn use_one(&mut self, at: usize) {
        self.make_room();
        while self.rounds.is_due() {
            self.go_on();
        }
        let (heat, speed) = self.objects[at];
        self.rounds.count_use(speed);
        if !self.rounds.samples_use() {
            return;
        }
        let heat = self.rounds.raised(heat, 1);
        self.objects[at].0 = heat;
        if speed == Speed::Near || !self.rounds.should_promote(heat) {
            return;
        }
        if self.free > self.reserve / 2 {
            self.objects[at].1 = Speed::Near;
            self.free -= 1;
            self.rounds.note_move(Speed::Far, Speed::Near, 1);
        } else {
            self.rounds.note_refusal();
        }
    }

    /// A step of the round.
    fn go_on(&mut self) {
        let ages = self.rounds.ages();
        let objects = self.objects.len();
        let end = (self.round + STEP_OBJECTS).min(objects);
        for &at in &self.order[self.round..end] {
            let (heat, speed) = &mut self.objects[at];
            if *speed == Speed::Near {
                self.rounds.observe(*heat, 1);
            }
            if ages {
                *heat = heat.aged();
            }
        }
        let steps_of = |objects: usize| (objects / STEP_OBJECTS) as u64;
        let passed = match objects - end {
            0 => 0,
            left => self.rounds.steps_to_skip(steps_of(objects), steps_of(left)),
        };
        self.rounds.take_steps(1 + passed);
        self.round = end + passed as usize * STEP_OBJECTS;
        if self.round == objects {
            self.round = 0;
            self.rounds.end(self.free >= self.reserve);
        }
    }

    fn make_room(&mut self) {
        for _ in 0..SEARCHED {
            if self.free >= self.reserve {
                return;
            }
            self.search = (self.search + 1) % self.objects.len();
            let at = self.order[self.search];
            let (heat, speed) = self.objects[at];
            if speed == Speed::Far {
                continue;
            }
            let is_aged = self.rounds.has_aged(self.search, self.round);
            let heat = if is_aged { heat.before_aging() } else { heat };
            self.rounds.observe(heat, 1);
            if self.rounds.should_demote(heat) {
                self.objects[at].1 = Speed::Far;
                self.free += 1;
                self.rounds.note_move(Speed::Near, Speed::Far, 1);
            }
        }
    }

    /// The share of near ones among as many uses, and moves near per use.
    fn serve(&mut self, uses: usize, mut draw: impl FnMut(&mut Holder) -> usize) -> (f64, f64) {
        let before = self.rounds.done();
        for _ in 0..uses {
            let at = draw(self);
            self.use_one(at);
        }
        let Migrations {
            uses_near, to_near, ..
        } = self.rounds.done().since(before);
        let part_of = |number: u64| number as f64 / uses as f64;
        (part_of(uses_near), part_of(to_near))
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
    assert!(holder.rounds.sampling_interval() > 1);
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
    assert!(holder.rounds.done().to_far > 0);
}

#[test]
fn with_room_for_all_nothing_moves() {
    let mut holder = Holder::new(2 * OBJECTS);
    let zipf = Zipf::new(OBJECTS);
    let (share, moved) = holder.serve(10 * OBJECTS, |holder| zipf.draw(&mut holder.random));
    assert_eq!((share, moved), (1.0, 0.0));
    assert!(
        holder.rounds.sampling_interval() > 1,
        "nothing is to be learnt"
    );
}
