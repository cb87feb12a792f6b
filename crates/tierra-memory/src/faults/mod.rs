//! Memory that fails: caught, so that a page is lost and not the process ([`Pool::take_faults`] says which),
//! and made to fail, to see what comes of it ([`Injector`]).
//!
//! [`Pool::take_faults`]: crate::Pool::take_faults

mod inject;
mod signal;

pub use inject::{Damage, Injector};

pub(crate) use signal::{Watched, page_bytes};
