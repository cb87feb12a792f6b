//! Memory that fails: caught, so that a page is lost and not the process ([`Pool::take_faults`] says which),
//! made to fail, to see what comes of it ([`Injector`]), and walked over to find out in time ([`Walk`]).
//!
//! [`Pool::take_faults`]: crate::Pool::take_faults

mod inject;
mod signal;
pub(crate) mod trouble;
mod walk;

pub use inject::{Damage, Injector, Target};
pub use walk::{Ended, PIECE_BYTES, Piece, Position, Stop, Walk};

pub(crate) use signal::Watched;
