//! Memory faults: injecting them ([`Injector`]), and scrubbing memory to detect them in time ([`ScrubPass`]).
//! A pool turns a fault into a lost page instead of a killed process: [`Pool::take_faults`] reports it.
//!
//! [`Pool::take_faults`]: crate::Pool::take_faults

mod inject;
mod scrub_pass;

pub use inject::{Damage, Injector, Target};
pub use scrub_pass::{Ended, PIECE_BYTES, Piece, ScrubPass, ScrubPosition, Stop};
