//! What commands see of the server beside the keys and their client: settings, counts, waiting and watching clients. The server
//! fills it; nothing here knows its event loop.

mod pause;
mod shared;
mod slowlog;
mod stats;

pub(crate) use pause::Pause;
pub(crate) use shared::Shared;
