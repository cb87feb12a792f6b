//! The options of a database: where it is, and those of `tierra.toml`, which begin with `tierra.`.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use adbc_core::error::Result;
use adbc_core::options::{OptionDatabase, OptionValue};
use tierra::memory::{Size, emulation};
use tierra::{Options, Scheduling};

use crate::error::{invalid, not_implemented};

/// Before a path in the option `uri`.
const SCHEME: &str = "tierra:";

/// How to open a database.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) path: PathBuf,
    /// Whether to create it if there is none.
    pub(crate) creates: bool,
    pub(crate) options: Options,
    /// What was given, by name.
    pub(crate) given: Vec<(String, OptionValue)>,
}

impl Opening {
    pub(crate) fn of(
        given: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<Self> {
        let mut paths = Vec::new();
        let mut creates = true;
        let mut options = Options::new();
        let mut all = Vec::new();
        for (key, value) in given {
            let key = key.as_ref();
            all.push((key.to_owned(), value.clone()));
            match key {
                "path" => paths.push(text(key, value)?),
                "uri" => paths.push(path_of(&text(key, value)?).to_owned()),
                "tierra.create" => creates = switch(key, &value)?,
                "tierra.read_only" => options = options.read_only(switch(key, &value)?),
                "tierra.near_memory" => {
                    options = options.near_memory_bytes(parsed::<Size>(key, value)?.0);
                }
                "tierra.query_memory" => {
                    let bytes = parsed::<Size>(key, value)?.0;
                    options =
                        options.query_memory_bytes(usize::try_from(bytes).unwrap_or(usize::MAX));
                }
                "tierra.threads" => options = options.threads(parsed(key, value)?),
                "tierra.execution" => {
                    let execution: Scheduling = parsed(key, value)?;
                    options = options.execution(execution);
                }
                "tierra.emulate" => {
                    let far = emulation::parse(&text(key, value)?);
                    let far = far.map_err(|error| invalid(error.to_string()))?;
                    options = match far {
                        Some(far) => options.emulate(far),
                        None => options,
                    };
                }
                "tierra.config" => options = options.config(text(key, value)?),
                "username" | "password" => {
                    return Err(not_implemented(
                        "a database in the process has no users: leave username and password out",
                    ));
                }
                unknown => {
                    return Err(not_implemented(format!(
                        "there is no option '{unknown}' of a database; there are path (or uri), tierra.create, tierra.read_only, \
                         tierra.near_memory, tierra.query_memory, tierra.threads, tierra.execution, tierra.emulate and tierra.config"
                    )));
                }
            }
        }
        let path = match paths.as_slice() {
            [path] if !path.is_empty() => PathBuf::from(path),
            [first, second] if first == second && !first.is_empty() => PathBuf::from(first),
            [_, _] => return Err(invalid("path and uri name two databases: give one of them")),
            _ => {
                return Err(invalid(
                    "no database is named: set the option 'path' to its directory",
                ));
            }
        };
        Ok(Self {
            path,
            creates,
            options,
            given: all,
        })
    }
}

/// The path in `tierra:PATH`, `tierra://PATH`, or a path alone.
fn path_of(uri: &str) -> &str {
    match uri.strip_prefix(SCHEME) {
        Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
        None => uri,
    }
}

/// An option that is a text.
pub(crate) fn text(key: &str, value: OptionValue) -> Result<String> {
    match value {
        OptionValue::String(text) => Ok(text),
        other => Err(invalid(format!("option '{key}' is a text, not {other:?}"))),
    }
}

/// An option that is `true` or `false`.
pub(crate) fn switch(key: &str, value: &OptionValue) -> Result<bool> {
    bool::try_from(value).map_err(|_| {
        invalid(format!(
            "option '{key}' is \"true\" or \"false\", not {value:?}"
        ))
    })
}

/// An option that is a number, or a text that says what it means.
fn parsed<T: FromStr<Err: Display>>(key: &str, value: OptionValue) -> Result<T> {
    let text = match value {
        OptionValue::Int(number) => number.to_string(),
        other => text(key, other)?,
    };
    let parsed = text.parse();
    parsed.map_err(|error| invalid(format!("option '{key}' is '{text}': {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(options: &[(&str, OptionValue)]) -> Result<Opening> {
        let options = options.iter();
        Opening::of(options.map(|(key, value)| (OptionDatabase::from(*key), value.clone())))
    }

    #[test]
    fn a_database_is_named_by_a_path_or_a_uri() {
        for (key, value) in [
            ("path", "/db"),
            ("uri", "/db"),
            ("uri", "tierra:/db"),
            ("uri", "tierra:///db"),
        ] {
            let opening = opening(&[(key, value.into())]).unwrap();
            assert_eq!(opening.path, PathBuf::from("/db"), "{value}");
            assert!(opening.creates);
        }
        for wrong in [
            &[][..],
            &[("path", "".into())],
            &[("path", "/a".into()), ("uri", "/b".into())],
            &[("path", 7.into())],
        ] {
            opening(wrong).unwrap_err();
        }
    }

    #[test]
    fn what_an_option_cannot_be_is_said() {
        let path = || ("path", OptionValue::from("/db"));
        for (key, value, word) in [
            ("tierra.near_memory", "much".into(), "is not a size"),
            ("tierra.threads", "two".into(), "tierra.threads"),
            ("tierra.create", "1".into(), "\"true\" or \"false\""),
            ("tierra.execution", "fast".into(), "tierra.execution"),
            ("tierra.emulate", "a dream".into(), "dream"),
            ("tierra.nothing", "1".into(), "tierra.near_memory"),
            ("username", "me".into(), "has no users"),
        ] {
            let error = opening(&[path(), (key, value)]).unwrap_err();
            assert!(error.message.contains(word), "{error}");
        }
        for (key, value) in [
            ("tierra.near_memory", OptionValue::Int(1 << 30)),
            ("tierra.near_memory", "1G".into()),
            ("tierra.threads", OptionValue::Int(2)),
            ("tierra.emulate", "off".into()),
        ] {
            opening(&[path(), (key, value)]).unwrap();
        }
    }
}
