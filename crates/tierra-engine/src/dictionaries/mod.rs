//! The dictionaries of a table while codes are given out: one builder per column, shared by all running loads and seals.
//!
//! Within a generation codes are only appended, so chunks that are encoded at the same time agree regardless of the commit order:
//! a commit publishes every value that has a code by then. A merge starts a new generation; the table's `LoadMergeLock` keeps it
//! apart from encoding.
//!
//! Invariant: the codes given out for a column continue those of its published dictionary.

pub(crate) mod published;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::ArrayRef;
use tierra_column::{ChunkPlan, Dictionary, DictionaryBuilder, EncodeError, Encoding, Physical};
use tierra_memory::LINE_BYTES;

use crate::calibration::Calibration;
use crate::dictionaries::published::Dictionaries;
use crate::error::StorageError;
use crate::manifest::{DictionaryEntry, ExtentId, StoredRange, TableEntry};
use crate::spec::ColumnSpec;
use crate::spec::replicas::ReplicaPlacement;
use crate::storage::Storage;
use crate::storage::extent::{OwnedExtent, Owner};

/// A column's first generation.
const FIRST_GENERATION: u64 = 1;
/// If there are more delta pieces they are rewritten as one.
const DELTAS_MOST: usize = 64;

#[derive(Debug, Default)]
struct Column {
    /// The dictionary when the builder was last finished.
    frozen: Option<Arc<Dictionary>>,
    /// Continues `frozen`.
    builder: Option<DictionaryBuilder>,
}

impl Column {
    fn freeze(&mut self) -> Option<Arc<Dictionary>> {
        if let Some(builder) = self.builder.take().filter(|builder| !builder.is_empty()) {
            self.frozen = Some(Arc::new(builder.finish()));
        }
        self.frozen.clone()
    }
}

/// By column.
#[derive(Debug)]
pub(crate) struct TableDictionaries {
    columns: Vec<Mutex<Column>>,
    calibration: Arc<Calibration>,
}

/// Dictionaries of a table to be published.
pub(crate) struct StoredPieces {
    pub(crate) dictionaries: Dictionaries,
    pub(crate) entries: Vec<Option<DictionaryEntry>>,
    /// Extents with pieces that the manifest does not name yet.
    pub(crate) extents: Vec<Arc<OwnedExtent>>,
}

impl TableDictionaries {
    pub(crate) fn new(published: &Dictionaries, calibration: Arc<Calibration>) -> Self {
        let column = |frozen: &Option<Arc<Dictionary>>| {
            Mutex::new(Column {
                frozen: frozen.clone(),
                builder: None,
            })
        };
        Self {
            columns: published.iter().map(column).collect(),
            calibration,
        }
    }

    // A panic while planning leaves at worst values without rows, which is harmless.
    fn lock(&self, column: usize) -> MutexGuard<'_, Column> {
        self.columns[column]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a chunk of a column in this encoding or, without one, in that which fits: with the column's dictionary if that pays.
    pub(crate) fn plan(
        &self,
        at: usize,
        spec: &ColumnSpec,
        encoding: Option<Encoding>,
        values: &[ArrayRef],
    ) -> Result<ChunkPlan, EncodeError> {
        match spec.ty.physical() {
            Physical::Wide => return ChunkPlan::new(spec.ty, values, encoding, None),
            Physical::Ordinal | Physical::Bytes => {}
        }
        let Column { frozen, builder } = &mut *self.lock(at);
        let builder = builder.get_or_insert_with(|| match frozen {
            Some(frozen) => DictionaryBuilder::from_dictionary(frozen),
            None => DictionaryBuilder::new(spec.ty, FIRST_GENERATION)
                .with_gate(self.calibration.dictionary_gate(spec.ty)),
        });
        ChunkPlan::new(spec.ty, values, encoding, Some(builder))
    }

    /// All codes given out so far.
    pub(crate) fn current(&self, column: usize) -> Option<Arc<Dictionary>> {
        self.lock(column).freeze()
    }

    /// Forgets values that were never published. No rows may be being encoded.
    pub(crate) fn reset(&self, published: &Dictionaries) {
        for (column, published) in published.iter().enumerate() {
            *self.lock(column) = Column {
                frozen: published.clone(),
                builder: None,
            };
        }
    }

    /// Makes durable pieces of all codes given out so far that `entry` has no pieces of. `before` are the dictionaries that the
    /// entry's pieces hold.
    pub(crate) fn pieces(
        &self,
        storage: &Storage,
        entry: &TableEntry,
        before: &Dictionaries,
    ) -> Result<StoredPieces, StorageError> {
        let dictionaries: Vec<_> = (0..self.columns.len())
            .map(|column| self.current(column))
            .collect();
        let mut entries = entry.dictionaries.clone();
        let mut pieces = PieceExtent::default();
        for (column, dictionary) in dictionaries.iter().enumerate() {
            let Some(dictionary) = dictionary else {
                continue;
            };
            let known = entries[column]
                .take()
                .filter(|entry| entry.generation == dictionary.generation());
            let published = before[column].as_ref().map_or(0, |before| before.len());
            entries[column] = Some(match known {
                Some(entry) if published == dictionary.len() => entry,
                Some(mut entry) if entry.deltas.len() < DELTAS_MOST => {
                    let delta = DictionaryPiece::delta(dictionary, published);
                    entry.deltas.push(pieces.add(delta));
                    entry
                }
                Some(mut entry) => {
                    let delta = DictionaryPiece::delta(dictionary, dictionary.main_len());
                    entry.deltas = vec![pieces.add(delta)];
                    entry
                }
                None => pieces.add_generation(dictionary),
            });
        }
        let extents = pieces.write(storage, entry.id, &entry.placement, &mut entries)?;
        Ok(StoredPieces {
            dictionaries: dictionaries.into(),
            entries,
            extents,
        })
    }
}

/// A dictionary piece to be written. It is made only then, because the pieces of a thousand columns take as much memory as their
/// dictionaries.
struct DictionaryPiece {
    dictionary: Arc<Dictionary>,
    /// The first code of a piece of delta; `None` for the main part.
    delta_from: Option<usize>,
}

impl DictionaryPiece {
    fn main(dictionary: &Arc<Dictionary>) -> DictionaryPiece {
        DictionaryPiece {
            dictionary: Arc::clone(dictionary),
            delta_from: None,
        }
    }

    fn delta(dictionary: &Arc<Dictionary>, from: usize) -> DictionaryPiece {
        DictionaryPiece {
            dictionary: Arc::clone(dictionary),
            delta_from: Some(from),
        }
    }

    fn len_bytes(&self) -> usize {
        match self.delta_from {
            None => self.dictionary.main_piece_bytes(),
            Some(from) => self.dictionary.delta_piece_bytes(from),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self.delta_from {
            None => self.dictionary.main_piece(),
            Some(from) => self.dictionary.delta_piece(from),
        }
    }
}

/// Pieces that go into one extent. Their places name no extent until it is written.
#[derive(Default)]
pub(crate) struct PieceExtent {
    pieces: Vec<DictionaryPiece>,
    len_bytes: usize,
}

/// Stands for the extent that is not allocated yet.
const UNPLACED: ExtentId = ExtentId(u64::MAX);

impl PieceExtent {
    fn add(&mut self, piece: DictionaryPiece) -> StoredRange {
        let len_bytes = piece.len_bytes();
        let place = StoredRange {
            extent: UNPLACED,
            offset: self.len_bytes as u64,
            len_bytes: len_bytes as u64,
        };
        self.len_bytes += len_bytes.next_multiple_of(LINE_BYTES);
        self.pieces.push(piece);
        place
    }

    /// Pieces of a generation that has none yet.
    pub(crate) fn add_generation(&mut self, dictionary: &Arc<Dictionary>) -> DictionaryEntry {
        let main = self.add(DictionaryPiece::main(dictionary));
        let deltas = match dictionary.delta_len() {
            0 => Vec::new(),
            _ => vec![self.add(DictionaryPiece::delta(dictionary, dictionary.main_len()))],
        };
        DictionaryEntry {
            generation: dictionary.generation(),
            main,
            deltas,
        }
    }

    /// Writes the pieces, and records their places in `entries`.
    pub(crate) fn write(
        self,
        storage: &Storage,
        table: u64,
        placement: &ReplicaPlacement,
        entries: &mut [Option<DictionaryEntry>],
    ) -> Result<Vec<Arc<OwnedExtent>>, StorageError> {
        if self.pieces.is_empty() {
            return Ok(Vec::new());
        }
        let (len_bytes, owner) = (self.len_bytes as u64, Owner::Dictionary(table));
        let mut writer = storage.allocate(&placement.everywhere(), len_bytes, owner)?;
        let mut at = 0;
        for piece in &self.pieces {
            let piece = piece.bytes();
            let end = (at + piece.len()).next_multiple_of(LINE_BYTES);
            writer[at..at + piece.len()].copy_from_slice(&piece);
            writer[at + piece.len()..end].fill(0);
            at = end;
            writer.copy_up_to(at);
        }
        let extent = writer.finish()?;
        for entry in entries.iter_mut().flatten() {
            for place in std::iter::once(&mut entry.main).chain(&mut entry.deltas) {
                if place.extent == UNPLACED {
                    place.extent = extent.id();
                }
            }
        }
        Ok(vec![extent])
    }
}
