//! Recording of pools, on request: every store, flush and fence, and every step on their files.
//!
//! A pool knows its [`Recorder`] and nothing of what is made of a recording: [`simulation`](crate::simulation) reads that.

mod event;
mod file_step;
mod recorder;
mod state;

pub(crate) use event::{Event, LineOf, LineRange, Order, Store, Words, words_at};
pub(crate) use file_step::FileStep;
pub(crate) use recorder::LentSlice;
pub use recorder::Recorder;
pub(crate) use state::Touched;
