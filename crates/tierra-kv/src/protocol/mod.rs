//! RESP, the protocol of Redis: requests without a copy, replies straight into the write buffer.

mod inline;
mod reply;
mod request;

pub(crate) use inline::split as split_line;
pub use reply::Reply;
pub use request::{Arg, Args, Limits, Parser, ProtocolError, Request};
