//! The choices from which a table or a query is made: drawn at random, or replayed from a list.
//!
//! A failing case is reduced by reducing its list ([`super::shrink`]): 0 is always the plainest choice, and after the end of the
//! list all choices are 0. So every list makes a valid query.

use crate::random::Random;

/// Choices, recorded as they are made.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    made: Vec<u64>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Drawn(Random),
    Repeated(std::vec::IntoIter<u64>),
}

impl Choices {
    /// The choices of a seed.
    pub(crate) fn seeded(seed: u64) -> Choices {
        Choices {
            made: Vec::new(),
            source: Source::Drawn(Random::new(seed)),
        }
    }

    /// These choices, followed by 0.
    pub(crate) fn repeated(list: Vec<u64>) -> Choices {
        Choices {
            made: Vec::new(),
            source: Source::Repeated(list.into_iter()),
        }
    }

    /// What was chosen so far.
    pub(crate) fn made(self) -> Vec<u64> {
        self.made
    }

    /// A number below `bound`, which is positive.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let chosen = match &mut self.source {
            Source::Drawn(random) => random.below(bound),
            Source::Repeated(list) => list.next().unwrap_or(0).min(bound - 1),
        };
        self.made.push(chosen);
        chosen
    }

    /// An index below `bound`, which is positive.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// True once in `times`; false is the plainer.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == times - 1
    }

    /// One of a few, the first the plainest.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }

    /// An index by weight, the first the plainest.
    pub(crate) fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut rest = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if rest < *weight {
                return index;
            }
            rest -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_drawn_can_be_repeated() {
        let draw = |choices: &mut Choices| -> Vec<u64> {
            (1..50).map(|bound| choices.below(bound)).collect()
        };
        let mut drawn = Choices::seeded(7);
        let first = draw(&mut drawn);
        assert_eq!(draw(&mut Choices::repeated(drawn.made())), first);
        assert!(
            draw(&mut Choices::repeated(Vec::new()))
                .iter()
                .all(|choice| *choice == 0)
        );
    }

    #[test]
    fn weights_are_kept() {
        let mut choices = Choices::seeded(1);
        let mut seen = [0; 3];
        (0..1_000).for_each(|_| seen[choices.weighted(&[1, 0, 9])] += 1);
        assert!(seen[0] > 50 && seen[1] == 0 && seen[2] > 800);
    }
}
