//! Reads back the tables of a manifest: segments, dictionaries, parts of indexes, runs of keys and tails.
//!
//! Every row comes from a chunk with a valid header, or from a record with a valid checksum. If one copy fails, another is read.
//! What fails in all copies is withheld, together with what needs it: the columns of a dictionary, the table of a log.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::buffer::{Buffer, MutableBuffer};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use tierra_column::Dictionary;
use tierra_memory::ExtentLabel;

use super::deletions::{self, StoredDeletions};
use super::missing_parts::{self, Withheld, warn_of_part, warn_of_run};
use super::together::{self, BeforeLast, Together};
use crate::calibration::Calibration;
use crate::deleted::Deletions;
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
use crate::tail::{self, Logged, Named, Participant, Replayed, Tail, TailLog};
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
    /// Records of its log that count only with those of other tables.
    pub(super) together: Vec<Together>,
    /// The state before the last record, if that is one of these.
    pub(super) before_last: Option<BeforeLast>,
    /// Whether something shows that the last record was acknowledged.
    pub(super) is_last_acknowledged: bool,
}

impl OpenedTable {
    /// Forgets the last record, which does not count.
    pub(super) fn undo_last(&mut self) {
        let Some(BeforeLast {
            tail,
            deletions,
            end,
        }) = self.before_last.take()
        else {
            return;
        };
        tracing::info!(
            table = self.entry.spec.name,
            record = end.sequence,
            "a commit of several tables was interrupted: it does not count"
        );
        self.version.tail = tail;
        self.version.deletions = deletions;
        self.log.end_before(end);
        let undone = self.together.pop();
        self.commits.retain(|commit| {
            undone
                .as_ref()
                .is_none_or(|undone| undone.commit != *commit)
        });
    }
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
    let reading = TableReader {
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
    together::settle(dir, &mut tables);
    reading.withhold_gap(&mut tables);
    let commits = tables.iter().flat_map(|table| &table.commits);
    let commit = commits.max().map_or(manifest.commit, |last| *last);
    Ok(OpenedTables { tables, commit })
}

/// The sources that tables are read from.
struct TableReader<'a> {
    dir: &'a Path,
    published: &'a Published,
    calibration: &'a Calibration,
    goes_back: bool,
}

impl TableReader<'_> {
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
            let why = missing.as_ref().map_or(why, |known| known.why().clone());
            missing = Some(match (is_partial, missing) {
                (true, Some(missing)) => missing,
                (true, None) => Missing::Columns(why),
                (false, _) => Missing::Rows(why),
            });
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
                restore_header(extent, || segment.matches_in(extent))?;
            }
            segments.push(segment);
        }
        let StoredDeletions {
            deletions,
            lost,
            error,
        } = deletions::stored(self.published, entry);
        if let Some(error) = error {
            let damaged =
                |what: &dyn std::fmt::Display| missing_parts::damaged(self.dir, &entry.spec, what);
            let why = match missing.take() {
                Some(missing) => missing.why().clone(),
                None => deletions::why_lost(&lost, &error, damaged),
            };
            missing = Some(Missing::Rows(why));
            // Salvage copies the others.
            segments.retain(|segment| !lost.contains(&segment.id()));
        }
        for deleted in entry.deleted.values() {
            if let Some(extent) = self.published.extent(deleted.place.extent) {
                restore_header(extent, || lost.is_empty())?;
            }
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
            restore_header(part.extent(), || part.matches_checksums())?;
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
            restore_header(run.extent(), || run.matches_checksums())?;
        }
        let empty = Tail::empty(entry.tail.segment_id);
        let read = match logs.iter().all(|log| is_there(log.extent)) {
            true => self.tail(entry, empty, deletions, &lost)?,
            false => ReadTail::without_log(entry, empty, deletions),
        };
        if let Some(damage) = read.damage {
            let why = missing_parts::damaged(self.dir, &entry.spec, &damage);
            missing = Some(Missing::Rows(why));
        }
        let version = TableVersion {
            segments,
            dictionaries: dictionaries.into(),
            indexes: indexes.into(),
            tail: read.tail,
            deletions: read.deletions,
            numbering: Arc::default(),
            keys: KeyIndexCell::of(runs),
        };
        Ok(OpenedTable {
            entry: entry.clone(),
            version,
            log: read.log,
            missing,
            commits: read.commits,
            together: read.together,
            before_last: read.before_last,
            is_last_acknowledged: read.is_last_acknowledged,
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
        together: Vec::new(),
        before_last: None,
        is_last_acknowledged: false,
    }
}

/// Restores the header of an extent's only copy if the header is damaged and the content is right.
fn restore_header(
    extent: &OwnedExtent,
    is_valid: impl FnOnce() -> bool,
) -> Result<(), DamageError> {
    let copy = extent.read();
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

impl TableReader<'_> {
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

    /// A dictionary whose pieces are all present.
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

pub(super) fn range(place: &StoredRange) -> std::ops::Range<usize> {
    place.offset as usize..(place.offset + place.len_bytes) as usize
}

/// The copy with that number; the last one if there are fewer.
pub(super) fn copy_of(extent: &OwnedExtent, copy: usize) -> &Arc<ExtentCopy> {
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
    let piece = |place: &StoredRange| {
        let bytes = copy_of(extent(published, place.extent), copy);
        &bytes[range(place)]
    };
    let ty = entry.spec.columns[column].ty;
    let deltas: Vec<&[u8]> = dictionary.deltas.iter().map(piece).collect();
    let opened = Dictionary::open(ty, dictionary.generation, piece(&dictionary.main), &deltas);
    let opened = opened.map_err(|source| DamageError::Dictionary {
        column: entry.spec.columns[column].name.clone(),
        source,
    })?;
    Ok(Arc::new(opened.with_gate(calibration.dictionary_gate(ty))))
}

/// What a table's log says.
struct ReadTail {
    tail: Tail,
    deletions: Deletions,
    /// With the position of the next record.
    log: TailLog,
    /// Beyond the manifest's.
    commits: Vec<u64>,
    together: Vec<Together>,
    before_last: Option<BeforeLast>,
    is_last_acknowledged: bool,
    /// What is wrong with it, if anything is: then tail and deletions are what can still be read.
    damage: Option<String>,
}

impl ReadTail {
    fn without_log(entry: &TableEntry, tail: Tail, deletions: Deletions) -> Self {
        Self {
            tail,
            deletions,
            log: TailLog::starting_at(entry.tail.first_sequence),
            commits: Vec::new(),
            together: Vec::new(),
            before_last: None,
            is_last_acknowledged: false,
            damage: None,
        }
    }
}

/// A table's tail and deletions after some records.
struct Replay<'a> {
    entry: &'a TableEntry,
    schema: SchemaRef,
    /// The last commit that the manifest includes.
    manifest_commit: u64,
    tail: Tail,
    deletions: Deletions,
    together: Vec<Together>,
    /// Tail and deletions before the last record, if it counts only with others.
    before_last: Option<(Tail, Deletions)>,
    /// Whether records before are missing: then positions in the tail mean nothing.
    has_gap: bool,
    /// Segments whose bitmap is lost.
    lost: &'a BTreeSet<u32>,
}

impl Replay<'_> {
    /// Does what a record says.
    fn take(&mut self, logged: &Logged<'_>) -> Result<(), LogError> {
        let Logged {
            sequence, commit, ..
        } = *logged;
        let unfit = |what| LogError::Content { sequence, what };
        let (participants, parts) =
            tail::read_payload(logged.payload, logged.participants).map_err(unfit)?;
        let is_together = !participants.is_empty();
        let before = is_together.then(|| (self.tail.clone(), self.deletions.clone()));
        let id = self.entry.id;
        let names_itself =
            |participant: &Participant| participant.table == id && participant.sequence == sequence;
        if is_together && !participants.iter().any(names_itself) {
            return Err(unfit("it is of a commit that does not name it".to_owned()));
        }
        let logged_bytes = logged.len_bytes / parts.len() as u64;
        let tail_id = self.tail.segment_id;
        for part in parts {
            let deleted = match self.has_gap {
                false => part.deleted,
                true => part.deleted.in_segments(|segment| segment != tail_id),
            };
            self.deletions = deletions::replayed(
                self.entry,
                self.manifest_commit,
                commit,
                &self.deletions,
                &self.tail,
                &deleted,
                self.lost,
            )
            .map_err(unfit)?;
            self.tail = match part.rows {
                [] => self.tail.logged(logged_bytes),
                rows => {
                    let pushed = self.push(rows, logged_bytes);
                    pushed.map_err(|source| LogError::Rows { sequence, source })?
                }
            };
        }
        self.before_last = before;
        if is_together {
            self.together.push(Together {
                sequence,
                commit,
                participants,
            });
        }
        Ok(())
    }

    fn push(&self, rows: &[u8], logged_bytes: u64) -> Result<Tail, ArrowError> {
        // In near memory, aligned for arrow.
        let mut near = MutableBuffer::with_capacity(rows.len());
        near.extend_from_slice(rows);
        let rows = tail::decode(&self.schema, &Buffer::from(near))?;
        if self.tail.rows() as usize + rows.num_rows() > SEGMENT_ROWS {
            let why = format!("more than {SEGMENT_ROWS} rows in one tail");
            return Err(ArrowError::IpcError(why));
        }
        self.tail.push(rows, logged_bytes)
    }
}

impl TableReader<'_> {
    fn tail(
        &self,
        entry: &TableEntry,
        tail: Tail,
        deletions: Deletions,
        lost: &BTreeSet<u32>,
    ) -> Result<ReadTail, DamageError> {
        let copies_of = |id| {
            let copies = extent(self.published, id).copies().iter();
            copies.map(|copy| &***copy).collect()
        };
        let manifest = self.published.manifest();
        let mut replay = Replay {
            entry,
            schema: entry.spec.schema(),
            manifest_commit: manifest.commit,
            tail,
            deletions,
            together: Vec::new(),
            before_last: None,
            has_gap: false,
            lost,
        };
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
            before_last,
        } = match tail::replay(named, copies_of, |logged| replay.take(&logged)) {
            Ok(replayed) => replayed,
            Err(error @ LogError::Ahead { .. }) => return Err(error.into()),
            Err(error) => {
                let from = match &error {
                    LogError::Damaged { sequence, .. } => *sequence,
                    _ => u64::MAX,
                };
                let (later, all) = tail::later(&entry.tail, copies_of, from);
                let (mut behind, first) = (0, entry.tail.first_sequence);
                replay.has_gap = true;
                for logged in later.values() {
                    behind += u64::from(replay.take(logged).is_ok());
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
                return Ok(ReadTail {
                    damage: Some(what),
                    ..ReadTail::without_log(entry, replay.tail, replay.deletions)
                });
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
        let before_last = replay.before_last.zip(before_last);
        Ok(ReadTail {
            is_last_acknowledged: end.acknowledges_last(entry.tail.reached),
            log: TailLog::reopened(last, end)?,
            tail: replay.tail,
            deletions: replay.deletions,
            commits,
            together: replay.together,
            before_last: before_last.map(|((tail, deletions), end)| BeforeLast {
                tail,
                deletions,
                end,
            }),
            damage: None,
        })
    }
}
