//! The settings of PostgreSQL that clients read and set.
//!
//! What is answered by one way of Tierra alone accepts that way and refuses others, so that no client is told that something
//! changed which did not. Settings of Tierra (`tierra.*`) are the session's own.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::Fault;

/// The version that clients compare with.
pub(crate) const SERVER_VERSION: &str = concat!("16.6 (Tierra ", env!("CARGO_PKG_VERSION"), ")");

/// Which values a setting takes.
#[derive(Clone, Copy)]
enum Values {
    /// None but its own: it is a fact of the server.
    Fact,
    /// Any text.
    Any,
    /// One of these, without regard to case.
    OneOf(&'static [&'static str]),
    /// Milliseconds, or a number with a unit.
    Time,
    /// A whole number of this range, which has no effect.
    Number(i64, i64),
    /// A list of names that must have one of these.
    Names(&'static [&'static str]),
}

/// A setting: its name, its value at first, whether clients are told of it at login and of its changes, and its values.
struct Known(&'static str, &'static str, bool, Values);

const ON_OFF: Values = Values::OneOf(&["on", "off", "true", "false", "1", "0", "yes", "no"]);

const KNOWN: &[Known] = &[
    Known("application_name", "", true, Values::Any),
    Known("bytea_output", "hex", false, Values::OneOf(&["hex"])),
    Known(
        "client_encoding",
        "UTF8",
        true,
        Values::OneOf(&["utf8", "utf-8", "unicode", "sql_ascii"]),
    ),
    Known(
        "client_min_messages",
        "notice",
        false,
        Values::OneOf(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "log", "info", "notice", "warning",
            "error",
        ]),
    ),
    Known("datestyle", "ISO, MDY", true, Values::Names(&["iso"])),
    Known(
        "default_transaction_isolation",
        "repeatable read",
        false,
        Values::OneOf(&["read uncommitted", "read committed", "repeatable read"]),
    ),
    Known(
        "default_transaction_read_only",
        "off",
        true,
        Values::OneOf(&["off", "false", "0", "no"]),
    ),
    Known("extra_float_digits", "1", false, Values::Number(-15, 3)),
    Known(
        "idle_in_transaction_session_timeout",
        "0",
        false,
        Values::Time,
    ),
    Known("in_hot_standby", "off", true, Values::Fact),
    Known("integer_datetimes", "on", true, Values::Fact),
    Known(
        "intervalstyle",
        "postgres",
        true,
        Values::OneOf(&["postgres"]),
    ),
    Known("is_superuser", "on", true, Values::Fact),
    Known("lc_collate", "C", false, Values::Fact),
    Known("lc_ctype", "C.UTF-8", false, Values::Fact),
    Known("lock_timeout", "0", false, Values::Time),
    Known("max_identifier_length", "63", false, Values::Fact),
    Known("row_security", "on", false, ON_OFF),
    Known(
        "search_path",
        "\"$user\", public",
        false,
        Values::Names(&["public", "$user", "pg_catalog"]),
    ),
    Known("server_encoding", "UTF8", true, Values::Fact),
    Known("server_version", SERVER_VERSION, true, Values::Fact),
    Known("server_version_num", "160006", false, Values::Fact),
    Known("session_authorization", "", true, Values::Fact),
    Known(
        "standard_conforming_strings",
        "on",
        true,
        Values::OneOf(&["on", "true", "1", "yes"]),
    ),
    Known("statement_timeout", "0", false, Values::Time),
    Known("synchronous_commit", "on", false, ON_OFF),
    Known(
        "timezone",
        "UTC",
        true,
        Values::OneOf(&[
            "utc",
            "etc/utc",
            "gmt",
            "etc/gmt",
            "universal",
            "zulu",
            "0",
            "+00:00",
        ]),
    ),
    Known(
        "transaction_isolation",
        "repeatable read",
        false,
        Values::Fact,
    ),
    Known("transaction_read_only", "off", false, Values::Fact),
];

/// Names that clients are told with capitals.
const CAPITALS: &[(&str, &str)] = &[
    ("datestyle", "DateStyle"),
    ("intervalstyle", "IntervalStyle"),
    ("timezone", "TimeZone"),
];

/// The settings of a connection.
pub(crate) struct Settings {
    values: HashMap<&'static str, String>,
    /// Values that return when the transaction ends.
    before: Vec<(&'static str, Option<String>)>,
    /// Values to which RESET returns.
    start: HashMap<&'static str, String>,
}

fn known(name: &str) -> Result<&'static Known, Fault> {
    let name = name.to_ascii_lowercase();
    let found = KNOWN.iter().find(|known| known.0 == name);
    found.ok_or_else(|| {
        Fault::new(
            "42704",
            format!("unrecognized configuration parameter \"{name}\""),
        )
        .with_hint("settings of Tierra begin with tierra.; SHOW ALL lists them")
    })
}

/// The name as clients are told it.
fn shown(name: &'static str) -> &'static str {
    let found = CAPITALS.iter().find(|(plain, _)| *plain == name);
    found.map_or(name, |(_, shown)| shown)
}

impl Settings {
    /// Those of a user.
    pub(crate) fn new(user: &str, is_superuser: bool) -> Self {
        let is_superuser = if is_superuser { "on" } else { "off" };
        let start = HashMap::from([
            ("is_superuser", is_superuser.to_owned()),
            ("session_authorization", user.to_owned()),
        ]);
        Self {
            values: HashMap::new(),
            before: Vec::new(),
            start,
        }
    }

    /// What the client is told when it has logged in.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let reported = KNOWN.iter().filter(|known| known.2);
        reported.map(|known| (shown(known.0), self.value(known)))
    }

    /// All settings and their values.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &str)> {
        KNOWN.iter().map(|known| (known.0, self.value(known)))
    }

    fn value(&self, known: &'static Known) -> &str {
        let set = self.values.get(known.0).or_else(|| self.start.get(known.0));
        set.map_or(known.1, String::as_str)
    }

    /// The name of a setting as its column, and its value.
    pub(crate) fn show(&self, name: &str) -> Result<(&'static str, String), Fault> {
        let known = known(name)?;
        let value = self.value(known).to_owned();
        Ok((shown(known.0), value))
    }

    /// Takes a setting of the startup message. An unknown one is an error, as in PostgreSQL. A time zone is the client's own:
    /// drivers send that of their machine, and are told that values are in UTC.
    pub(crate) fn begin(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let known = known(name)?;
        if known.0 == "timezone" {
            return Ok(());
        }
        let value = checked(known, &[value.to_owned()])?;
        self.start.insert(known.0, value);
        Ok(())
    }

    /// Sets; returns what the client is to be told. `None` is the default.
    pub(crate) fn set(
        &mut self,
        name: &str,
        values: Option<&[String]>,
        is_local: bool,
    ) -> Result<Option<(&'static str, String)>, Fault> {
        let known = known(name)?;
        let value = values.map(|values| checked(known, values)).transpose()?;
        if value.is_none() && matches!(known.3, Values::Fact) {
            return Ok(None);
        }
        let before = match value {
            Some(value) => self.values.insert(known.0, value),
            None => self.values.remove(known.0),
        };
        match is_local {
            true => self.before.push((known.0, before)),
            // It stays when the transaction ends.
            false => self.before.retain(|(name, _)| *name != known.0),
        }
        Ok(known
            .2
            .then(|| (shown(known.0), self.value(known).to_owned())))
    }

    /// Forgets what was set; returns what the client is to be told.
    pub(crate) fn reset_all(&mut self) -> Vec<(&'static str, String)> {
        let names: Vec<_> = self.values.drain().map(|(name, _)| name).collect();
        self.before.clear();
        self.told(&names)
    }

    /// Ends what was set for the transaction; returns what the client is to be told.
    pub(crate) fn end_transaction(&mut self) -> Vec<(&'static str, String)> {
        if self.before.is_empty() {
            return Vec::new();
        }
        let mut names = Vec::new();
        for (name, before) in std::mem::take(&mut self.before).into_iter().rev() {
            match before {
                Some(value) => self.values.insert(name, value),
                None => self.values.remove(name),
            };
            names.push(name);
        }
        self.told(&names)
    }

    fn told(&self, names: &[&'static str]) -> Vec<(&'static str, String)> {
        let changed = KNOWN
            .iter()
            .filter(|known| known.2 && names.contains(&known.0));
        changed
            .map(|known| (shown(known.0), self.value(known).to_owned()))
            .collect()
    }

    /// A limit, which there is none of until it is set. It is asked for with each message: the list of all settings is not searched.
    fn time(&self, name: &'static str) -> Option<Duration> {
        let set = self.values.get(name).or_else(|| self.start.get(name))?;
        milliseconds(set)
            .filter(|ms| *ms > 0)
            .map(Duration::from_millis)
    }

    /// How long a statement may take.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.time("statement_timeout")
    }

    /// How long a transaction may wait for its next statement.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        self.time("idle_in_transaction_session_timeout")
    }

    pub(crate) fn application(&self) -> &str {
        self.values
            .get("application_name")
            .or_else(|| self.start.get("application_name"))
            .map_or("", String::as_str)
    }
}

/// The value to keep.
fn checked(known: &Known, values: &[String]) -> Result<String, Fault> {
    let Known(name, _, _, allowed) = known;
    let value = values.join(", ");
    // asyncpg sends quotes with the value.
    let lower = value.trim().trim_matches('\'').to_ascii_lowercase();
    let wrong = |what: &str| {
        Fault::new(
            "22023",
            format!("invalid value for parameter \"{name}\": \"{value}\""),
        )
        .with_hint(what)
    };
    match allowed {
        Values::Fact => Err(Fault::new(
            "55P02",
            format!("parameter \"{name}\" cannot be changed"),
        )),
        Values::Any => Ok(value),
        Values::OneOf(all) if all.contains(&lower.as_str()) => Ok(match *name {
            // Texts are sent as they are, which is what it means.
            "client_encoding" if lower == "sql_ascii" => "SQL_ASCII".to_owned(),
            "client_encoding" => "UTF8".to_owned(),
            "timezone" => "UTC".to_owned(),
            _ => value,
        }),
        Values::OneOf(all) => Err(wrong(&format!("Tierra takes {}", all.join(", ")))),
        Values::Time => {
            let ms = milliseconds(&lower)
                .ok_or_else(|| wrong("a number of milliseconds, or one with ms, s, min, h or d"))?;
            Ok(ms.to_string())
        }
        Values::Number(least, most) => match lower.parse::<i64>() {
            Ok(number) if (*least..=*most).contains(&number) => Ok(value),
            _ => Err(wrong(&format!("a whole number from {least} to {most}"))),
        },
        Values::Names(all) => {
            let mut names = lower.split(',').map(|name| name.trim().trim_matches('"'));
            match names.any(|name| all.contains(&name)) {
                true if *name == "datestyle" => Ok("ISO, MDY".to_owned()),
                true => Ok(value),
                false => Err(wrong(&format!(
                    "one of the names must be {}",
                    all.join(" or ")
                ))),
            }
        }
    }
}

fn milliseconds(text: &str) -> Option<u64> {
    let end = text
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    let unit = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let ms = number.checked_mul(unit)?;
    (ms <= i32::MAX as u64).then_some(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(
        settings: &mut Settings,
        name: &str,
        value: &str,
    ) -> Result<Option<(&'static str, String)>, &'static str> {
        settings
            .set(name, Some(&[value.to_owned()]), false)
            .map_err(|fault| fault.code)
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        let mut settings = Settings::new("u", true);
        for (name, value, code) in [
            ("nosuch", "1", "42704"),
            ("server_version", "15", "55P02"),
            ("client_encoding", "LATIN1", "22023"),
            ("standard_conforming_strings", "off", "22023"),
            ("timezone", "Europe/Berlin", "22023"),
            ("search_path", "other", "22023"),
            ("statement_timeout", "soon", "22023"),
            ("datestyle", "German", "22023"),
            ("extra_float_digits", "4", "22023"),
        ] {
            assert_eq!(set(&mut settings, name, value), Err(code), "{name}");
        }
        for (name, value) in [
            ("CLIENT_ENCODING", "'utf-8'"),
            ("DateStyle", "ISO"),
            ("search_path", "\"$user\", public"),
            ("extra_float_digits", "3"),
        ] {
            assert!(set(&mut settings, name, value).is_ok(), "{name}");
        }
        assert_eq!(settings.show("client_encoding").unwrap().1, "UTF8");
        set(&mut settings, "client_encoding", "SQL_ASCII").unwrap();
        assert_eq!(settings.show("client_encoding").unwrap().1, "SQL_ASCII");
    }

    #[test]
    fn local_values_end_with_the_transaction() {
        let mut settings = Settings::new("u", true);
        set(&mut settings, "statement_timeout", "2s").unwrap();
        settings
            .set("statement_timeout", Some(&["5".into()]), true)
            .unwrap();
        settings
            .set("application_name", Some(&["a".into()]), true)
            .unwrap();
        assert_eq!(settings.statement_timeout(), Some(Duration::from_millis(5)));
        assert_eq!(
            settings.end_transaction(),
            [("application_name", String::new())]
        );
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(2)));
        settings
            .set("statement_timeout", Some(&["3".into()]), true)
            .unwrap();
        set(&mut settings, "statement_timeout", "7").unwrap();
        settings.end_transaction();
        assert_eq!(settings.statement_timeout(), Some(Duration::from_millis(7)));
        settings.set("statement_timeout", None, false).unwrap();
        assert_eq!(settings.statement_timeout(), None);
        settings.begin("application_name", "psql").unwrap();
        assert_eq!(settings.application(), "psql");
        settings.begin("TimeZone", "Europe/Berlin").unwrap();
        assert_eq!(
            settings.show("timezone").unwrap(),
            ("TimeZone", "UTC".to_owned())
        );
        assert!(settings.begin("nosuch", "1").is_err());
    }
}
