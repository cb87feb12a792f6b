//! The scale factor of a benchmark: 1 is about 6,000,000 rows in the fact table.
//!
//! A [`Scale`] is always within [`Scale::MIN`] and [`Scale::MAX`], so generators can compute row
//! counts and 32-bit keys from it without checking again.

use std::{fmt, str::FromStr};

/// A checked scale factor.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Scale(f64);

/// Why a number or a text is not a scale factor.
#[derive(Clone, Debug, PartialEq)]
pub enum ScaleError {
    /// The text is no number.
    NotANumber(String),
    /// The number is outside [`Scale::MIN`]..=[`Scale::MAX`].
    OutOfRange(f64),
}

impl Scale {
    /// The smallest scale: below it some tables would hold a handful of rows.
    pub const MIN: f64 = 0.001;
    /// The largest scale at which every key of SSB still fits a 32-bit INTEGER.
    pub const MAX: f64 = 300.0;

    /// Accepts a factor between [`Scale::MIN`] and [`Scale::MAX`].
    ///
    /// # Errors
    /// [`ScaleError::OutOfRange`] for any other.
    pub fn new(factor: f64) -> Result<Self, ScaleError> {
        if (Self::MIN..=Self::MAX).contains(&factor) {
            Ok(Self(factor))
        } else {
            Err(ScaleError::OutOfRange(factor))
        }
    }

    /// The factor itself.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// `base` rows at scale 1, in proportion, rounded, but not fewer than `floor`.
    pub(crate) fn rows(self, base: u64, floor: u64) -> u64 {
        ((base as f64 * self.0).round() as u64).max(floor)
    }
}

impl FromStr for Scale {
    type Err = ScaleError;

    fn from_str(text: &str) -> Result<Self, ScaleError> {
        let factor = text
            .trim()
            .parse()
            .map_err(|_| ScaleError::NotANumber(text.to_owned()))?;
        Self::new(factor)
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ScaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber(text) => write!(f, "scale factor '{text}' is not a number; ")?,
            Self::OutOfRange(factor) => write!(f, "scale factor {factor} is out of range; ")?,
        }
        write!(f, "give one from {} to {}", Scale::MIN, Scale::MAX)
    }
}

impl std::error::Error for ScaleError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_nonsense_is_refused() {
        for good in ["0.001", "0.1", "1", "300", " 2 "] {
            assert!(good.parse::<Scale>().is_ok(), "{good}");
        }
        for bad in ["0", "0.0009", "-1", "300.1", "NaN", "inf", "", "one"] {
            let error = bad.parse::<Scale>().expect_err(bad).to_string();
            assert!(error.contains("0.001 to 300"), "{error}");
        }
    }
}
