//! Placeholders for chunks that cannot be read: all copies are in missing tiers or have damaged headers, or the dictionary
//! is unreadable.
//!
//! The other columns of their rows can be read. A placeholder, a chunk of as many NULLs, takes the chunk's place in its segment.
//!
//! Invariant: no answer contains a placeholder's content. Reading a block verifies it first, which fails here. Readers that use
//! only headers check [`Segment::is_placeholder`](crate::segment::Segment::is_placeholder).

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::new_null_array;
use tierra_column::{ChunkPlan, Encoding, FormatError, LogicalType};

use crate::error::{ScanError, UnavailableError};
use crate::spec::TableSpec;

/// Why a chunk cannot be read.
#[derive(Clone, Debug)]
pub(crate) enum PlaceholderReason {
    /// Its tiers are missing, or the dictionary of its codes cannot be read.
    Withheld(UnavailableError),
    /// Its header is damaged in all copies, or its replicas have different values.
    Damaged(FormatError),
}

/// The placeholders of a segment, by column.
pub(crate) type Placeholders = BTreeMap<usize, PlaceholderReason>;

impl PlaceholderReason {
    /// The error for a read of a block of the chunk.
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

/// The type of every placeholder, regardless of the column's: not every type can be stored in zero bytes.
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
    fn a_placeholder_is_little_more_than_its_header() {
        for rows in [1, 1024, 70_000] {
            let bytes = chunk(rows);
            let chunk = Chunk::open(&bytes, PLACEHOLDER_TYPE).unwrap();
            assert_eq!((chunk.rows(), chunk.null_count()), (rows, rows));
            let most = Chunk::header_bytes_max(rows) + rows.div_ceil(1024) * 64 + 64;
            assert!(bytes.len() <= most, "{} of {most}", bytes.len());
        }
    }
}
