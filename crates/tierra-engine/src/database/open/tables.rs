//! Reads back the tables of a manifest: segments, dictionaries, parts of indexes, runs of keys and tails.
//!
//! Every row comes from a chunk with a valid header, or from a record with a valid checksum. If one copy fails, another is read.
//! What fails in all copies is withheld, together with what needs it: the columns of a dictionary, the table of a log.

use std::path::Path;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::error::ArrowError;
use tierra_column::Dictionary;
use tierra_memory::ExtentLabel;

use super::missing_parts::{self, Withheld, warn_of_part, warn_of_run};
use crate::calibration::Calibration;
use crate::error::LogError;
use crate::error::{DamageError, OpenError};
use crate::index::inverted::InvertedPart;
use crate::index::key::{KeyIndexCell, KeyRun};
use crate::integrity::repair;
use crate::manifest::SEGMENT_ROWS;
use crate::manifest::{DictionaryEntry, ExtentId, StoredRange, TableEntry};
use crate::segment::{Segment, Segments};
use crate::storage::extent::{ExtentCopy, OwnedExtent, Owner};
use crate::storage::faults::{FaultKind, HEADER};
use crate::storage::tiers::Tiers;
use crate::table::Missing;
use crate::table::version::TableVersion;
use crate::tail::{self, Named, Replayed, Tail, TailLog};
use crate::write::writer::Published;

/// A table as it was read.
pub(crate) struct OpenedTable {
    pub(crate) entry: Arc<TableEntry>,
    pub(crate) version: TableVersion,
    pub(crate) log: TailLog,
    /// The part that cannot be read.
    pub(crate) missing: Option<Missing>,
    /// Numbers of the commits in its log that the manifest does not include.
    commits: Vec<u64>,
}

/// All tables of a database.
pub(crate) struct OpenedTables {
    pub(crate) tables: Vec<OpenedTable>,
    /// Number of the last commit.
    pub(crate) commit: u64,
}

/// All tables of the manifest. Gates of lookups start from `calibration`. Damaged parts are withheld, table by table. Records
/// that follow a newer manifest are an error, unless they are given up to go back to this one.
pub(crate) fn read_tables(
    dir: &Path,
    tiers: &Tiers,
    published: &Published,
    calibration: &Calibration,
    goes_back: bool,
) -> Result<OpenedTables, OpenError> {
    let reading = Reading {
        dir,
        published,
        calibration,
        goes_back,
    };
    let manifest = published.manifest();
    let read = |entry: &Arc<TableEntry>| {
        let is_held = |id| published.extent(id).is_some();
        let missing = missing_parts::of_table(dir, entry, tiers, &manifest.extents, is_held);
        let opened = reading.table(entry, missing);
        if let Ok(OpenedTable {
            missing: Some(missing),
            ..
        }) = &opened
        {
            let why = missing.why();
            tracing::warn!(%why, "the database is opened without it");
        }
        opened
    };
    let tables = manifest.tables.iter().map(read);
    let mut tables = tables.collect::<Result<Vec<_>, OpenError>>()?;
    reading.withhold_gap(&mut tables);
    let commits = tables.iter().flat_map(|table| &table.commits);
    let commit = commits.max().map_or(manifest.commit, |last| *last);
    Ok(OpenedTables { tables, commit })
}

/// The sources that tables are read from.
struct Reading<'a> {
    dir: &'a Path,
    published: &'a Published,
    calibration: &'a Calibration,
    goes_back: bool,
}

impl Reading<'_> {
    /// Reads a table as far as possible. The readable rows of a withheld table are for salvage.
    fn table(
        &self,
        entry: &Arc<TableEntry>,
        missing: Option<Missing>,
    ) -> Result<OpenedTable, OpenError> {
        let (dir, table) = (self.dir.to_owned(), entry.spec.name.clone());
        match self.table_with(entry, missing.clone()) {
            Err(DamageError::Log(source @ LogError::Ahead { .. })) => {
                Err(OpenError::Ahead { dir, table, source })
            }
            // Not a fault of the stored bytes.
            Err(source @ (DamageError::Pool(_) | DamageError::Replication(_))) => {
                Err(OpenError::Table { dir, table, source })
            }
            Err(error) => {
                let damaged = || missing_parts::damaged(self.dir, &entry.spec, &error);
                let why = missing.map_or_else(damaged, |missing| missing.why().clone());
                Ok(without_rows(entry, Missing::Rows(why)))
            }
            Ok(opened) => Ok(opened),
        }
    }

    fn table_with(
        &self,
        entry: &Arc<TableEntry>,
        mut missing: Option<Missing>,
    ) -> Result<OpenedTable, DamageError> {
        let is_there = |id| self.published.extent(id).is_some();
        let logs = &entry.tail.logs;
        let (dictionaries, withheld) = self.dictionaries(entry, missing.as_ref())?;
        if let Some(why) = withheld.values().next().cloned() {
            let is_partial = missing_parts::has_columns(entry, &withheld, is_there);
            missing = missing.or(Some(match is_partial {
                true => Missing::Columns(why),
                false => Missing::Rows(why),
            }));
        }
        let mut segments = Vec::with_capacity(entry.segments.len());
        for segment in &entry.segments {
            let extents = segment
                .extents
                .iter()
                .map(|id| self.published.extent(*id).cloned())
                .collect();
            let why = missing.as_ref().map(Missing::why);
            let segment = Segment::open(segment.clone(), extents, &entry.spec, why, &withheld)?;
            for extent in segment.extents().iter().flatten() {
                restore_header(extent, || segment.is_whole_in(extent))?;
            }
            segments.push(segment);
        }
        let segments: Segments = segments.into_iter().collect();
        // A part can be built again; until then its rows are scanned. The writer names other parts instead.
        let parts = entry.parts.iter().filter_map(|part| {
            // Without a column's chunks or dictionary, parts of its index may be missing.
            let extent = self.published.extent(part.extent)?.clone();
            let column = part.column as usize;
            let dictionary = dictionaries[column].as_deref();
            if withheld.contains_key(&column) {
                return None;
            }
            let opened = InvertedPart::open(
                part.clone(),
                extent,
                self.calibration,
                &segments,
                dictionary,
            );
            opened
                .inspect_err(|error| warn_of_part(&entry.spec, part, error))
                .ok()
        });
        let indexes: Vec<_> = parts.collect();
        for part in &indexes {
            restore_header(part.extent(), || part.is_whole())?;
        }
        let runs = entry.runs.iter().filter_map(|run| {
            let extent = self.published.extent(run.extent)?.clone();
            let opened = KeyRun::open(run.clone(), extent, self.calibration, &segments);
            opened
                .inspect_err(|error| warn_of_run(&entry.spec, error))
                .ok()
        });
        let runs: Vec<_> = runs.collect();
        for run in &runs {
            restore_header(run.extent(), || run.is_whole())?;
        }
        let (tail, log, commits, damage) = match logs.iter().all(|log| is_there(log.extent)) {
            true => self.tail(entry)?,
            false => {
                let log = TailLog::starting_at(entry.tail.first_sequence);
                (Tail::empty(entry.tail.segment_id), log, Vec::new(), None)
            }
        };
        if let Some(damage) = damage {
            let why = missing_parts::damaged(self.dir, &entry.spec, &damage);
            missing = Some(Missing::Rows(why));
        }
        let version = TableVersion {
            segments,
            dictionaries: dictionaries.into(),
            indexes: indexes.into(),
            tail,
            keys: KeyIndexCell::of(runs),
        };
        Ok(OpenedTable {
            entry: entry.clone(),
            version,
            log,
            missing,
            commits,
        })
    }

    /// Commits have consecutive numbers. If a number is in no log, the tables that may have had that commit are withheld. An
    /// unreadable log may have had it; then no table is withheld.
    fn withhold_gap(&self, tables: &mut [OpenedTable]) {
        if tables
            .iter()
            .any(|table| matches!(table.missing, Some(Missing::Rows(_))))
        {
            return;
        }
        let commits = tables.iter().flat_map(|table| &table.commits);
        let mut commits: Vec<u64> = commits.copied().collect();
        commits.sort_unstable();
        // A failed commit may have been written, and its number given to the next one.
        commits.dedup();
        let mut numbered = commits.iter().zip(self.published.manifest().commit + 1..);
        let Some((_, lost)) = numbered.find(|(found, expected)| *found != expected) else {
            return;
        };
        // A log is whole up to its last record, so a lost commit came after that.
        let may_have_had_it = |table: &OpenedTable| {
            !table.entry.tail.logs.is_empty()
                && table.commits.last().is_none_or(|last| *last < lost)
        };
        let any = tables.iter().any(may_have_had_it);
        let suspects = tables.iter_mut();
        let suspects: Vec<_> = suspects
            .filter(|table| !table.entry.tail.logs.is_empty() && (!any || may_have_had_it(table)))
            .collect();
        let names = suspects
            .iter()
            .map(|table| format!("{:?}", table.entry.spec.name));
        let names: Vec<_> = names.collect();
        for table in suspects {
            let gap = LogError::Gap {
                commit: lost,
                tables: names.join(" or "),
            };
            let why = missing_parts::damaged(self.dir, &table.entry.spec, &gap);
            tracing::warn!(%why, "the database is opened without it");
            table.missing = Some(Missing::Rows(why));
            // The next manifest includes the commit, which hides the gap; the log's length still shows it.
            table.log = TailLog::starting_at(table.log.next_sequence() + 1);
        }
    }
}

/// A table whose rows are unreadable.
fn without_rows(entry: &Arc<TableEntry>, missing: Missing) -> OpenedTable {
    OpenedTable {
        entry: entry.clone(),
        version: TableVersion::without_rows(entry.spec.columns.len(), entry.tail.segment_id),
        log: TailLog::starting_at(entry.tail.first_sequence),
        missing: Some(missing),
        commits: Vec::new(),
    }
}

/// Restores the header of an extent's only copy if the header is damaged and the content is right.
fn restore_header(
    extent: &OwnedExtent,
    is_valid: impl FnOnce() -> bool,
) -> Result<(), DamageError> {
    let copy = extent.first();
    if !copy.pool().has_damaged_header(copy.extent()) || copy.pool().is_read_only() {
        return Ok(());
    }
    let log = &extent.all_losses().log;
    log.found(extent, copy, HEADER, FaultKind::Header);
    if is_valid() {
        let sealed = !matches!(extent.owner(), Owner::Log(_));
        let label = ExtentLabel {
            owner: extent.owner().tag(),
            payload_crc: sealed.then(|| crc32c::crc32c(copy)),
        };
        copy.pool().restore_header(copy.extent(), &label)?;
        log.repaired(extent, copy, &(0..usize::MAX), "what it heads");
    }
    Ok(())
}

/// An extent that a table names.
fn extent(published: &Published, id: ExtentId) -> &Arc<OwnedExtent> {
    let held = published.extent(id);
    held.expect("a table without one of its extents is read without what lies there")
}

/// Where bytes of an extent lie in each present tier.
fn places(extent: &OwnedExtent, at: u64) -> String {
    let copies = extent.copies().iter();
    let places = copies.map(|copy| {
        let (path, offset) = (copy.pool().path().display(), copy.extent().offset + at);
        format!("tier {:?} (byte {offset} of {path})", copy.tier_name())
    });
    places.collect::<Vec<_>>().join(", ")
}

/// Dictionaries by column, and the columns whose dictionary cannot be read.
type ReadDictionaries = (Vec<Option<Arc<Dictionary>>>, Withheld);

impl Reading<'_> {
    /// The dictionaries, each read from the first right copies, and the columns whose dictionaries cannot be read. Other copies
    /// are repaired.
    fn dictionaries(
        &self,
        entry: &TableEntry,
        missing: Option<&Missing>,
    ) -> Result<ReadDictionaries, DamageError> {
        let (mut dictionaries, mut withheld) = (Vec::new(), Withheld::new());
        for (column, dictionary) in entry.dictionaries.iter().enumerate() {
            let Some(dictionary) = dictionary else {
                dictionaries.push(None);
                continue;
            };
            let name = &entry.spec.columns[column].name;
            let places_of = || std::iter::once(&dictionary.main).chain(&dictionary.deltas);
            let is_gone = |place: &StoredRange| self.published.extent(place.extent).is_none();
            let opened = match missing {
                Some(missing) if places_of().any(is_gone) => Err(missing.why().of_column(name)),
                _ => self.dictionary(entry, column, dictionary).map_err(|error| {
                    let main = extent(self.published, dictionary.main.extent);
                    let place = places(main, dictionary.main.offset);
                    let what = format!("{error}, in {place}");
                    missing_parts::damaged(self.dir, &entry.spec, &what).of_column(name)
                }),
            };
            dictionaries.push(match opened {
                Ok(opened) => {
                    for place in places_of() {
                        restore_header(extent(self.published, place.extent), || true)?;
                    }
                    Some(opened)
                }
                Err(why) => {
                    withheld.insert(column, why);
                    None
                }
            });
        }
        Ok((dictionaries, withheld))
    }

    /// A dictionary whose images are all present.
    fn dictionary(
        &self,
        entry: &TableEntry,
        column: usize,
        dictionary: &DictionaryEntry,
    ) -> Result<Arc<Dictionary>, DamageError> {
        let places = || std::iter::once(&dictionary.main).chain(&dictionary.deltas);
        let copies = places().map(|place| extent(self.published, place.extent).copies().len());
        let copies = copies.max().unwrap_or(1);
        let open = |copy| {
            open_dictionary(
                self.published,
                entry,
                column,
                dictionary,
                self.calibration,
                copy,
            )
        };
        let mut opened = open(0);
        for copy in 1..copies {
            if opened.is_ok() {
                break;
            }
            let other = open(copy);
            if other.is_ok() {
                for place in places() {
                    let extent = extent(self.published, place.extent);
                    repair::range(extent, copy_of(extent, copy), range(place));
                }
                opened = other;
            }
        }
        opened
    }
}

fn range(place: &StoredRange) -> std::ops::Range<usize> {
    place.offset as usize..(place.offset + place.len_bytes) as usize
}

/// The copy with that number; the last one if there are fewer.
fn copy_of(extent: &OwnedExtent, copy: usize) -> &Arc<ExtentCopy> {
    let copies = extent.copies();
    &copies[copy.min(copies.len() - 1)]
}

fn open_dictionary(
    published: &Published,
    entry: &TableEntry,
    column: usize,
    dictionary: &DictionaryEntry,
    calibration: &Calibration,
    copy: usize,
) -> Result<Arc<Dictionary>, DamageError> {
    let image = |place: &StoredRange| {
        let bytes = copy_of(extent(published, place.extent), copy);
        &bytes[range(place)]
    };
    let ty = entry.spec.columns[column].ty;
    let deltas: Vec<&[u8]> = dictionary.deltas.iter().map(image).collect();
    let opened = Dictionary::open(ty, dictionary.generation, image(&dictionary.main), &deltas);
    let opened = opened.map_err(|source| DamageError::Dictionary {
        column: entry.spec.columns[column].name.clone(),
        source,
    })?;
    Ok(Arc::new(opened.with_gate(calibration.dictionary_gate(ty))))
}

/// The tail's rows, its log with the position of the next record, the commits beyond the manifest's, and the damage, if any: then
/// these are the rows that can still be read.
type ReadTail = (Tail, TailLog, Vec<u64>, Option<String>);

impl Reading<'_> {
    fn tail(&self, entry: &TableEntry) -> Result<ReadTail, DamageError> {
        let schema = entry.spec.schema();
        let mut tail = Tail::empty(entry.tail.segment_id);
        let copies_of = |id| {
            let copies = extent(self.published, id).copies().iter();
            copies.map(|copy| &***copy).collect()
        };
        let mut push = |sequence: u64, payload: &[u8], logged_bytes: u64| {
            // In near memory, aligned for arrow.
            let mut near = MutableBuffer::with_capacity(payload.len());
            near.extend_from_slice(payload);
            let rows = tail::decode(&schema, &Buffer::from(near));
            let pushed = rows.and_then(|rows| {
                if tail.rows() as usize + rows.num_rows() > SEGMENT_ROWS {
                    let why = format!("more than {SEGMENT_ROWS} rows in one tail");
                    return Err(ArrowError::IpcError(why));
                }
                tail.push(rows, logged_bytes)
            });
            tail = pushed.map_err(|source| LogError::Rows { sequence, source })?;
            Ok(())
        };
        let manifest = self.published.manifest();
        let named = Named {
            tail: &entry.tail,
            version: manifest.version,
            commit: manifest.commit,
            goes_back: self.goes_back,
        };
        let Replayed {
            end,
            repairs,
            commits,
        } = match tail::replay(named, copies_of, &mut push) {
            Ok(replayed) => replayed,
            Err(error @ LogError::Ahead { .. }) => return Err(error.into()),
            Err(error) => {
                let from = match &error {
                    LogError::Damaged { sequence, .. } => *sequence,
                    _ => u64::MAX,
                };
                let (later, all) = tail::later(&entry.tail, copies_of, from);
                let (mut behind, first) = (0, entry.tail.first_sequence);
                for (sequence, payload) in &later {
                    behind += u64::from(push(*sequence, payload, payload.len() as u64).is_ok());
                }
                let before = from.saturating_sub(first).min(all);
                let mut what = error.to_string();
                if let LogError::Damaged { extent: id, at, .. } = error
                    && let Some(extent) = self.published.extent(ExtentId(id))
                {
                    let place = places(extent, at as u64);
                    what += &format!(
                        ", in {place}; of {all} records, {before} before it and {behind} behind it can be read"
                    );
                }
                let log = TailLog::starting_at(first);
                return Ok((tail, log, Vec::new(), Some(what)));
            }
        };
        tail::repair(&repairs, |id| &**extent(self.published, id))?;
        for log in &entry.tail.logs {
            restore_header(extent(self.published, log.extent), || true)?;
        }
        // A killed process may have left its last record in the CPU caches. The record becomes visible now and others will follow
        // it, so it is flushed: a power cut must not lose it.
        let last = entry.tail.logs.last();
        let last = last.map(|log| &**extent(self.published, log.extent));
        for copy in last.iter().flat_map(|extent| extent.copies()) {
            copy.pool().persist_log(copy.extent(), end.at)?;
        }
        Ok((tail, TailLog::reopened(last, end)?, commits, None))
    }
}
