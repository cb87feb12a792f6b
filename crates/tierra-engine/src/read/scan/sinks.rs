//! Where a cursor puts what it reads: into arrays of values, into totals, or into totals by group.
//!
//! Invariant: what sinks hold came from the batch that is being filled, and is discarded with it.

use arrow::array::ArrayRef;
use tierra_column::bits::{BLOCK_LEN, Mask};
use tierra_column::{
    Chunk, ColumnGroups, ColumnReader, ColumnTotals, Dictionary, EncodeError, FormatError,
    GroupTotals, Scratch, Totals,
};

use super::shared::Scan;
use super::spec::Output;

/// Totals of the rows that a cursor has read since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanTotals {
    /// Rows that meet the conditions.
    pub rows: u64,
    /// By column of the projection.
    pub columns: Vec<Totals>,
}

/// Totals, by group, of the rows that a cursor has read since the last call. Two groups may have the same value.
#[derive(Clone, Debug)]
pub struct ScanGroups {
    /// The value of each group.
    pub values: ArrayRef,
    /// By group: rows that meet the conditions.
    pub rows: Vec<u64>,
    /// By column of the projection, then by group; without groups where nothing is wanted of the column.
    pub columns: Vec<Vec<Totals>>,
}

/// The sinks of all columns of a projection, in its order.
pub(super) enum Sinks {
    Values(Vec<ColumnReader>),
    Totals(Vec<ColumnTotals>),
    Groups(Box<Grouping>),
}

/// Totals by the groups of one column, which is read before the others.
pub(super) struct Grouping {
    /// Its place in the projection.
    of: usize,
    groups: ColumnGroups,
    /// Groups of the rows that are being read.
    of_rows: Vec<u32>,
    /// By group.
    rows: Vec<u64>,
    columns: Vec<Option<GroupTotals>>,
}

impl Grouping {
    /// Counts the rows whose groups are known.
    fn count(&mut self) {
        self.rows.resize(self.groups.len(), 0);
        for group in &self.of_rows {
            self.rows[*group as usize] += 1;
        }
    }

    fn append(
        &mut self,
        place: usize,
        chunk: &Chunk<'_>,
        block: usize,
        mask: &Mask,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
    ) -> Result<(), FormatError> {
        if place == self.of {
            self.of_rows.clear();
            self.groups
                .append(chunk, block, mask, dictionary, scratch, &mut self.of_rows)?;
            self.count();
        }
        match &mut self.columns[place] {
            None => Ok(()),
            Some(totals) => {
                let (groups, of_rows) = (&self.groups, &self.of_rows);
                totals.append(groups, of_rows, chunk, block, mask, dictionary, scratch)
            }
        }
    }

    fn append_array(&mut self, place: usize, array: &ArrayRef) -> Result<(), EncodeError> {
        if place == self.of {
            self.of_rows.clear();
            self.groups.append_array(array, &mut self.of_rows)?;
            self.count();
        }
        match &mut self.columns[place] {
            None => Ok(()),
            Some(totals) => totals.append_array(&self.groups, &self.of_rows, array),
        }
    }

    fn take(&mut self) -> Result<ScanGroups, FormatError> {
        let groups = &self.groups;
        let totals = self.columns.iter_mut().map(|totals| match totals {
            None => Vec::new(),
            Some(totals) => totals.finish(groups),
        });
        let columns = totals.collect();
        Ok(ScanGroups {
            values: self.groups.finish()?,
            rows: std::mem::take(&mut self.rows),
            columns,
        })
    }
}

impl Sinks {
    /// Empty sinks of a scan.
    pub(super) fn of(scan: &Scan) -> Self {
        match &scan.output {
            Output::Rows | Output::RowsWithIds => Self::Values(readers(scan)),
            Output::Totals(wanted) => {
                let spec = scan.snapshot.table().spec();
                let types = scan.spec.projection.iter().map(|it| spec.columns[*it].ty);
                let totals = types.zip(wanted);
                let totals = totals.map(|(ty, wanted)| ColumnTotals::new(ty, *wanted));
                Self::Totals(totals.collect())
            }
            Output::Groups { of, wanted } => {
                let spec = scan.snapshot.table().spec();
                let types = scan.spec.projection.iter().map(|it| spec.columns[*it].ty);
                let columns = types.zip(wanted);
                let columns = columns.map(|(ty, wanted)| Some(GroupTotals::new(ty, (*wanted)?)));
                Self::Groups(Box::new(Grouping {
                    of: *of,
                    groups: ColumnGroups::new(spec.columns[scan.spec.projection[*of]].ty),
                    of_rows: Vec::new(),
                    rows: Vec::new(),
                    columns: columns.collect(),
                }))
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Values(readers) => readers.len(),
            Self::Totals(totals) => totals.len(),
            Self::Groups(grouping) => grouping.columns.len(),
        }
    }

    /// The place that is read as number `at`: first that of the column of groups.
    #[inline]
    pub(super) fn place(&self, at: usize) -> usize {
        match self {
            Self::Values(_) | Self::Totals(_) => at,
            Self::Groups(grouping) if at == 0 => grouping.of,
            Self::Groups(grouping) if at == grouping.of => 0,
            Self::Groups(_) => at,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether they hold the values of rows.
    pub(super) fn are_values(&self) -> bool {
        matches!(self, Self::Values(_))
    }

    /// Takes `rows` rows of a block in without reading it, if the chunk's header knows enough of them.
    #[inline]
    pub(super) fn add_known(
        &mut self,
        place: usize,
        chunk: &Chunk<'_>,
        block: usize,
        rows: usize,
    ) -> bool {
        match self {
            Self::Values(_) | Self::Groups(_) => false,
            Self::Totals(totals) => totals[place].add_known(chunk, block, rows),
        }
    }

    /// Takes in the rows of a block that `mask` selects; returns whether values were unpacked.
    #[inline]
    pub(super) fn append(
        &mut self,
        place: usize,
        chunk: &Chunk<'_>,
        block: usize,
        mask: &Mask,
        dictionary: Option<&Dictionary>,
        scratch: &mut Scratch,
    ) -> Result<bool, FormatError> {
        match self {
            Self::Values(readers) => {
                readers[place].append(chunk, block, mask, dictionary, scratch)?;
                Ok(true)
            }
            Self::Totals(totals) => totals[place].append(chunk, block, mask, dictionary, scratch),
            Self::Groups(grouping) => {
                grouping.append(place, chunk, block, mask, dictionary, scratch)?;
                Ok(true)
            }
        }
    }

    /// Takes in all rows of an array.
    pub(super) fn append_array(
        &mut self,
        place: usize,
        array: &ArrayRef,
    ) -> Result<(), EncodeError> {
        match self {
            Self::Values(readers) => readers[place].append_array(array),
            Self::Totals(totals) => totals[place].append_array(array),
            Self::Groups(grouping) => grouping.append_array(place, array),
        }
    }

    /// The values of a column; `None` if there are totals instead. The sink is empty again.
    pub(super) fn take_values(&mut self, place: usize) -> Option<ArrayRef> {
        match self {
            Self::Values(readers) => Some(readers[place].finish()),
            Self::Totals(_) | Self::Groups(_) => None,
        }
    }

    /// The totals of all columns; `None` if that is not what they are. The sinks are empty again.
    pub(super) fn take_totals(&mut self) -> Option<Vec<Totals>> {
        match self {
            Self::Totals(totals) => Some(totals.iter_mut().map(ColumnTotals::finish).collect()),
            Self::Values(_) | Self::Groups(_) => None,
        }
    }

    /// The totals of all columns by group; `None` if that is not what they are. The sinks are empty again.
    ///
    /// # Errors
    /// [`FormatError`] where a group's value is none.
    pub(super) fn take_groups(&mut self) -> Result<Option<ScanGroups>, FormatError> {
        match self {
            Self::Groups(grouping) => grouping.take().map(Some),
            Self::Values(_) | Self::Totals(_) => Ok(None),
        }
    }
}

/// Empty readers of a scan's columns.
pub(super) fn readers(scan: &Scan) -> Vec<ColumnReader> {
    let spec = scan.snapshot.table().spec();
    let capacity = scan.spec.batch_rows + BLOCK_LEN;
    let reader = |column: &usize| ColumnReader::new(spec.columns[*column].ty, capacity);
    scan.spec.projection.iter().map(reader).collect()
}
