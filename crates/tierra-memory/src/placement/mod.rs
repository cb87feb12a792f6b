//! What lies where: heat, and what of it belongs near.
//!
//! Used by whoever holds objects that can move. Of small ones that are many, [`Heat`] is kept with each, [`Rounds`] says when that
//! changes and which of them are worth moving, [`Pace`] how fast they may. Of large ones that are few, [`Uses`] are counted, and
//! [`exchanges`] says which should take which one's place, [`Costs`] being what far memory costs. Nothing here knows what an object is,
//! and no trait asks one: whoever holds them names numbers, once for all that happened, where a method for each would be called in
//! the middle of a read.

mod costs;
mod exchange;
mod heat;
mod migrations;
mod mover;
mod pace;
mod rounds;
#[cfg(test)]
mod tests;
mod uses;

pub use costs::{Costs, LineTimes};
pub use exchange::{Candidate, Exchange, exchanges};
pub use heat::{HEATS, Heat};
pub use migrations::Migrations;
pub use pace::Pace;
pub use rounds::Rounds;
pub use uses::{SAMPLED, Saved, Uses, sample};
