//! COPY through the connection: `COPY t FROM STDIN` and `COPY t TO STDOUT`, as text, CSV or binary.

mod binary;
mod csv;
mod input;
mod options;
mod output;
mod run;
mod target;
mod text;

pub(crate) use self::options::{CopyIn, CopyOut};
