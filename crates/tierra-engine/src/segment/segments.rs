//! The segments of a version.
//!
//! Invariant: segments are ordered by id.

use std::ops::Deref;
use std::sync::Arc;

use super::Segment;

/// The segments of a version. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments(Arc<[Arc<Segment>]>);

impl Segments {
    /// The index of the segment of that id.
    pub(crate) fn position(&self, id: u32) -> Option<usize> {
        self.0
            .binary_search_by_key(&id, |segment| segment.id())
            .ok()
    }

    /// The segment of that id.
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<Segment>> {
        Some(&self.0[self.position(id)?])
    }

    /// Rows of all segments.
    pub(crate) fn rows(&self) -> u64 {
        self.0.iter().map(|segment| segment.rows() as u64).sum()
    }

    /// These segments and more.
    pub(crate) fn with(&self, added: impl IntoIterator<Item = Arc<Segment>>) -> Self {
        self.0.iter().cloned().chain(added).collect()
    }
}

impl FromIterator<Arc<Segment>> for Segments {
    fn from_iter<T: IntoIterator<Item = Arc<Segment>>>(segments: T) -> Self {
        let mut segments: Vec<_> = segments.into_iter().collect();
        segments.sort_unstable_by_key(|segment| segment.id());
        Self(segments.into())
    }
}

impl Deref for Segments {
    type Target = [Arc<Segment>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
