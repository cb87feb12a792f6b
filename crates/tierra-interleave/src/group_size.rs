//! How many lookups take turns: enough to cover a miss, no more than the processor can have in
//! flight.
//!
//! Invariant: a group size is between 1 and [`MAX_LANES`].

use core::fmt;
use core::num::NonZeroU8;
use core::str::FromStr;

/// The most lookups that can take turns.
///
/// Processors keep 10 to 64 misses of one core in flight; more lanes only spread the lookups' state
/// over more of the nearest cache.
pub const MAX_LANES: usize = 64;

/// How many lookups of a group are under way at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupSize(NonZeroU8);

impl GroupSize {
    /// Good for memory of either speed when nothing better is known.
    ///
    /// Binary searches for fresh keys in 16 MiB to 1 GiB gain up to 48 lanes and little beyond
    /// (`examples/binary_search.rs` prints the figures of the machine it runs on).
    pub const DEFAULT: GroupSize = GroupSize(NonZeroU8::new(48).expect("48 is not zero"));

    /// A group of `lanes` lookups; `None` unless `lanes` is between 1 and [`MAX_LANES`].
    pub const fn new(lanes: usize) -> Option<Self> {
        if lanes > MAX_LANES {
            return None;
        }
        match NonZeroU8::new(lanes as u8) {
            Some(lanes) => Some(GroupSize(lanes)),
            None => None,
        }
    }

    /// The number of lanes, between 1 and [`MAX_LANES`].
    #[inline]
    pub const fn get(self) -> usize {
        self.0.get() as usize
    }
}

impl Default for GroupSize {
    fn default() -> Self {
        GroupSize::DEFAULT
    }
}

impl fmt::Display for GroupSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for GroupSize {
    type Err = ParseGroupSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse()
            .ok()
            .and_then(GroupSize::new)
            .ok_or_else(|| ParseGroupSizeError { text: text.into() })
    }
}

/// A text that is no [`GroupSize`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseGroupSizeError {
    text: Box<str>,
}

impl fmt::Display for ParseGroupSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bad group size {:?}: expected a number from 1 to {MAX_LANES}",
            self.text
        )
    }
}

impl core::error::Error for ParseGroupSizeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        assert_eq!(GroupSize::new(0), None);
        assert_eq!(GroupSize::new(1).map(GroupSize::get), Some(1));
        assert_eq!(
            GroupSize::new(MAX_LANES).map(GroupSize::get),
            Some(MAX_LANES)
        );
        assert_eq!(GroupSize::new(MAX_LANES + 1), None);
        assert_eq!(
            GroupSize::new(256 + 1),
            None,
            "a size is not taken modulo 256"
        );
    }

    #[test]
    fn text() {
        assert_eq!("48".parse(), Ok(GroupSize::DEFAULT));
        assert_eq!(GroupSize::DEFAULT.to_string(), "48");
        for bad in ["", "0", "65", "-1", "many"] {
            let message = bad.parse::<GroupSize>().unwrap_err().to_string();
            assert_eq!(
                message,
                format!("bad group size {bad:?}: expected a number from 1 to 64")
            );
        }
    }
}
