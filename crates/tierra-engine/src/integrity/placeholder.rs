//! Chunks that are not there: all their copies lie in tiers that are missing, or have heads that cannot be read, or their column's
//! dictionary cannot be.
//!
//! Their rows can be read but for the column. A placeholder, a chunk of as many NULLs, keeps their place among a segment's chunks.
//!
//! Invariant: nothing of a placeholder reaches an answer: a reader of a block has it verified first, which fails here, and
//! what descriptors tell without reading blocks asks [`Segment::is_absent`](crate::segment::Segment::is_absent).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::new_null_array;
use tierra_column::{ChunkPlan, Encoding, FormatError, LogicalType};

use crate::error::{ScanError, UnavailableError};
use crate::spec::TableSpec;

/// Why nothing of a chunk can be read.
#[derive(Clone, Debug)]
pub(crate) enum PlaceholderReason {
    /// Its tiers are missing, or what says what its codes stand for cannot be read.
    Withheld(UnavailableError),
    /// No copy has its head.
    Damaged(FormatError),
}

/// The chunks of a segment that are not there, by column.
pub(crate) type Placeholders = BTreeMap<usize, PlaceholderReason>;

impl PlaceholderReason {
    /// The error for a reader that needs a block of the chunk.
    pub(crate) fn error(
        &self,
        spec: &TableSpec,
        column: usize,
        segment: u32,
        block: usize,
    ) -> ScanError {
        let column = spec.columns[column].name.clone();
        match self {
            PlaceholderReason::Withheld(why) => why.of_column(&column).into(),
            PlaceholderReason::Damaged(source) => ScanError::Damaged {
                table: spec.name.clone(),
                column,
                segment,
                block,
                source: source.clone(),
            },
        }
    }
}

/// The type of a placeholder, whatever that of the column: not every type can be stored in no bytes.
pub(crate) const PLACEHOLDER_TYPE: LogicalType = LogicalType::BigInt;

/// A chunk of NULLs.
pub(crate) fn chunk(rows: usize) -> Arc<[u8]> {
    let nulls = [new_null_array(&PLACEHOLDER_TYPE.arrow(), rows)];
    let plan = ChunkPlan::new(
        PLACEHOLDER_TYPE,
        &nulls,
        Some(Encoding::FrameOfReference),
        None,
    );
    let plan = plan.expect("NULLs can be stored as any number is");
    let mut bytes = vec![0; plan.len_bytes()];
    plan.write(&mut bytes);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tierra_column::Chunk;

    #[test]
    fn a_stand_in_is_little_more_than_its_head() {
        for rows in [1, 1024, 70_000] {
            let bytes = chunk(rows);
            let chunk = Chunk::open(&bytes, PLACEHOLDER_TYPE).unwrap();
            assert_eq!((chunk.rows(), chunk.null_count()), (rows, rows));
            let most = Chunk::header_bytes_of(rows) + rows.div_ceil(1024) * 64 + 64;
            assert!(bytes.len() <= most, "{} of {most}", bytes.len());
        }
    }
}
