//! A dictionary's values in memory.

use std::sync::Arc;

use arrow::array::{Array, StringViewArray};
use tierra_memory::collapse;

/// The values, indexed by code.
#[derive(Debug, Clone)]
pub(crate) enum Values {
    Ordinals(Arc<Vec<u64>>),
    Strings(StringViewArray),
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        match self {
            Values::Ordinals(values) => values.len(),
            Values::Strings(values) => values.len(),
        }
    }

    /// Onto large pages: they are read at random, those of many columns at a time.
    pub(super) fn collapse(&self) {
        match self {
            Values::Ordinals(values) => collapse(values),
            Values::Strings(values) => {
                collapse(values.views());
                values.data_buffers().iter().for_each(|text| collapse(text));
            }
        }
    }
}
