//! Reading a buffer as of one moment.
//!
//! Invariant: all that a reader returns is of one commit. What it returns of a block matched the block's checksum, or was made
//! again of another replica.

use std::ops::Range;

use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, ToByteSlice};
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Encoding, WantedTotals};
use tierra_engine::{ReadPattern, ReplicaSource, RowId, ScanSpec, Snapshot};
use tierra_interleave::{Lookups, Scheduling};

use crate::buffer::Buffer;
use crate::columns::VALUE;
use crate::error::Error;
use crate::order::{self, Piece, Place};

/// The most values of a block.
pub const BLOCK_VALUES: usize = BLOCK_LEN;

/// Positions that are looked up at a time.
const LOOKED_UP: usize = 1 << 16;

/// Added to an ordinal without its carry, it makes the value.
const TO_VALUE: u64 = 1 << 63;

/// The values of a buffer at one moment. All methods may be called by several threads at once. While it lives, the space of what
/// it reads stays taken.
#[derive(Debug)]
pub struct Reader {
    buffer: Buffer,
    /// In which the replicas that suit the reader are read.
    snapshot: Snapshot,
    pieces: Vec<Piece>,
}

/// What a reader reads some of its values from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The tier; `None`: a near copy.
    pub tier: Option<String>,
    /// The encoding.
    pub encoding: Encoding,
    /// Values that are read so.
    pub values: u64,
}

/// How the values of a block are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Codes of so many bits each, one after the other, the lowest bit first. A value is its code plus the base, modulo 2^64.
    Even {
        /// Bits of a code, up to 64.
        width: u8,
        /// What is added to each.
        base: i64,
    },
    /// A width in bits for each mini-block of the block, a byte each, as many as 1,024 codes need. Then the codes of one mini-block
    /// after the other, each mini-block from a byte on.
    MiniBlocks {
        /// Codes of a mini-block.
        codes: usize,
        /// What is added to each.
        base: i64,
    },
    /// Anything else: `docs/file-format.md` describes it, and [`Reader::values`] decodes it.
    Coded,
}

/// A block as it is stored.
#[derive(Clone, Debug)]
pub struct Block<'a> {
    /// The position of the first value.
    pub position: u64,
    /// Which of the block's codes are the values: all, unless the engine has joined values there that do not follow each other.
    pub codes: Range<usize>,
    /// The encoding; `None` of staged values, which are packed at 64 bits.
    pub encoding: Option<Encoding>,
    /// How they are packed.
    pub packing: Packing,
    /// The block.
    pub bytes: &'a [u8],
}

impl Reader {
    pub(crate) fn new(buffer: Buffer, pattern: ReadPattern) -> Result<Reader, Error> {
        let snapshot = buffer.0.table.snapshot();
        let pieces = order::pieces(&buffer.0.orders, &snapshot)?;
        Ok(Reader {
            snapshot: snapshot.for_reading(pattern),
            buffer,
            pieces,
        })
    }

    /// The buffer that it reads.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Values.
    pub fn len(&self) -> u64 {
        self.pieces.last().map_or(0, Piece::end)
    }

    /// Whether there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tiers and encodings that it reads, each once. Staged values, which are in near memory, are not among them.
    pub fn sources(&self) -> Vec<Source> {
        // The snapshot has the replicas of the reader's pattern in all patterns' places.
        let read = self.snapshot.sources(VALUE, ReadPattern::Sequential);
        let source = |read: ReplicaSource| Source {
            tier: read.tier,
            encoding: read.encoding,
            values: read.rows,
        };
        read.into_iter().map(source).collect()
    }

    /// The sum of all values, taken from packed codes.
    ///
    /// # Errors
    /// [`Error::Scan`].
    pub fn sum(&self) -> Result<i128, Error> {
        let spec = ScanSpec {
            projection: vec![VALUE],
            filters: Vec::new(),
            batch_rows: 1 << 16,
            execution: Scheduling::Auto,
        };
        let wanted = WantedTotals {
            sum: true,
            extremes: false,
        };
        let mut cursor = self.snapshot.scan_totals(spec, vec![wanted]).cursor();
        let mut sum = 0;
        while let Some(totals) = cursor.next_totals(&[], 0)? {
            sum += totals.columns[0].sum;
        }
        Ok(sum)
    }

    /// The values from a position on, as many as `values` has room for.
    ///
    /// # Errors
    /// [`Error::Position`]: there are not so many. [`Error::Scan`].
    pub fn read(&self, first: u64, values: &mut [i64]) -> Result<(), Error> {
        let end = first.saturating_add(values.len() as u64);
        if end > self.len() {
            return Err(self.no_value(end - 1));
        }
        let (mut at, mut left) = (first, values);
        while !left.is_empty() {
            let piece = self.piece(at);
            let skipped = (at - piece.first) as usize;
            let read = match &piece.place {
                Place::Tail { values, .. } => {
                    let rows = (piece.rows - skipped).min(left.len());
                    left[..rows].copy_from_slice(&values.values()[skipped..skipped + rows]);
                    rows
                }
                Place::Segment { at: segment, row } => {
                    let row = row + skipped;
                    let (block, row) = (row / BLOCK_VALUES, row % BLOCK_VALUES);
                    let decoded = self.snapshot.block_values(*segment, VALUE, block)?;
                    let decoded = &decoded.as_primitive::<Int64Type>().values()[row..];
                    let rows = decoded.len().min(piece.rows - skipped).min(left.len());
                    left[..rows].copy_from_slice(&decoded[..rows]);
                    rows
                }
            };
            at += read as u64;
            left = &mut left[read..];
        }
        Ok(())
    }

    /// The values at a range of positions.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn values(&self, positions: Range<u64>) -> Result<Vec<i64>, Error> {
        if positions.end > self.len() {
            return Err(self.no_value(positions.end - 1));
        }
        let mut values = vec![0; positions.end.saturating_sub(positions.start) as usize];
        self.read(positions.start, &mut values)?;
        Ok(values)
    }

    /// The values at these positions, in their order. Lookups wait for far memory together.
    ///
    /// # Errors
    /// [`Error::Position`], [`Error::Lookup`].
    pub fn at(&self, positions: &[u64]) -> Result<Vec<i64>, Error> {
        let mut values = vec![0; positions.len()];
        self.look_up(positions, &mut values)?;
        Ok(values)
    }

    /// [`Reader::at`] into memory of the caller's.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If there are not as many positions as values.
    pub fn look_up(&self, positions: &[u64], values: &mut [i64]) -> Result<(), Error> {
        assert_eq!(positions.len(), values.len(), "a value for each position");
        if let Some(beyond) = positions.iter().find(|at| **at >= self.len()) {
            return Err(self.no_value(*beyond));
        }
        let mut lookups = Lookups::new(Scheduling::Auto);
        let parts = positions
            .chunks(LOOKED_UP)
            .zip(values.chunks_mut(LOOKED_UP));
        for (positions, values) in parts {
            let ids: Vec<RowId> = positions.iter().map(|at| self.row(*at)).collect();
            let projection = &self.buffer.0.values;
            let found = self.snapshot.reconstruct(&ids, projection, &mut lookups)?;
            values.copy_from_slice(found.column(0).as_primitive::<Int64Type>().values());
        }
        Ok(())
    }

    /// The number of blocks, of up to [`BLOCK_VALUES`] values.
    pub fn blocks(&self) -> u64 {
        let last = self.pieces.last();
        last.map_or(0, |piece| piece.blocks_before + piece.blocks())
    }

    /// What `read` makes of a block as it is stored. Blocks are numbered in the order of their positions. `read` is called again where
    /// memory was lost while it read.
    ///
    /// # Errors
    /// [`Error::Block`], [`Error::Scan`].
    pub fn read_block<T>(
        &self,
        number: u64,
        mut read: impl FnMut(&Block<'_>) -> T,
    ) -> Result<T, Error> {
        if number >= self.blocks() {
            return Err(Error::Block {
                name: self.buffer.name().to_owned(),
                block: number,
                blocks: self.blocks(),
            });
        }
        let after = self
            .pieces
            .partition_point(|piece| piece.blocks_before <= number);
        let piece = &self.pieces[after - 1];
        let number = (number - piece.blocks_before) as usize;
        let (segment, row) = match &piece.place {
            Place::Segment { at, row } => (*at, *row),
            Place::Tail { values, .. } => {
                let start = number * BLOCK_VALUES;
                let rows = (piece.rows - start).min(BLOCK_VALUES);
                return Ok(read(&Block {
                    position: piece.first + start as u64,
                    codes: 0..rows,
                    encoding: None,
                    packing: Packing::Even { width: 64, base: 0 },
                    bytes: values.values()[start..start + rows].to_byte_slice(),
                }));
            }
        };
        let block = row / BLOCK_VALUES + number;
        let start = row.max(block * BLOCK_VALUES);
        let end = (row + piece.rows).min((block + 1) * BLOCK_VALUES);
        let found = self.snapshot.read_block(segment, VALUE, block, |chunk| {
            let value = |base: u64| (base ^ TO_VALUE) as i64;
            let packing = match chunk.packing(block) {
                tierra_column::Packing::Even { width, base } => Packing::Even {
                    width,
                    base: value(base),
                },
                tierra_column::Packing::MiniBlocks { codes, base } => Packing::MiniBlocks {
                    codes,
                    base: value(base),
                },
                tierra_column::Packing::Coded => Packing::Coded,
            };
            Ok(read(&Block {
                position: piece.first + (start - row) as u64,
                codes: start - block * BLOCK_VALUES..end - block * BLOCK_VALUES,
                encoding: Some(chunk.encoding()),
                packing,
                bytes: chunk.stored_block(block),
            }))
        });
        Ok(found?)
    }

    /// The piece that has a position, which there is.
    fn piece(&self, position: u64) -> &Piece {
        let after = self.pieces.partition_point(|piece| piece.first <= position);
        &self.pieces[after - 1]
    }

    fn row(&self, position: u64) -> RowId {
        let piece = self.piece(position);
        let skipped = (position - piece.first) as usize;
        match &piece.place {
            Place::Segment { at, row } => self.snapshot.segments()[*at].row_id(row + skipped),
            Place::Tail { id, .. } => RowId::from_number(id.get() + skipped as u64),
        }
    }

    fn no_value(&self, position: u64) -> Error {
        Error::Position {
            name: self.buffer.name().to_owned(),
            position,
            count: self.len(),
        }
    }
}
