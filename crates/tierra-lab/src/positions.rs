//! The positions of updates: long sequences of positions in an array. Every measurement takes its own part, so that it finds
//! nothing in the caches that another one left.

use std::fs;
use std::path::{Path, PathBuf};

use zerocopy::IntoBytes;

use crate::error::{At, LabError};
use crate::random::Random;

/// How positions are distributed, as in the replication thesis (section 3.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Every position as likely as any other.
    Uniform,
    /// Around the middle, by the binomial distribution of that many throws.
    Binomial,
    /// One after the other.
    Sequential,
}

impl Pattern {
    /// All three.
    pub const ALL: [Pattern; 3] = [Pattern::Uniform, Pattern::Binomial, Pattern::Sequential];

    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Uniform => "uniform",
            Pattern::Binomial => "binomial",
            Pattern::Sequential => "sequential",
        }
    }
}

/// Positions of all patterns, in memory and in one file for other processes.
#[derive(Debug)]
pub struct Positions {
    path: PathBuf,
    /// That many of each pattern, one pattern after the other.
    all: Vec<u32>,
    each: usize,
    /// How many of each pattern were taken.
    taken: [usize; 3],
}

impl Positions {
    /// `each` positions of every pattern in an array of `elements`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn draw(
        elements: usize,
        each: usize,
        folder: &Path,
        seed: u64,
    ) -> Result<Positions, LabError> {
        let mut random = Random::new(seed);
        let mut all = Vec::with_capacity(Pattern::ALL.len() * each);
        for pattern in Pattern::ALL {
            all.extend((0..each).map(|at| match pattern {
                Pattern::Uniform => random.below(elements as u64) as u32,
                Pattern::Binomial => binomial(elements, &mut random),
                Pattern::Sequential => (at % elements) as u32,
            }));
        }
        let path = folder.join("positions");
        fs::write(&path, all.as_bytes()).at(&path)?;
        Ok(Positions {
            path,
            all,
            each,
            taken: [0; 3],
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next `count` positions, from the beginning again when none are left, and their index in the file.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn take(&mut self, pattern: Pattern, count: usize) -> (usize, &[u32]) {
        assert!(count <= self.each, "more than were drawn");
        let taken = &mut self.taken[pattern as usize];
        if *taken + count > self.each {
            *taken = 0;
        }
        let from = pattern as usize * self.each + *taken;
        *taken += count;
        (from, &self.all[from..from + count])
    }
}

/// The number of successes in that many throws of a fair coin, by the normal distribution, which is the same for thousands
/// of throws and more.
fn binomial(throws: usize, random: &mut Random) -> u32 {
    let (radius, angle) = (1.0 - random.fraction(), random.fraction());
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    let middle = throws as f64 / 2.0;
    let drawn = middle + normal * (throws as f64).sqrt() / 2.0;
    drawn.round().clamp(0.0, (throws - 1) as f64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_what_they_are_called_and_the_file_has_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut positions = Positions::draw(1 << 20, 10_000, folder.path(), 1).unwrap();
        let spread = |drawn: &[u32]| {
            let mean = drawn.iter().map(|&at| f64::from(at)).sum::<f64>() / drawn.len() as f64;
            let square = |at: &u32| (f64::from(*at) - mean).powi(2);
            let variance = drawn.iter().map(square).sum::<f64>() / drawn.len() as f64;
            (mean, variance.sqrt())
        };
        let (mean, deviation) = spread(positions.take(Pattern::Uniform, 10_000).1);
        assert!((mean / 524_288.0 - 1.0).abs() < 0.05 && deviation > 250_000.0);
        // Half of the root of a million throws.
        let (mean, deviation) = spread(positions.take(Pattern::Binomial, 10_000).1);
        assert!((mean - 524_288.0).abs() < 50.0 && (deviation / 512.0 - 1.0).abs() < 0.05);
        assert_eq!(positions.take(Pattern::Sequential, 6_000).1[5_999], 5_999);
        assert_eq!(positions.take(Pattern::Sequential, 4_000).0, 26_000);
        assert_eq!(positions.take(Pattern::Sequential, 2).0, 20_000);
        let bytes = fs::read(positions.path()).unwrap();
        assert_eq!(bytes, positions.all.as_bytes());
    }
}
