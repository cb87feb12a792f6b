//! Statistics of raw samples: the median as the value, the quartiles as its uncertainty.
//!
//! There is no mean of times: one interrupted repetition can move a mean by any amount, a median not at all. Ratios are combined
//! by the geometric mean, the only mean for which "a over b" and "b over a" agree.

/// Median and quartiles of one point's raw samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Half of the samples are not above it.
    pub median: f64,
    /// A quarter of the samples are not above it.
    pub q1: f64,
    /// Three quarters of the samples are not above it.
    pub q3: f64,
    /// How many samples there are.
    pub count: usize,
}

impl Summary {
    /// Summarises raw samples; `None` if there are none.
    pub fn of(samples: &[u64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        (!sorted.is_empty()).then(|| Summary {
            median: quantile(&sorted, 0.5),
            q1: quantile(&sorted, 0.25),
            q3: quantile(&sorted, 0.75),
            count: sorted.len(),
        })
    }

    /// The summary of a single number: all three are equal.
    pub fn alone(value: f64) -> Summary {
        Summary {
            median: value,
            q1: value,
            q3: value,
            count: 1,
        }
    }
}

/// The median of raw samples; `None` if there are none.
pub fn median(samples: &[u64]) -> Option<f64> {
    Summary::of(samples).map(|summary| summary.median)
}

/// The geometric mean of positive values; `None` if there are none, or if one is not positive and finite, because a mean that
/// silently drops a value is a wrong answer.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut log_sum, mut count) = (0.0, 0_u32);
    for value in values {
        if !(value.is_finite() && value > 0.0) {
            return None;
        }
        log_sum += value.ln();
        count += 1;
    }
    (count > 0).then(|| (log_sum / f64::from(count)).exp())
}

/// That part of some values, in any order; `None` if there are none, or if one is not a number.
pub fn quantile_of(values: &[f64], fraction: f64) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| value.is_nan()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(interpolated(&sorted, fraction))
}

/// Linear interpolation between the two samples around `fraction` (Hyndman and Fan's type 7).
fn quantile(sorted: &[u64], fraction: f64) -> f64 {
    let sorted: Vec<f64> = sorted.iter().map(|&value| value as f64).collect();
    interpolated(&sorted, fraction)
}

fn interpolated(sorted: &[f64], fraction: f64) -> f64 {
    debug_assert!(sorted.is_sorted() && !sorted.is_empty());
    let place = fraction * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (sorted[below], sorted[above]);
    low + (high - low) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_even_single_and_empty() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7]), Some(7.0));
        assert_eq!(median(&[9, 1, 5]), Some(5.0));
        assert_eq!(median(&[9, 1, 5, 6]), Some(5.5));
    }

    #[test]
    fn quartiles_interpolate() {
        let summary = Summary::of(&[1, 2, 3, 4]).unwrap();
        assert_eq!((summary.q1, summary.median, summary.q3), (1.75, 2.5, 3.25));
    }

    #[test]
    fn an_outlier_moves_no_median() {
        assert_eq!(median(&[10, 11, 12]), median(&[10, 11, u64::MAX / 2]));
    }

    #[test]
    fn geometric_mean_refuses_what_it_cannot_average() {
        assert_eq!(geometric_mean([]), None);
        assert_eq!(geometric_mean([1.0, 0.0]), None);
        assert_eq!(geometric_mean([1.0, f64::NAN]), None);
        assert!((geometric_mean([2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_part_of_values_in_any_order() {
        let values = [3.0, 1.0, 2.0];
        let parts = [0.0, 0.5, 0.75, 1.0].map(|part| quantile_of(&values, part));
        assert_eq!(parts, [1.0, 2.0, 2.5, 3.0].map(Some));
        assert_eq!(quantile_of(&[], 0.5), None);
        assert_eq!(quantile_of(&[1.0, f64::NAN], 0.5), None);
    }

    proptest! {
        #[test]
        fn half_lie_on_either_side(samples in prop::collection::vec(0_u64..1 << 50, 1..200)) {
            let summary = Summary::of(&samples).unwrap();
            let below = samples.iter().filter(|&&sample| sample as f64 <= summary.median).count();
            let above = samples.iter().filter(|&&sample| sample as f64 >= summary.median).count();
            prop_assert!(2 * below >= samples.len() && 2 * above >= samples.len());
            prop_assert!(summary.q1 <= summary.median && summary.median <= summary.q3);
        }

        #[test]
        fn ratios_invert(ratios in prop::collection::vec(0.001_f64..1000.0, 1..50)) {
            let there = geometric_mean(ratios.iter().copied()).unwrap();
            let back = geometric_mean(ratios.iter().map(|ratio| 1.0 / ratio)).unwrap();
            prop_assert!((there * back - 1.0).abs() < 1e-9);
        }
    }
}
