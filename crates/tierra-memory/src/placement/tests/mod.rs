//! What placement promises over time.

mod exchange;
mod rounds;
