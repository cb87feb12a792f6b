//! Settings, with Redis's names: what they are, how they are read and which may change while the server runs.
//!
//! A configuration file has a setting a line, its name and its value, as `redis.conf` has; on the command
//! line they are `--name value`. Settings of Redis that say what Tierra does anyway (`appendonly no`) are
//! accepted with that value alone: a setting must not seem to switch on something that is not there. What
//! only says how something is done that is not there is accepted from a file, and means nothing; the server says so
//! as it starts.

mod change;
mod error;
mod file;
mod help;
mod limit;
mod settings;
mod values;

pub(crate) use change::ChangeError;
pub(crate) use limit::{placement_given, placement_shown, shown as limit_shown};
pub(crate) use settings::{OLD_NAMES, modern_name, settings};

pub use error::ConfigError;
pub use help::settings_help;
pub use values::{Config, DebugCommand, OutputLimit, OutputLimits};
