//! What lies where: heat, and what of it belongs near.
//!
//! Used by whoever holds objects that can move: [`Heat`] is kept with each, [`Border`] says which of them are
//! worth moving, [`Pace`] how fast they may. Nothing here knows what an object is.

mod heat;
mod mover;

pub use heat::{HEATS, Heat};
pub use mover::{Border, Pace, Round};
