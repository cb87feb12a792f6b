//! The four data sets of the thesis's table 3.2.

use std::f64::consts::TAU;

use crate::random::Random;

/// A distribution of 32-bit integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataSet {
    D1,
    D2,
    D3,
    D4,
}

const DEVIATION: f64 = 20.0;
const SMALL: f64 = 32.0;
const LARGE: f64 = 33_554_432.0;
/// Values of D3 are below it.
const SORTED_BELOW: u64 = 1_000_000;
/// One value of D4 in so many is large.
const LARGE_EVERY: u64 = 10;

impl DataSet {
    pub(super) const ALL: [DataSet; 4] = [DataSet::D1, DataSet::D2, DataSet::D3, DataSet::D4];

    pub(super) fn name(self) -> &'static str {
        match self {
            DataSet::D1 => "D1",
            DataSet::D2 => "D2",
            DataSet::D3 => "D3",
            DataSet::D4 => "D4",
        }
    }

    /// Whether its values ascend.
    pub(super) fn is_sorted(self) -> bool {
        self == DataSet::D3
    }

    /// Its values. The few that a normal distribution around 32 would have below zero are zero: the codecs of the papers know
    /// no negative numbers.
    pub(super) fn values(self, count: usize, random: &mut Random) -> Vec<i32> {
        let mut values: Vec<i32> = match self {
            DataSet::D1 => (0..count).map(|_| normal(SMALL, random)).collect(),
            DataSet::D2 => (0..count).map(|_| normal(LARGE, random)).collect(),
            DataSet::D3 => (0..count)
                .map(|_| random.below(SORTED_BELOW) as i32)
                .collect(),
            DataSet::D4 => (0..count)
                .map(|_| match random.below(LARGE_EVERY) {
                    0 => normal(LARGE, random),
                    _ => normal(SMALL, random),
                })
                .collect(),
        };
        if self.is_sorted() {
            values.sort_unstable();
        }
        values
    }
}

/// A normally distributed integer, by the method of Box and Muller; not below zero.
fn normal(mean: f64, random: &mut Random) -> i32 {
    // Not zero, whose logarithm is infinite.
    let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
    let value = mean + DEVIATION * radius * (TAU * random.fraction()).cos();
    value.round().max(0.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_as_the_table_says() {
        let mut random = Random::new(1);
        let count = 100_000;
        let [d1, d2, d3, d4] = DataSet::ALL.map(|set| set.values(count, &mut random));
        let mean = |values: &[i32]| values.iter().map(|&it| f64::from(it)).sum::<f64>() / 1e5;
        let clamped = d1.iter().filter(|&&value| value == 0).count();
        assert!((4_500..6_500).contains(&clamped), "{clamped} of 5.2 %");
        assert!((mean(&d1) - 32.4).abs() < 0.5, "{}", mean(&d1));
        assert!((mean(&d2) - LARGE).abs() < 1.0, "{}", mean(&d2));
        assert!(d3.is_sorted() && d3.iter().all(|&value| value < 1_000_000));
        let large = d4.iter().filter(|&&value| value > 1_000_000).count();
        assert!((9_000..11_000).contains(&large), "{large}");
    }
}
