//! The dictionaries of a table as of one commit.
//!
//! Invariant: immutable, and shared by all versions with the same codes.

use std::ops::Deref;
use std::sync::Arc;

use self_cell::self_cell;
use tierra_column::{Decoder, Dictionary};

/// Dictionaries by column; `None` if no chunk uses one. Their decoders are stored in a row, so that a lookup of a cell touches
/// nothing else of a dictionary.
#[derive(Clone)]
pub(crate) struct Dictionaries(Arc<DecodersCell>);

/// By column.
struct Decoders<'a>(Box<[Option<Decoder<'a>>]>);

self_cell!(
    struct DecodersCell {
        owner: Box<[Option<Arc<Dictionary>>]>,
        #[covariant]
        dependent: Decoders,
    }
);

impl Dictionaries {
    /// The decoders of the columns' dictionaries.
    pub(crate) fn decoders(&self) -> &[Option<Decoder<'_>>] {
        &self.0.borrow_dependent().0
    }
}

impl From<Vec<Option<Arc<Dictionary>>>> for Dictionaries {
    fn from(dictionaries: Vec<Option<Arc<Dictionary>>>) -> Self {
        fn decoder(dictionary: &Option<Arc<Dictionary>>) -> Option<Decoder<'_>> {
            dictionary.as_deref().map(Dictionary::decoder)
        }
        Self(Arc::new(DecodersCell::new(
            dictionaries.into(),
            |dictionaries| Decoders(dictionaries.iter().map(decoder).collect()),
        )))
    }
}

impl Deref for Dictionaries {
    type Target = [Option<Arc<Dictionary>>];

    fn deref(&self) -> &Self::Target {
        self.0.borrow_owner()
    }
}

impl std::fmt::Debug for Dictionaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.iter().fmt(f)
    }
}
