//! What lookups are measured on: the largest structure of its kind, and values to look up in it.
//!
//! All values are generated before the measurement and looked up once. By then the caches have dropped the first ones, and blocks
//! and pages have been verified.

use std::sync::Arc;

use tierra_column::Dictionary;
use tierra_index::JoinTable;
use tierra_interleave::{Cx, Execution, Gate, GroupSize, Lookups, for_each};
use tierra_memory::{Speed, in_mode};

use super::{CalibrateError, Effort};
use crate::calibration::LookupKind;
use crate::error::{DamageError, LookupError, ScanError};
use crate::index::inverted::InvertedPart;
use crate::manifest::row_id::RowId;
use crate::table::snapshot::Snapshot;

/// Bytes of a key's entry in an index.
const ENTRY_BYTES: u64 = 16;
/// The most columns whose cells are read.
const COLUMNS_MOST: usize = 64;

/// A structure to measure.
pub(super) struct Subject {
    /// Its name.
    pub(super) place: String,
    /// Looks up the values of a batch; returns their number.
    pub(super) look_up: LookUp,
}

type LookUp = Box<dyn FnMut(usize, &mut Lookups) -> Result<u64, CalibrateError>>;

/// A number that looks random, distinct for each input: the last steps of SplitMix64.
pub(super) fn spread(number: u64) -> u64 {
    let mixed = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Numbers that look random.
#[derive(Default)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 += 1;
        spread(self.0) % bound
    }
}

impl Subject {
    /// The subject in these tables, if it is large enough; the build side of a join belongs to no table.
    pub(super) fn of(
        kind: LookupKind,
        speed: Speed,
        tables: &[Snapshot],
        effort: Effort,
    ) -> Result<Option<Subject>, CalibrateError> {
        let found = match kind {
            LookupKind::Key => keys(tables, effort)?,
            LookupKind::Cell => cells(tables, speed, effort),
            LookupKind::Number | LookupKind::Text => values(tables, kind, effort),
            LookupKind::List | LookupKind::Stretch => postings(tables, kind, speed, effort)?,
            LookupKind::Join => Some(join(effort)),
        };
        found.map(|subject| subject.warmed(effort)).transpose()
    }

    /// The subject in these scratch tables.
    pub(super) fn scratch(
        kind: LookupKind,
        speed: Speed,
        tables: &[Snapshot],
        effort: Effort,
    ) -> Result<Subject, CalibrateError> {
        let any = Effort {
            least_bytes: 0,
            ..effort
        };
        let subject = Subject::of(kind, speed, tables, any)?;
        Ok(Subject {
            place: "a scratch table".to_owned(),
            ..subject.expect("a scratch table has a structure of each kind in each tier")
        })
    }

    fn warmed(mut self, effort: Effort) -> Result<Subject, CalibrateError> {
        for batch in 0..effort.batches() {
            (self.look_up)(batch, &mut Lookups::new(Execution::Interleaved))?;
        }
        Ok(self)
    }
}

fn sealed_rows(table: &Snapshot) -> u64 {
    table.version().segments.rows()
}

/// Sealed rows, one per lookup.
fn some_rows(table: &Snapshot, count: usize, random: &mut Random) -> Vec<RowId> {
    let mut ends = Vec::with_capacity(table.segments().len());
    let mut rows = 0;
    for segment in table.segments() {
        rows += segment.rows() as u64;
        ends.push(rows);
    }
    let row = |_| {
        let at = random.below(rows);
        let segment = ends.partition_point(|end| *end <= at);
        let (segment, end) = (&table.segments()[segment], ends[segment]);
        let row = at + segment.rows() as u64 - end;
        RowId::new(segment.id(), row as u32)
    };
    // Deleted rows cannot be read; a table with few others has fewer lookups.
    let rows = (0..count).map(row);
    rows.filter(|row| table.contains(*row)).collect()
}

/// Keys of the table with the most rows.
fn keys(tables: &[Snapshot], effort: Effort) -> Result<Option<Subject>, CalibrateError> {
    let keyed = tables.iter().filter(|table| table.table().key().is_some());
    let Some((table, key)) = keyed
        .max_by_key(|table| sealed_rows(table))
        .filter(|table| sealed_rows(table) * ENTRY_BYTES >= effort.least_bytes.max(1))
        .and_then(|table| Some((table.clone(), table.table().key()?.columns().to_vec())))
    else {
        return Ok(None);
    };
    let name = table.table().spec().name.clone();
    let arrow = |source| {
        let table = name.clone();
        LookupError::from(ScanError::Arrow { table, source })
    };
    let projection = table.table().projection(&key);
    let (mut random, mut batches) = (Random::default(), Vec::new());
    for _ in 0..effort.batches() {
        let rows = some_rows(&table, effort.lookups, &mut random);
        let rows = table.gather(&rows, &projection, &mut Lookups::default())?;
        let rows = rows.into_batch().map_err(arrow)?;
        batches.push(rows.columns().to_vec());
    }
    Ok(Some(Subject {
        place: name.clone(),
        look_up: Box::new(move |batch, lookups| {
            let found = table.rows_by_key(&batches[batch], lookups)?;
            Ok(found.len() as u64)
        }),
    }))
}

/// Cells of the table with the most of them in a tier.
fn cells(tables: &[Snapshot], speed: Speed, effort: Effort) -> Option<Subject> {
    let columns = |table: &Snapshot| -> Vec<usize> {
        let columns = 0..table.table().spec().columns.len();
        let here = |column: &usize| {
            let segments = table.segments().iter();
            segments
                .clone()
                .all(|segment| segment.speed(*column) == speed)
        };
        columns.filter(here).collect()
    };
    let bytes = |(table, columns): &(Snapshot, Vec<usize>)| -> u64 {
        let columns = columns.iter();
        let of = |column: &usize| {
            table
                .segments()
                .iter()
                .map(|segment| segment.stored_bytes(*column))
                .sum::<u64>()
        };
        columns.map(of).sum()
    };
    let tables = tables.iter().map(|table| (table.clone(), columns(table)));
    let (table, mut columns) = tables
        .max_by_key(bytes)
        .filter(|most| bytes(most) >= effort.least_bytes.max(1))?;
    columns.truncate(COLUMNS_MOST);
    let projection = table.table().projection(&columns);
    let rows = effort.lookups.div_ceil(columns.len());
    let mut random = Random::default();
    let rows: Vec<_> = (0..effort.batches())
        .map(|_| some_rows(&table, rows, &mut random))
        .collect();
    Some(Subject {
        place: table.table().spec().name.clone(),
        look_up: Box::new(move |batch, lookups| {
            table.gather(&rows[batch], &projection, lookups)?;
            Ok((rows[batch].len() * columns.len()) as u64)
        }),
    })
}

/// Values of the largest dictionary.
fn values(tables: &[Snapshot], kind: LookupKind, effort: Effort) -> Option<Subject> {
    let of_table = |table: &Snapshot| -> Vec<(String, Arc<Dictionary>)> {
        let (table, version) = (table.table().spec(), table.version());
        let named = table.columns.iter().zip(version.dictionaries.iter());
        let named = named.filter_map(|(column, dictionary)| {
            Some((
                format!("{}.{}", table.name, column.name),
                dictionary.clone()?,
            ))
        });
        named.collect()
    };
    let of_kind = |(_, dictionary): &(String, Arc<Dictionary>)| {
        LookupKind::in_dictionary(dictionary.logical_type()) == kind && !dictionary.is_empty()
    };
    let (place, dictionary) = tables
        .iter()
        .flat_map(of_table)
        .filter(of_kind)
        .max_by_key(|(_, dictionary)| dictionary.len_bytes())
        .filter(|(_, dictionary)| dictionary.len_bytes() as u64 >= effort.least_bytes)?;
    let mut random = Random::default();
    let mut value = || dictionary.value(random.below(dictionary.len() as u64) as u32);
    let mut batch = || -> Vec<_> { (0..effort.lookups).map(|_| value()).collect() };
    let batches: Vec<_> = (0..effort.batches()).map(|_| batch()).collect();
    Some(Subject {
        place,
        look_up: Box::new(move |batch, lookups| {
            let codes = dictionary.code_of_many(&batches[batch], lookups);
            Ok(codes.len() as u64)
        }),
    })
}

/// Codes in the largest part of an inverted index, or their lists in it.
fn postings(
    tables: &[Snapshot],
    kind: LookupKind,
    speed: Speed,
    effort: Effort,
) -> Result<Option<Subject>, CalibrateError> {
    let suits = |(_, part): &(String, Arc<InvertedPart>)| {
        part.speed() == speed
            && !part.is_given_up()
            && (kind == LookupKind::List || part.has_lists())
    };
    let of_table = |table: &Snapshot| -> Vec<_> {
        let spec = table.table().spec();
        let named = |part: &Arc<InvertedPart>| {
            let column = spec.columns[part.column()].name.clone();
            (format!("{}.{column}", spec.name), part.clone())
        };
        table.version().indexes.iter().map(named).collect()
    };
    let parts = tables.iter().flat_map(of_table).filter(suits);
    let Some((place, part)) = parts
        .max_by_key(|(_, part)| part.extent().len_bytes())
        .filter(|(_, part)| part.extent().len_bytes() >= effort.least_bytes)
    else {
        return Ok(None);
    };
    let column = place.clone();
    let damaged = move |source| DamageError::Index {
        column: column.clone(),
        source,
    };
    let mut random = Random::default();
    let mut batch = || -> Vec<u32> {
        let code = |_| random.below(part.codes()) as u32;
        (0..effort.lookups).map(code).collect()
    };
    let codes: Vec<_> = (0..effort.batches()).map(|_| batch()).collect();
    let look_up: LookUp = if kind == LookupKind::List {
        Box::new(move |batch, lookups| {
            part.lists(&codes[batch], lookups).map_err(&damaged)?;
            Ok(codes[batch].len() as u64)
        })
    } else {
        let lists = |codes: &Vec<u32>| part.lists(codes, &mut Lookups::default());
        let lists = codes.iter().map(lists).collect::<Result<Vec<_>, _>>();
        let lists = lists.map_err(&damaged)?;
        Box::new(move |batch, lookups| {
            let mut rows = 0;
            part.positions(&lists[batch], lookups, |_| rows += 1)
                .map_err(&damaged)?;
            debug_assert!(rows <= lists[batch].most());
            Ok(lookups.report().lookups)
        })
    };
    Ok(Some(Subject { place, look_up }))
}

/// Keys in the build side of a join, all of which exist.
fn join(effort: Effort) -> Subject {
    let numbers: Vec<u64> = (0..effort.rows / 2).map(spread).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let table = JoinTable::build(&numbers, |_| true, threads);
    let mut random = Random::default();
    let mut batch = || -> Vec<u64> {
        let number = |_| spread(random.below(effort.rows / 2));
        (0..effort.lookups).map(number).collect()
    };
    let batches: Vec<_> = (0..effort.batches()).map(|_| batch()).collect();
    let gate = Gate::new(GroupSize::DEFAULT);
    Subject {
        place: format!("{} rows", numbers.len()),
        look_up: Box::new(move |batch, lookups| {
            let (numbers, mut found) = (&batches[batch][..], 0);
            lookups.run(&gate, numbers.len(), |execution, size, part| {
                in_mode!(execution, M => for_each(
                    size,
                    &numbers[part],
                    |cx: Cx<M>, number| table.find(cx, *number),
                    |_, row| found += u64::from(row.is_some()),
                ))
            });
            debug_assert_eq!(found, numbers.len() as u64);
            Ok(found)
        }),
    }
}
