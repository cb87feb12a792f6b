//! Compressed replicas that answer queries: the thesis's experiments on its library for them, and whether the engine reads the best
//! copy.
//!
//! | figure | experiment |
//! |---|---|
//! | 4.6 | [`PcrRead`] |
//! | 4.7 | [`PcrAppend`] |
//! | 4.8 | [`PcrMixed`] |
//! | 4.9 | [`PcrSsb`] |
//!
//! The thesis's copies lie on two sockets, of which threads read the own one. Here both lie on one socket, with the bandwidth of as many
//! cores of emulated Optane as threads run; near memory shares its channels. Panels of both sockets' threads are left out.
//!
//! Source: Zarubin's thesis, section 4.2, figures 4.6 to 4.9.

mod append;
mod beside;
mod choice;
mod data;
mod mixed;
mod operators;
mod policy;
mod rates;
mod read;
mod ssb;

pub(super) use self::append::PcrAppend;
pub(super) use self::choice::ReplicaChoice;
pub(super) use self::mixed::PcrMixed;
pub(super) use self::read::PcrRead;
pub(super) use self::ssb::PcrSsb;
use super::{Experiment, Measured};
