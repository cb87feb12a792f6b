//! Power cuts, simulated: what a pool's code really does is recorded, every image that a power cut could
//! leave is made, and real recovery is run on it.
//!
//! ```
//! use tierra_memory::simulation::{Limits, Recorder};
//! use tierra_memory::{Pool, PoolOptions};
//!
//! let dir = tempfile::tempdir()?;
//! let recorder = Recorder::by_line(); // or by_page()
//! let recorded = |recorder| PoolOptions {
//!     capacity_bytes: Some(64 << 10),
//!     recorder: Some(recorder),
//!     ..PoolOptions::default()
//! };
//! let pool = Pool::create(&dir.path().join("pool"), &recorded(recorder.clone()))?;
//! for step in 1..=3 {
//!     let mut writer = pool.allocate(1, 0)?;
//!     writer[0] = step as u8;
//!     pool.publish(&writer.finish()?)?;
//!     recorder.acknowledge(step);
//! }
//! let report = recorder.trace().explore(&dir.path().join("image"), &Limits::default(), |image| {
//!     let pool = Pool::open(image.path, &recorded(image.recorder.clone())).map_err(|e| e.to_string())?;
//!     let found = pool.root().map_or(0, |root| u64::from(pool.bytes(root)[0]));
//!     // The step that was acknowledged, or the next one.
//!     let right = found == image.acknowledged || found == image.acknowledged + 1;
//!     right.then_some(()).ok_or_else(|| format!("found {found}"))
//! })?;
//! assert!(report.violations.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! * [`Recorder`] looks on while a pool is written. It stands in for the processor (flush, fence) or the
//!   kernel (write-back) below the pool's own medium, and sees every store, since a pool is written by
//!   `pool/stored.rs` and `pool/copies.rs` only.
//! * [`Trace`] is what it saw. Leaving an instruction out of it is a bug planted; [`Trace::useless`]
//!   says which flushes and fences made nothing durable.
//! * [`Trace::explore`] cuts the power.
//! * A [`Directory`](crate::directory::Directory) with a recorder is part of the trace, and [`Trace::explore_directory`] makes images
//!   of all of it: of its files, of their names, and of the pools among them.
//!
//! The model is x86: stores to one line reach memory in their order, 8 aligned bytes at a time, those to
//! different lines in any order; a line is certain once its own thread has fenced after flushing it.
//! Write-back by pages keeps more order than that among lines, so a pool that survives this one survives
//! both.

mod disk;
mod explore;
mod files;
mod power;
mod trace;

pub use explore::{Image, Limits, Report, Violation};
pub use trace::{StepKind, Trace, Useless};

pub use crate::recording::Recorder;
