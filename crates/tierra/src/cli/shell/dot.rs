//! The shell's own commands, which begin with a dot.

use super::super::format::Format;
use clap::ValueEnum;

/// A dot command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Dot {
    /// `.tables`
    Tables,
    /// `.schema [TABLE]`
    Schema(Option<String>),
    /// `.format [table|csv|json]`
    Format(Option<Format>),
    /// `.timer [on|off]`
    Timer(Option<bool>),
    /// `.help`
    Help,
    /// `.quit`
    Quit,
}

/// Every command with its arguments and its description.
pub(crate) const COMMANDS: [(&str, &str, &str); 6] = [
    (
        ".tables",
        "",
        "list the tables, their rows and bytes, packed and in the tail",
    ),
    (
        ".schema",
        "[TABLE]",
        "show how a table, or every one, was created",
    ),
    (".format", "[table|csv|json]", "how results are printed"),
    (
        ".timer",
        "[on|off]",
        "whether each statement's time is shown",
    ),
    (".help", "", "this list"),
    (".quit", "", "leave; Ctrl-D does too"),
];

impl Dot {
    /// Parses a line that begins with a dot.
    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        if name == ".schema" {
            return Ok(Self::Schema(table_name(&line[name.len()..])));
        }
        let argument = words.next();
        if let Some(extra) = words.next() {
            return Err(format!(
                "{name} takes at most one argument, found '{extra}' too"
            ));
        }
        let none = |command| match argument {
            None => Ok(command),
            Some(found) => Err(format!("{name} takes no argument, found '{found}'")),
        };
        match name {
            ".tables" => none(Self::Tables),
            ".help" => none(Self::Help),
            ".quit" | ".exit" => none(Self::Quit),
            ".format" => match argument {
                None => Ok(Self::Format(None)),
                Some(format) => Format::from_str(format, true)
                    .map(|format| Self::Format(Some(format)))
                    .map_err(|_| format!("'{format}' is no format; choose table, csv or json")),
            },
            ".timer" => match argument {
                None => Ok(Self::Timer(None)),
                Some("on") => Ok(Self::Timer(Some(true))),
                Some("off") => Ok(Self::Timer(Some(false))),
                Some(other) => Err(format!("'{other}' is neither on nor off")),
            },
            _ => Err(format!("{name} is no command; .help lists them")),
        }
    }
}

/// The table name in the rest of a line: unquoted, possibly with blanks, or in quotes.
fn table_name(rest: &str) -> Option<String> {
    let name = rest.trim().trim_end_matches(';').trim_end();
    let quoted = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    let name = quoted.map_or_else(|| name.to_owned(), |name| name.replace("\"\"", "\""));
    (!name.is_empty()).then_some(name)
}

/// The command probably meant by `text`, as in other shells.
pub(crate) fn meant(text: &str) -> Option<String> {
    let text = text.trim_end_matches(';').trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let command = match (word.to_ascii_lowercase().as_str(), rest.trim()) {
        ("quit" | "exit" | "\\q", "") => ".quit",
        ("help" | "?", "") => ".help",
        ("\\d" | "\\dt" | "\\d+" | "\\dt+" | "tables", "") => ".tables",
        ("\\d" | "\\dt" | "\\d+" | "\\dt+", table) => return Some(format!(".schema {table}")),
        ("\\timing", _) => ".timer",
        (other, _) if other.starts_with('\\') => ".help",
        _ => return None,
    };
    Some(command.to_owned())
}

/// What `.help` prints.
pub(crate) fn help() -> String {
    let mut help =
        String::from("SQL statements end with a semicolon and may take several lines.\n");
    for (name, argument, does) in COMMANDS {
        help.push_str(&format!("{name:<8} {argument:<16}  {does}\n"));
    }
    help.push_str(
        "Tab completes names and keywords; Ctrl-C stops a query.\n\
         What is typed is remembered in ~/.tierra_history, or in the file that $TIERRA_HISTORY names.",
    );
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_understood_and_mistakes_explained() {
        assert_eq!(Dot::parse(".tables"), Ok(Dot::Tables));
        for (line, table) in [
            (".schema", None),
            (".schema  t;", Some("t")),
            (".schema Odd one", Some("Odd one")),
            (".schema \"Odd \"\"one\"\"\" ", Some("Odd \"one\"")),
        ] {
            let table = table.map(str::to_owned);
            assert_eq!(Dot::parse(line), Ok(Dot::Schema(table)), "{line}");
        }
        assert_eq!(
            Dot::parse(".format CSV"),
            Ok(Dot::Format(Some(Format::Csv)))
        );
        assert_eq!(Dot::parse(".timer off"), Ok(Dot::Timer(Some(false))));
        assert_eq!(Dot::parse(".exit"), Ok(Dot::Quit));
        for (line, part) in [
            (".format xml", "table, csv or json"),
            (".timer maybe", "neither on nor off"),
            (".tables x", "no argument"),
            (".format csv json", "'json'"),
            (".nonsense", ".help"),
        ] {
            let message = Dot::parse(line).expect_err(line);
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn the_words_of_other_shells_are_known() {
        for (text, command) in [
            ("quit", ".quit"),
            ("EXIT;", ".quit"),
            ("\\q", ".quit"),
            ("\\d", ".tables"),
            ("\\d orders;", ".schema orders"),
            ("\\copy t from 'x'", ".help"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(command), "{text}");
        }
        assert_eq!(meant("SELECT quit"), None);
    }
}
