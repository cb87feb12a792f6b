//! Progress bars on standard error: shown on a terminal, silent elsewhere.

use std::sync::LazyLock;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// All visible bars.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Runs `write`, which writes to standard error, without a bar in its way.
pub(crate) fn between_bars(write: impl FnOnce()) {
    BARS.suspend(write);
}

const ROWS: &str = "{prefix:12} [{bar:32}] {human_pos}/{human_len} rows  {per_sec}  {eta} left";
const STEPS: &str = "{prefix:12} [{bar:32}] {pos}/{len}  {eta} left";
const BYTES: &str = "{prefix:12} [{bar:32}] {bytes}/{total_bytes}  {msg}  {eta} left";

/// A bar over `steps` steps of a command.
pub(crate) fn steps_bar(command: &str, steps: u64) -> ProgressBar {
    bar(command, steps, STEPS)
}

/// A bar over `rows` rows of `table`.
pub(crate) fn rows_bar(table: &str, rows: u64) -> ProgressBar {
    bar(table, rows, ROWS)
}

/// A bar over `bytes` bytes of a file loaded into `table`.
pub(crate) fn bytes_bar(table: &str, bytes: u64) -> ProgressBar {
    bar(table, bytes, BYTES)
}

fn bar(prefix: &str, len: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template)
        .expect("the templates above name only keys that exist")
        .progress_chars("=> ");
    BARS.add(ProgressBar::new(len))
        .with_style(style)
        .with_prefix(prefix.to_owned())
}
