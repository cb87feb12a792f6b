//! The specification of a scan, and its counters.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use tierra_column::{Filter, WantedTotals};
use tierra_interleave::Scheduling;

/// The rows and columns that a scan returns.
#[derive(Clone, Debug)]
pub struct ScanSpec {
    /// Columns of the result, in its order; none if only the number of rows matters.
    pub projection: Vec<usize>,
    /// Conditions that every returned row meets, each on one column.
    pub filters: Vec<(usize, Filter)>,
    /// Approximate rows of a batch: up to a block more.
    pub batch_rows: usize,
    /// How the values of an IN-list are looked up in a column's dictionary.
    pub execution: Scheduling,
}

/// What a scan makes of the rows.
#[derive(Debug)]
pub(super) enum Output {
    Rows,
    /// With a last column of their ids.
    RowsWithIds,
    /// By column of the projection.
    Totals(Vec<WantedTotals>),
    /// The same of the groups of one of these columns; `None` where nothing is wanted of a column.
    Groups {
        of: usize,
        wanted: Vec<Option<WantedTotals>>,
    },
}

/// Whether a scan asks inverted indexes; the result does not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IndexUse {
    /// If that is estimated to cost less than testing rows.
    #[default]
    WhereCheaper,
    /// If there is an index; for comparison.
    Always,
    /// Not at all; for comparison.
    Never,
}

/// What a cursor has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Blocks of which bytes were read; a block has 1,024 rows of one column.
    pub blocks_read: u64,
    /// Blocks of wanted columns that were not read, because minima, maxima, an index or other columns ruled out all of their
    /// rows, or because an index knew them.
    pub blocks_skipped: u64,
    /// Blocks of which values were unpacked.
    pub blocks_decoded: u64,
    /// Rows of the tail that were examined.
    pub tail_rows: u64,
    /// Bytes of those blocks and rows read from near memory.
    pub bytes_near: u64,
    /// Bytes read from far memory, in place or in frames.
    pub bytes_far: u64,
    /// Bytes copied from far memory into frames. 0 if everything was read in place, or was in frames before.
    pub bytes_copied: u64,
    /// Blocks that a helper thread was asked to prefetch, each column counted.
    pub blocks_helped: u64,
    /// Blocks that another scan of the batch had read, or unpacked; none of them is counted as read.
    pub blocks_shared: u64,
    /// Blocks that were read in other tiers or replicas than their segment was to be read in when it was opened, because of who reads
    /// there.
    pub blocks_elsewhere: u64,
    /// Rows returned.
    pub rows: u64,
    /// Values looked up in dictionaries, once per scan regardless of the number of segments.
    pub lookups: u64,
    /// Lookups in inverted indexes: of each code in each part, and of the rows it lists.
    pub index_lookups: u64,
    /// How often a lookup yielded to another: 0 if lookups run plain.
    pub suspensions: u64,
}

impl std::ops::AddAssign for ScanCounters {
    fn add_assign(&mut self, other: Self) {
        self.blocks_read += other.blocks_read;
        self.blocks_skipped += other.blocks_skipped;
        self.blocks_decoded += other.blocks_decoded;
        self.tail_rows += other.tail_rows;
        self.bytes_near += other.bytes_near;
        self.bytes_far += other.bytes_far;
        self.bytes_copied += other.bytes_copied;
        self.blocks_helped += other.blocks_helped;
        self.blocks_shared += other.blocks_shared;
        self.blocks_elsewhere += other.blocks_elsewhere;
        self.rows += other.rows;
        self.lookups += other.lookups;
        self.index_lookups += other.index_lookups;
        self.suspensions += other.suspensions;
    }
}

/// The column of row ids that [`Snapshot::scan_with_row_ids`](crate::Snapshot::scan_with_row_ids) adds to those of a table with the
/// schema `table`. It has a name that no column of the table has.
pub fn row_id_field(table: &Schema) -> FieldRef {
    let mut name = "row id".to_string();
    while table.column_with_name(&name).is_some() {
        name.push('\'');
    }
    Arc::new(Field::new(name, DataType::UInt64, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_of_row_ids_has_a_name_of_its_own() {
        let table = |names: &[&str]| {
            let fields = names.iter();
            let fields = fields.map(|name| Field::new(*name, DataType::Int32, true));
            Schema::new(fields.collect::<Vec<_>>())
        };
        assert_eq!(row_id_field(&table(&["k"])).name(), "row id");
        let taken = table(&["row id'", "k", "row id"]);
        assert_eq!(row_id_field(&taken).name(), "row id''");
    }
}
