//! Progress of long runs, only on a terminal's standard error: never in a result, never in a pipe.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `steps` steps. indicatif hides it if standard error is not a terminal.
pub fn bar(what: &str, steps: usize) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{prefix:>12} [{bar:30}] {pos}/{len} {msg} ({eta} left)")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(steps as u64).with_style(style);
    bar.set_prefix(what.to_owned());
    bar
}
