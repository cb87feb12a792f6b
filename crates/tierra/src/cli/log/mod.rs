//! The log of a command: warnings and errors of the layers below, on standard error, one line each.
//!
//! ```text
//! warning: a copy is damaged; tier=far error="checksum of extent 7 is wrong"
//! {"unix_ms":1700000000000,"level":"warn","target":"tierra_engine::database::open","message":"a copy is damaged","tier":"far",..}
//! ```
//!
//! The library installs no log; the program that embeds it chooses one. Control characters are escaped, because names and
//! bytes of a database reach the terminal this way. A line breaks neither a progress bar nor the input line of the shell.

mod filter;
mod line;

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::progress;
pub(crate) use filter::Filter;
use line::Line;

/// The environment variable that is used if `--log` is not given.
const VARIABLE: &str = "TIERRA_LOG";

/// What is logged, and how.
#[derive(Args)]
pub(crate) struct LogArguments {
    /// What to log: off, error, warn, info, debug or trace; or parts with a level of their own, such as
    /// `warn,tierra_engine=debug` [default: $TIERRA_LOG, else warn]
    #[arg(long, value_name = "LEVEL|FILTER", global = true, help_heading = "Log")]
    log: Option<Filter>,
    /// How lines of the log are written to standard error
    #[arg(
        long,
        value_name = "FORMAT",
        global = true,
        value_enum,
        default_value_t,
        help_heading = "Log"
    )]
    log_format: Format,
}

/// The format of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    #[default]
    Text,
    /// One object per line.
    Json,
}

/// Installs the log.
///
/// # Errors
/// The error in the environment's filter.
pub(crate) fn listen(arguments: LogArguments) -> Result<(), String> {
    let filter = match (arguments.log, std::env::var(VARIABLE)) {
        (Some(filter), _) => filter,
        (None, Ok(text)) if !text.is_empty() => {
            text.parse().map_err(|why| format!("{VARIABLE}: {why}"))?
        }
        (None, _) => Filter::default(),
    };
    let log = Log {
        filter,
        format: arguments.log_format,
    };
    // This process has no other subscriber.
    let _ = tracing::subscriber::set_global_default(log);
    Ok(())
}

/// Prints lines while another part of the program uses the terminal.
type Printer = Box<dyn FnMut(String) + Send>;

static PRINTER: Mutex<Option<Printer>> = Mutex::new(None);

/// Sends lines to `printer` from now on; to standard error if there is none.
pub(crate) fn print_with(printer: Option<Printer>) {
    *PRINTER.lock().unwrap_or_else(PoisonError::into_inner) = printer;
}

fn print(line: String) {
    let mut printer = PRINTER.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *printer {
        Some(print) => print(line),
        // A closed standard error is ignored.
        None => progress::between_bars(|| _ = std::io::stderr().write_all(line.as_bytes())),
    }
}

struct Log {
    filter: Filter,
    format: Format,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.filter.takes(metadata.target(), metadata.level())
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(self.filter.most())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let metadata = event.metadata();
        print(match self.format {
            Format::Text => line.text(*metadata.level()),
            Format::Json => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                let unix_ms = since.map_or(0, |since| since.as_millis());
                line.json(*metadata.level(), metadata.target(), unix_ms)
            }
        });
    }

    // Tierra opens no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
