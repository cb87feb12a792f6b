//! What lies where: heat, and what of it belongs near.
//!
//! Used by whoever holds objects that can move: [`heat`](Heat) is kept with each, [`Border`] says
//! which of them the near budget holds, [`Pace`] how fast they may move. Nothing here knows what an object is.

mod heat;
mod mover;

pub use heat::{HEATS, Heat};
pub use mover::{Border, Histogram, Pace};
