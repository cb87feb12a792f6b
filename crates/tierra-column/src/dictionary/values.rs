//! A dictionary's values in memory.

use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use tierra_memory::collapse;

/// The values, indexed by code.
#[derive(Debug, Clone)]
pub(crate) enum DictionaryValues {
    Ordinals(Arc<Vec<u64>>),
    Strings(StringViewArray),
}

impl DictionaryValues {
    pub(crate) fn len(&self) -> usize {
        match self {
            DictionaryValues::Ordinals(values) => values.len(),
            DictionaryValues::Strings(values) => values.len(),
        }
    }

    /// Onto large pages: they are read at random, those of many columns at a time.
    pub(super) fn collapse(&self) {
        match self {
            DictionaryValues::Ordinals(values) => collapse(values),
            DictionaryValues::Strings(values) => {
                collapse(values.views());
                values.data_buffers().iter().for_each(|text| collapse(text));
            }
        }
    }
}
