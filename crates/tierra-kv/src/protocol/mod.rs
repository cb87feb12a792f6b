//! RESP, the protocol of Redis: requests without a copy, replies straight into the write buffer.

mod error;
mod inline;
mod parser;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use error::ProtocolError;
pub(crate) use inline::split as split_line;
pub use parser::{Limits, Parser};
pub use reply::Reply;
pub use request::{Arg, Args, Request};
