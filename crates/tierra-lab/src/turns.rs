//! The order of turns: contenders are measured in one run, alternating.
//!
//! Frequency, temperature and neighbours drift over minutes. Contenders that take turns see the same drift, so their ratio is not
//! affected. Every contender has one turn per round. The order rotates and reverses from round to round, so that none always
//! starts and none always follows the same other one (whose data it would find in the caches).

use crate::error::LabError;

/// One contender's turn in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The contender's number.
    pub contender: usize,
    /// The round: 0 is the warm-up, whose samples are discarded.
    pub round: usize,
}

impl Turn {
    /// Whether this turn's sample is discarded: it includes page faults and cold caches.
    pub fn is_warm_up(self) -> bool {
        self.round == 0
    }
}

/// The turns of `contenders` over one warm-up round and `rounds` measured ones.
pub fn turns(contenders: usize, rounds: usize) -> impl Iterator<Item = Turn> {
    (0..=rounds).flat_map(move |round| {
        (0..contenders).map(move |place| {
            let place = if round % 2 == 1 {
                contenders - 1 - place
            } else {
                place
            };
            Turn {
                contender: (place + round / 2) % contenders,
                round,
            }
        })
    })
}

/// What each contender gives in its turns, without those of the warm-up: by contender, in the order taken.
///
/// # Errors
/// The first of `sample`.
pub fn samples<S>(
    contenders: usize,
    rounds: usize,
    mut sample: impl FnMut(Turn) -> Result<S, LabError>,
) -> Result<Vec<Vec<S>>, LabError> {
    let mut samples = Vec::from_iter((0..contenders).map(|_| Vec::with_capacity(rounds)));
    for turn in turns(contenders, rounds) {
        let taken = sample(turn)?;
        if !turn.is_warm_up() {
            samples[turn.contender].push(taken);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_one_turn_a_round() {
        for contenders in 1..6 {
            let all: Vec<Turn> = turns(contenders, 7).collect();
            assert_eq!(all.len(), contenders * 8);
            for (round, order) in all.chunks(contenders).enumerate() {
                let mut seen: Vec<usize> = order.iter().map(|turn| turn.contender).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..contenders).collect::<Vec<_>>());
                assert!(order.iter().all(|turn| turn.round == round));
                assert!(order.iter().all(|turn| turn.is_warm_up() == (round == 0)));
            }
        }
    }

    #[test]
    fn samples_are_each_contenders_own_but_for_the_warm_up() {
        let number = |turn: Turn| Ok(turn.contender * 10 + turn.round);
        assert_eq!(samples(2, 3, number).unwrap(), [[1, 2, 3], [11, 12, 13]]);
    }

    #[test]
    fn each_starts_equally_often() {
        for contenders in 1..6 {
            let mut starts = vec![0; contenders];
            for order in turns(contenders, 2 * contenders - 1)
                .collect::<Vec<_>>()
                .chunks(contenders)
            {
                starts[order[0].contender] += 1;
            }
            assert!(
                starts.iter().all(|&count| count == 2),
                "{contenders}: {starts:?}"
            );
        }
    }

    #[test]
    fn two_contenders_neither_always_follow_nor_always_lead() {
        let order: Vec<usize> = turns(2, 3).map(|turn| turn.contender).collect();
        assert_eq!(order, [0, 1, 1, 0, 1, 0, 0, 1]);
    }
}
