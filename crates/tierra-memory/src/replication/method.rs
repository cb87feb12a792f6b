//! How the composition of a write is chosen.

use std::fmt;

use super::composition::Composition;
use super::switch::{MethodTree, Situation};

/// Which composition a write takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Always the same.
    Always(Composition),
    /// One for writes of up to so many bytes, another for longer ones.
    Threshold {
        /// The longest that counts as short.
        up_to_bytes: u64,
        /// For short writes.
        short: Composition,
        /// For longer ones.
        long: Composition,
    },
    /// What a calibrated decision tree says ([`Profile::switch`](super::Profile::switch)). A program has one
    /// as long as it lives.
    Switched(&'static MethodTree),
}

impl Method {
    /// The composition for a write of so many bytes in that situation.
    #[inline]
    pub(super) fn composition(
        &self,
        len_bytes: u64,
        situation: impl FnOnce() -> Situation,
    ) -> Composition {
        match *self {
            Method::Always(composition) => composition,
            Method::Threshold {
                up_to_bytes,
                short,
                long,
            } => match len_bytes <= up_to_bytes {
                true => short,
                false => long,
            },
            Method::Switched(switch) => switch.choose(situation()),
        }
    }
}

/// `Trs` a threshold, as the thesis writes it.
impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Always(composition) => composition.fmt(f),
            Method::Threshold {
                up_to_bytes,
                short,
                long,
            } => write!(f, "Trs({short} up to {up_to_bytes} bytes, {long})"),
            Method::Switched(_) => f.write_str("switched"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::composition::CopyBy;
    use super::*;

    #[test]
    fn a_threshold_counts_as_short() {
        let long = Composition {
            copy: CopyBy::Streams,
            ..Composition::BASIC
        };
        let method = Method::Threshold {
            up_to_bytes: 32,
            short: Composition::BASIC,
            long,
        };
        let nobody = || unreachable!("a threshold asks for the length only");
        assert_eq!(method.composition(32, nobody), Composition::BASIC);
        assert_eq!(method.composition(33, nobody), long);
    }
}
