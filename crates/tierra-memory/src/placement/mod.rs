//! Placement policies: how hot objects are, and which of them belong near.
//!
//! For the owners of objects that can move. Many small objects: [`Heat`] is kept with each, [`Rounds`] decides when it
//! changes and which objects move, and [`Pace`] limits how fast. Few large objects: [`Uses`] are counted, and
//! [`exchanges`] decides which objects replace which, given the [`Costs`] of far memory. Nothing here knows what an object is, and
//! there is no trait for objects: their owner passes numbers, batched, because a method call per object would lie on the
//! read path.

mod costs;
mod exchange;
mod heat;
mod migrations;
mod pace;
mod rounds;
#[cfg(test)]
mod tests;
mod thresholds;
mod uses;

pub use costs::{Costs, LineTimes};
pub use exchange::{Candidate, Exchange, exchanges};
pub use heat::{HEATS, Heat};
pub use migrations::Migrations;
pub use pace::Pace;
pub use rounds::Rounds;
pub use uses::{SAMPLED, Saved, Uses, sample};
