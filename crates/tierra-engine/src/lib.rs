//! Tables that are created, appended to, loaded, scanned and looked up, and that survive a crash.
//!
//! A [`Database`] is a directory with a pool of far memory. A table consists of sealed [`Segment`]s and a tail of the newest
//! rows. The chunks of segments are read in place. The tail is logged in far memory and kept unpacked in near memory. One writer
//! thread changes tables; readers take a [`Snapshot`] and no lock.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use arrow::array::{Int32Array, RecordBatch};
//! use tierra_column::{Filter, LogicalType, Value, ordinal};
//! use tierra_engine::{ColumnSpec, Database, DatabaseOptions, ScanSpec, TableSpec};
//! use tierra_interleave::Scheduling;
//!
//! # let directory = tempfile::tempdir()?;
//! # let dir = directory.path().join("db");
//! let database = Database::create(&dir, &DatabaseOptions::default())?;
//! let table = database.create_table(TableSpec {
//!     name: "numbers".to_owned(),
//!     columns: vec![ColumnSpec::new("n", LogicalType::Integer).not_null()],
//!     primary_key: vec![0],
//! })?;
//! let rows = RecordBatch::try_new(table.schema(), vec![Arc::new(Int32Array::from(vec![1, 2, 3]))])?;
//! table.append(&[rows])?; // durable now
//!
//! let least = Filter::greater_or_equal(Value::Ordinal(ordinal::of_i32(2)));
//! let spec = ScanSpec {
//!     projection: vec![0],
//!     filters: vec![(0, least)],
//!     batch_rows: 8192,
//!     execution: Scheduling::Auto,
//! };
//! let mut cursor = table.snapshot().scan(spec).cursor();
//! let batch = cursor.next(&[], 0)?.expect("two rows");
//! assert_eq!(batch.num_rows(), 2);
//! # Ok(())
//! # }
//! ```
//!
//! Methods that write block until the writer has answered: from async code, call them through `spawn_blocking`, or use
//! [`Database::submit`], which does not block.
//!
//! Runs on Linux on 64-bit processors.

/// Unit tests share the support code of `tests/`.
#[cfg(test)]
extern crate self as tierra_engine;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;

mod backup;
mod calibrate;
mod calibration;
mod cells;
mod database;
mod deleted;
mod dictionaries;
mod error;
mod index;
mod integrity;
mod manifest;
mod read;
mod salvage;
mod scrub;
mod segment;
mod slice_bytes;
mod spec;
mod storage;
mod table;
mod tail;
mod tiering;
mod write;

pub use backup::{
    Backup, BackupOptions, BackupProgress, BackupSummary, Compression, ParseCompressionError,
    RestoreOptions, Restored,
};
pub use calibrate::{
    CalibrateError, ColumnScans, Effort, Measured, MeasuredMixes, Scanned, ScratchError,
};
pub use calibration::{
    Calibration, LevelProfile, LookupKind, Mix, MixRow, Operator, Situation, write_profile,
};
pub use database::adopt::{AdoptOptions, Adopted};
pub use database::copies::CopyInfo;
pub use database::{Database, TierInfo};
pub use deleted::row_ids::RowIds;
pub use error::{
    AppendError, BackupError, ColumnsError, CommitError, DamageError, DuplicateKeyError, Error,
    InputError, LoadError, LogError, LookupError, ManifestError, OpenError, ScanError, SpecError,
    StorageError, TableError, TierError, UnavailableError,
};
pub use manifest::SEGMENT_ROWS;
pub use manifest::row_id::RowId;
pub use read::batch::{BatchLimits, Batches};
pub use read::lookup::CellCounters;
pub use read::replicas::{ReplicaInfo, ReplicaSource};
pub use read::rows::{Projection, Rows};
pub use read::scan::{
    IndexUse, Scan, ScanCounters, ScanCursor, ScanGroups, ScanSpec, ScanTotals, row_id_field,
};
pub use salvage::{SalvageError, SalvageReport, SalvagedTable, salvage};
pub use scrub::background::{SCRUB_BYTES_PER_S, ScrubPace, ScrubProgress};
pub use scrub::{LostRows, ScrubOptions, ScrubReport};
pub use segment::{ReadPattern, Segment};
pub use spec::index_kind::{IndexKind, ParseIndexKindError};
pub use spec::replicas::{Replicas, ReplicasError};
pub use spec::{ColumnSpec, MAX_COLUMNS, MAX_NAME_BYTES, TableSpec};
pub use storage::access::{Access, ParseAccessError, Reading};
pub use storage::faults::{Fault, FaultKind, FaultOutcome, FaultTotals};
pub use storage::frames::Frames;
pub use storage::options::DatabaseOptions;
pub use storage::read_checks::{ParseVerifyReadsError, ReadChecks, VerifyReads};
pub use table::Table;
pub use table::input::canonical_double;
pub use table::snapshot::{KeyIndexSize, Snapshot};
pub use tail::statistics::ColumnStatistics;
pub use tiering::mover::Moved;
pub use tiering::objects::ColumnPlacement;
pub use write::change::{Change, Committed, Submitted, Waiting};
pub use write::column_source::ColumnSource;
pub use write::loader::{LoadReport, Loader, TAIL_APPEND_ROWS};
pub use write::pending::Pending;
