//! Changing a setting by its name, before the server starts or while it runs.

use super::limit::placement_given;
use super::settings::{WITHOUT_EFFECT, modern_name, settings};
use super::values::Config;
use crate::keyspace::Keyspace;

/// Why a setting was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeError {
    /// There is no setting of that name.
    Unknown,
    /// It cannot change while the server runs.
    Immutable,
    /// The value is wrong, and how.
    Invalid(String),
}

impl Config {
    /// Changes a setting while the server runs.
    pub(crate) fn set_live(&mut self, name: &str, value: &str) -> Result<(), ChangeError> {
        let setting = settings()
            .find(|setting| setting.name == name)
            .ok_or(ChangeError::Unknown)?;
        if !setting.live {
            return Err(ChangeError::Immutable);
        }
        (setting.set)(self, value).map_err(ChangeError::Invalid)
    }

    /// Changes a setting before the server starts, one of placement included.
    pub(crate) fn set(&mut self, name: &str, words: &[String]) -> Result<(), ChangeError> {
        let name = modern_name(name);
        if WITHOUT_EFFECT.contains(&name) {
            if !self.ignored.iter().any(|ignored| ignored == name) {
                self.ignored.push(name.into());
            }
            return Ok(());
        }
        let setting = settings().find(|setting| setting.name == name);
        let is_placement = Keyspace::settings().contains(&name);
        let takes_words = match setting {
            Some(setting) => setting.takes_words,
            None if is_placement => name == "dram-pmem-ratio",
            None => return Err(ChangeError::Unknown),
        };
        if words.len() > 1 && !takes_words {
            let count = words.len();
            return Err(ChangeError::Invalid(format!(
                "takes one value, not {count}: quotes keep words together"
            )));
        }
        let value = words.join(" ");
        match setting {
            Some(setting) => (setting.set)(self, &value),
            None => {
                placement_given(name, &value).and_then(|value| self.placement.set(name, &value))
            }
        }
        .map_err(ChangeError::Invalid)
    }
}

/// Whether there is a setting of that name, if only to be ignored.
pub(crate) fn is_setting(name: &str) -> bool {
    let name = modern_name(name);
    settings().any(|setting| setting.name == name)
        || Keyspace::settings().contains(&name)
        || WITHOUT_EFFECT.contains(&name)
}
