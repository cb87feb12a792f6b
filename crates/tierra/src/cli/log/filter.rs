//! The events that are logged: a default level, and levels for parts of the program.

use std::str::FromStr;

use tracing::Level;
use tracing::level_filters::LevelFilter;

/// Levels by part of the program; the longest matching name applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter {
    all: LevelFilter,
    parts: Vec<(String, LevelFilter)>,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            all: LevelFilter::WARN,
            parts: Vec::new(),
        }
    }
}

impl Filter {
    /// Whether an event is logged. `target` is its module.
    pub(super) fn takes(&self, target: &str, level: &Level) -> bool {
        let is_in = |part: &str| {
            let rest = target.strip_prefix(part);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let parts = self.parts.iter().filter(|(part, _)| is_in(part));
        let nearest = parts.max_by_key(|(part, _)| part.len());
        *level <= nearest.map_or(self.all, |(_, level)| *level)
    }

    /// The most verbose level of any part.
    pub(super) fn most(&self) -> LevelFilter {
        let parts = self.parts.iter().map(|(_, level)| *level);
        parts.fold(self.all, LevelFilter::max)
    }
}

fn level(text: &str) -> Result<LevelFilter, String> {
    let levels = [
        ("off", LevelFilter::OFF),
        ("error", LevelFilter::ERROR),
        ("warn", LevelFilter::WARN),
        ("info", LevelFilter::INFO),
        ("debug", LevelFilter::DEBUG),
        ("trace", LevelFilter::TRACE),
    ];
    let named = levels
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|(_, level)| *level).ok_or_else(|| {
        format!(
            "'{}' is no level: off, error, warn, info, debug or trace",
            text.escape_debug()
        )
    })
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut filter = Self::default();
        for item in text.split(',').map(str::trim) {
            match item.split_once('=') {
                None => filter.all = level(item)?,
                Some((part, text)) => {
                    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
                    if part.is_empty() || !part.chars().all(is_part) {
                        let part = part.escape_debug();
                        return Err(format!(
                            "'{part}' is no part of the program, such as tierra_engine"
                        ));
                    }
                    filter.parts.push((part.to_owned(), level(text)?));
                }
            }
        }
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_part_counts() {
        let filter: Filter = "info, tierra_engine=error,tierra_engine::open=debug,a=off"
            .parse()
            .unwrap();
        for (target, least) in [
            ("tierra_memory::pool", Some(Level::INFO)),
            ("tierra_engine", Some(Level::ERROR)),
            ("tierra_engine::opening", Some(Level::ERROR)),
            ("tierra_engine::open", Some(Level::DEBUG)),
            ("tierra_engine::open::cut", Some(Level::DEBUG)),
            ("a::b", None),
        ] {
            for level in [
                Level::ERROR,
                Level::WARN,
                Level::INFO,
                Level::DEBUG,
                Level::TRACE,
            ] {
                let told = least.is_some_and(|least| level <= least);
                assert_eq!(filter.takes(target, &level), told, "{target} {level}");
            }
        }
        assert_eq!(filter.most(), LevelFilter::DEBUG);
        assert_eq!("off".parse::<Filter>().unwrap().most(), LevelFilter::OFF);
        assert_eq!("WARN".parse(), Ok(Filter::default()));
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for (text, why) in [
            ("", "'' is no level"),
            ("loud", "'loud' is no level"),
            ("tierra_engine=\u{1b}", "'\\u{1b}' is no level"),
            ("a b=warn", "'a b' is no part"),
            ("=warn", "'' is no part"),
            ("warn,", "'' is no level"),
        ] {
            let error = text.parse::<Filter>().unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
