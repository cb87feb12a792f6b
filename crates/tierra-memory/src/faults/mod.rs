//! Memory that fails: made to fail, to see what comes of it ([`Injector`]), and walked over to find out in time ([`Walk`]).
//! That a page is lost then and not the process, a pool sees to itself: [`Pool::take_faults`] says which.
//!
//! [`Pool::take_faults`]: crate::Pool::take_faults

mod inject;
mod walk;

pub use inject::{Damage, Injector, Target};
pub use walk::{Ended, PIECE_BYTES, Piece, Position, Stop, Walk};
