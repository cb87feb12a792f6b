//! What commands tell on standard output. It may be closed or full: then the work goes on, and the command fails at its end.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::OnceLock;

/// The first error of writing.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// `println!` without its panic.
macro_rules! tell {
    ($($what:tt)*) => {
        $crate::cli::output::write(format_args!("{}\n", format_args!($($what)*)))
    };
}
pub(crate) use tell;

/// Writes a text as it is.
pub(crate) fn write(text: Arguments<'_>) {
    if FAILED.get().is_none()
        && let Err(error) = io::stdout().lock().write_fmt(text)
    {
        let _ = FAILED.set(error);
    }
}

/// Why something could not be written, if so.
pub(crate) fn failure() -> Option<io::Error> {
    // What is buffered counts.
    let flushed = io::stdout().lock().flush().err();
    let failed = FAILED.get().map(|error| error.kind().into());
    failed.or(flushed)
}
