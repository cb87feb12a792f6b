//! How strings are coded that are not stored as they are.

/// A way to code strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Without what they share with the one before.
    Front,
    /// As codes of symbols.
    Fsst,
    /// Without a prefix, which is named by number.
    Prefix,
}
