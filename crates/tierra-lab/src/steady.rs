//! Samples that agree with each other: contenders in turns, and all of them again where the samples of one scatter.
//!
//! A median of samples that lie far apart describes what disturbed the run. It is refused: all contenders are measured again,
//! together, because a ratio needs samples of the same minutes. What still scatters after the last attempt keeps its samples, but
//! its row has no value ([`Row::refused`]), so a bar on it counts as not measured.

use crate::error::LabError;
use crate::row::Row;
use crate::stats::Summary;
use crate::turns;

/// The upper quartile may be so many times the lower one.
pub const SPREAD_MAX: f64 = 1.6;
/// Quartiles of fewer samples say nothing about their spread.
const SAMPLES_MIN: usize = 4;
/// How often contenders are measured, at most.
const ATTEMPTS: usize = 3;

/// The samples of one contender.
#[derive(Clone, Debug)]
pub struct Sampled<S> {
    /// Those of the last attempt, in the order taken.
    pub samples: Vec<S>,
    /// Whether they scatter too much for a median.
    pub refused: bool,
}

impl<S> Sampled<S> {
    /// The row, marked if the samples were refused.
    pub fn mark(&self, row: Row) -> Row {
        match self.refused {
            true => row.refused(),
            false => row,
        }
    }
}

/// Samples of every contender, in turns over a warm-up round and `rounds` measured ones. `value` is what must not scatter.
///
/// # Errors
/// Those of `sample`, which is given the contender's number.
pub fn in_turns<S>(
    contenders: usize,
    rounds: usize,
    mut sample: impl FnMut(usize) -> Result<S, LabError>,
    value: impl Fn(&S) -> u64,
) -> Result<Vec<Sampled<S>>, LabError> {
    let mut attempt = 1;
    loop {
        let samples = turns::samples(contenders, rounds, |turn| sample(turn.contender))?;
        let sampled: Vec<Sampled<S>> = samples
            .into_iter()
            .map(|samples| Sampled {
                refused: scatter(&samples.iter().map(&value).collect::<Vec<_>>()),
                samples,
            })
            .collect();
        if attempt == ATTEMPTS || sampled.iter().all(|one| !one.refused) {
            return Ok(sampled);
        }
        attempt += 1;
    }
}

/// Whether the quartiles lie further apart than [`SPREAD_MAX`].
fn scatter(values: &[u64]) -> bool {
    values.len() >= SAMPLES_MIN
        && Summary::of(values).is_some_and(|summary| summary.q3 > SPREAD_MAX * summary.q1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of two contenders; the second's scatter in the first `unsteady` attempts.
    fn measured(unsteady: usize) -> (Vec<Sampled<u64>>, usize) {
        let mut taken = 0;
        let sampled = in_turns(
            2,
            4,
            |contender| {
                taken += 1;
                let is_unsteady = contender == 1 && (taken - 1) / 10 < unsteady;
                Ok(match is_unsteady && taken % 4 < 2 {
                    true => 200,
                    false => 100,
                })
            },
            |&value| value,
        );
        (sampled.unwrap(), taken)
    }

    #[test]
    fn what_scatters_is_measured_again_with_all_others() {
        let (sampled, taken) = measured(0);
        assert_eq!(taken, 10);
        assert!(sampled.iter().all(|one| one.samples.len() == 4));
        let (sampled, taken) = measured(1);
        assert_eq!(taken, 20);
        assert!(sampled.iter().all(|one| !one.refused));
        assert_eq!(sampled[1].samples, [100; 4]);
    }

    #[test]
    fn what_always_scatters_is_refused_and_has_no_value() {
        let (sampled, taken) = measured(usize::MAX);
        assert_eq!(taken, 10 * ATTEMPTS);
        let refused: Vec<bool> = sampled.iter().map(|one| one.refused).collect();
        assert_eq!(refused, [false, true]);
        let values = sampled.iter().map(|one| {
            let row = Row::new().samples("time", "ns", one.samples.clone());
            one.mark(row).value("time_ns")
        });
        assert_eq!(values.collect::<Vec<_>>(), [Some(100.0), None]);
    }

    #[test]
    fn quartiles_on_the_limit_are_taken() {
        assert!(!scatter(&[100, 100, 160, 160]));
        assert!(scatter(&[100, 100, 161, 161]));
        assert!(!scatter(&[100, 900, 900]), "too few to tell");
    }
}
