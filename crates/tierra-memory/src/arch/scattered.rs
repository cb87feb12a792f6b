//! Scattered stores: eight bytes into up to eight places by one instruction.

use super::has_scatter;

/// Leave to use scattered stores: this processor has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scatter(());

impl Scatter {
    /// `None` where the processor cannot store to eight places by one instruction.
    pub fn detect() -> Option<Scatter> {
        has_scatter().then_some(Scatter(()))
    }
}
