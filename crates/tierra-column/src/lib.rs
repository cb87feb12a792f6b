//! Columns: types, encodings, dictionaries, and SIMD kernels on packed data.
//!
//! A table's column is cut into **chunks** of up to 2^20 rows. A chunk is sealed: encoded once, then
//! read in place wherever it lies, near or far. It is made of **blocks** of 1,024 values, each with
//! its own least and greatest value, NULL count and checksum, so that a scan skips most of what it
//! does not need and answers the rest on packed codes.
//!
//! ```
//! use std::sync::Arc;
//! use arrow::array::{ArrayRef, AsArray, Int32Array};
//! use arrow::datatypes::Int32Type;
//! use tierra_column::bits::Mask;
//! use tierra_column::{
//!     Chunk, ChunkPlan, ColumnReader, Encoding, Filter, LogicalType, Scratch, Value, Verdict, ordinal,
//! };
//! use tierra_interleave::Execution;
//!
//! // Encode: plan, find space, write.
//! let days: ArrayRef = Arc::new(Int32Array::from_iter_values((0..5000).map(|i| 19_920_101 + i / 7)));
//! let encoding = Some(Encoding::FrameOfReference); // `None`: chosen from a sample
//! let plan = ChunkPlan::new(LogicalType::Integer, &[days], encoding, None)?;
//! let mut bytes = vec![0; plan.len_bytes()];
//! plan.write(&mut bytes);
//!
//! // Scan: bind once, ask the directory, test packed codes, decode what survives.
//! let chunk = Chunk::open(&bytes, LogicalType::Integer)?;
//! let filter = Filter::eq(Value::Ordinal(ordinal::of_i32(19_920_201)));
//! let bound = chunk.bind(&filter, None, Execution::default())?;
//! let (mut scratch, mut reader) = (Scratch::new(), ColumnReader::new(LogicalType::Integer, 8));
//! for block in 0..chunk.blocks() {
//!     let mut mask = Mask::first(chunk.block_rows(block));
//!     match chunk.verdict(&bound, block) {
//!         Verdict::Skip => continue,
//!         Verdict::All => {}
//!         Verdict::Test => assert!(!chunk.select(&bound, block, &mut mask, &mut scratch)?.decoded),
//!     }
//!     reader.append(&chunk, block, &mask, None, &mut scratch)?;
//! }
//! assert_eq!(reader.finish().as_primitive::<Int32Type>().values(), &[19_920_201; 7]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The parts
//!
//! - [`LogicalType`] is what SQL says; [`ordinal`] maps values to `u64`s in the same order, and from
//!   there on nothing knows the SQL type.
//! - [`Encoding`] lists the physical formats; [`ChunkPlan`] encodes (and estimates which to choose),
//!   [`Chunk`] reads.
//! - [`Filter`] is one column's condition with SQL's treatment of NULL; [`Chunk::bind`] translates
//!   it into codes, [`evaluate`] applies it to rows that are not in chunks yet.
//! - [`Dictionary`] numbers a column's values, in generations; [`DictionaryBuilder`] adds to it.
//! - [`ColumnReader`] collects selected rows into arrow arrays, [`ColumnTotals`] their number, sum, least and greatest, from
//!   packed codes; [`Chunk::value`] is the interleaved lookup of one cell.
//! - [`ValueChecksums`] are the same in every encoding of the same values, and [`Chunk::rebuild_block`] encodes a damaged block again.
//! - [`DistinctSketch`] knows about how many distinct values a column has.
//! - [`Postings`] list the rows of each code: the stored part of an inverted index.
//! - [`bits`] are packed codes and the kernels on them.
//!
//! This crate works on byte slices: it allocates no region, and knows no table. For Linux on 64-bit processors, as `tierra-memory` is;
//! kernels use AVX2 or AVX-512 where they are.

pub mod bits;
mod block;
mod bytes;
mod cell;
mod chunk;
mod dictionary;
mod encoding;
mod error;
mod filter;
mod limits;
mod logical_type;
pub mod ordinal;
mod postings;
mod reader;
mod sketch;
mod value;
mod view;

pub use cell::Cell;
pub use chunk::{
    BoundFilter, CellAt, CellSink, CellWalk, Chunk, ChunkPlan, CodeFilter, Packing, Scratch,
    SelectStats, Verdict, read_cells,
};
pub use dictionary::{Decoder, Dictionary, DictionaryBuilder, Remapping};
pub use encoding::{
    CodedText, EncodeError, Encoding, ParseEncodingError, ReadCost, ValueChecksums,
};
pub use error::{FilterError, FormatError};
pub use filter::{Filter, FilterKind, OrdinalSet, ValueRange, ValueSet, evaluate};
pub use limits::{CHUNK_ROWS, NULL_CODE};
pub use logical_type::{LogicalType, Physical};
pub use postings::{
    EntryRange, POSTINGS_CHUNKS_MAX, Position, PostingList, Postings, PostingsError,
    PostingsLayout, PostingsPlan,
};
pub use reader::{ColumnGroups, ColumnReader, ColumnTotals, GroupTotals, Totals, WantedTotals};
pub use sketch::DistinctSketch;
pub use value::Value;
