//! The segments of a version.
//!
//! Invariant: segments are ordered by id.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use tierra_column::DistinctSketch;

use super::Segment;

/// The segments of a version. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    segments: Box<[Arc<Segment>]>,
    /// By column; joined when first asked for. Versions with the same segments share it.
    distinct: OnceLock<Box<[OnceLock<SealedDistinct>]>>,
}

/// What is known of the distinct values in all chunks of a column.
#[derive(Clone, Debug, Default)]
pub(crate) struct SealedDistinct {
    /// Of the chunks that have one.
    pub(crate) sketch: DistinctSketch,
    /// What the sketch comes to.
    pub(crate) estimate: u64,
    /// Values in these chunks, repeated or not.
    pub(crate) sketched: u64,
    /// Values in chunks without a sketch and without codes, and rows that cannot be read.
    pub(crate) others: u64,
    /// Whether a chunk has codes of the column's dictionary.
    pub(crate) has_codes: bool,
}

impl Segments {
    /// The index of the segment of that id.
    pub(crate) fn position(&self, id: u32) -> Option<usize> {
        self.0
            .segments
            .binary_search_by_key(&id, |segment| segment.id())
            .ok()
    }

    /// The segment of that id.
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<Segment>> {
        Some(&self.0.segments[self.position(id)?])
    }

    /// Rows of all segments.
    pub(crate) fn rows(&self) -> u64 {
        self.iter().map(|segment| segment.rows() as u64).sum()
    }

    /// What the chunks' headers tell about the distinct values of a column; `None` without segments.
    ///
    /// # Panics
    /// If there is no such column.
    pub(crate) fn distinct(&self, column: usize) -> Option<&SealedDistinct> {
        let columns = self.first()?.chunks().len();
        let all = self.0.distinct.get_or_init(|| {
            let each = std::iter::repeat_with(OnceLock::new);
            each.take(columns).collect()
        });
        Some(all[column].get_or_init(|| {
            let mut distinct = SealedDistinct::default();
            self.iter()
                .for_each(|segment| distinct.add(segment, column));
            distinct.estimate = distinct.sketch.estimate();
            distinct
        }))
    }

    /// These segments and more.
    pub(crate) fn with(&self, added: impl IntoIterator<Item = Arc<Segment>>) -> Self {
        self.iter().cloned().chain(added).collect()
    }
}

impl FromIterator<Arc<Segment>> for Segments {
    fn from_iter<T: IntoIterator<Item = Arc<Segment>>>(segments: T) -> Self {
        let mut segments: Vec<_> = segments.into_iter().collect();
        segments.sort_unstable_by_key(|segment| segment.id());
        Self(Arc::new(Shared {
            segments: segments.into(),
            distinct: OnceLock::new(),
        }))
    }
}

impl Deref for Segments {
    type Target = [Arc<Segment>];

    fn deref(&self) -> &Self::Target {
        &self.0.segments
    }
}

impl SealedDistinct {
    fn add(&mut self, segment: &Segment, column: usize) {
        if segment.is_placeholder(column) {
            self.others += segment.rows() as u64;
            return;
        }
        // Near copies come and go.
        let chunk = segment.stored_chunk(column);
        let values = (chunk.rows() - chunk.null_count()) as u64;
        if chunk.encoding().uses_dictionary() {
            self.has_codes = true;
        } else if let Some(sketch) = chunk.distinct_sketch() {
            self.sketch.merge(&sketch);
            self.sketched += values;
        } else {
            self.others += values;
        }
    }
}
