//! Patterns: those of LIKE, and regular expressions as PostgreSQL writes them.

use regex::{Regex, RegexBuilder};

use crate::error::{Error, Result};

/// Whether a text is like a pattern, in which `%` is any text, `_` any letter, and `escape` takes the meaning from the next letter.
pub(crate) fn is_like(text: &str, pattern: &str, escape: Option<char>) -> Result<bool> {
    let text: Vec<char> = text.chars().collect();
    let mut parts = Vec::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        parts.push(match letter {
            _ if Some(letter) == escape => Part::Letter(letters.next().ok_or_else(|| {
                Error::new("22025", "LIKE pattern must not end with escape character")
            })?),
            '%' => Part::AnyText,
            '_' => Part::Any,
            letter => Part::Letter(letter),
        });
    }
    // Where the last `%` stands, and how much of the text it has taken.
    let (mut at, mut part, mut last) = (0, 0, None);
    while at < text.len() {
        match parts.get(part) {
            Some(Part::AnyText) => {
                last = Some((part, at));
                part += 1;
            }
            Some(Part::Any) => (at, part) = (at + 1, part + 1),
            Some(Part::Letter(letter)) if *letter == text[at] => (at, part) = (at + 1, part + 1),
            _ => match &mut last {
                Some((any, taken)) => {
                    *taken += 1;
                    (at, part) = (*taken, *any + 1);
                }
                None => return Ok(false),
            },
        }
    }
    Ok(parts[part..]
        .iter()
        .all(|part| matches!(part, Part::AnyText)))
}

/// The most bytes that a regular expression takes when it is compiled.
const REGEX_MOST_BYTES: usize = 1 << 18;

enum Part {
    Letter(char),
    Any,
    AnyText,
}

/// A regular expression of PostgreSQL.
pub(crate) fn regex(pattern: &str, ignores_case: bool) -> Result<Regex> {
    let mut translated = String::new();
    let mut letters = pattern.chars().peekable();
    let mut is_in_brackets = false;
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            translated.push(letter);
            let next = letters.peek().copied();
            match (is_in_brackets, letter) {
                (false, '[') => {
                    is_in_brackets = true;
                    // What stands first is a letter, also if it is `]`.
                    translated.extend(letters.next_if_eq(&'^'));
                    translated.extend(letters.next_if_eq(&']'));
                }
                (true, '[') if next == Some(':') => {
                    let mut class = String::from("[");
                    while let Some(letter) = letters.next_if(|letter| *letter != ']') {
                        class.push(letter);
                    }
                    class.extend(letters.next());
                    translated.pop();
                    // Letters are those of Unicode, digits those of ASCII.
                    translated.push_str(match class.as_str() {
                        "[:alpha:]" => r"\p{Alphabetic}",
                        "[:alnum:]" => r"\p{Alphabetic}0-9",
                        "[:lower:]" => r"\p{Lowercase}",
                        "[:upper:]" => r"\p{Uppercase}",
                        "[:space:]" => r"\s",
                        other => other,
                    });
                }
                // They would be sets of sets.
                (true, '[') => {
                    return Err(Error::unsupported("[ within [] of a regular expression"));
                }
                (true, '&' | '-' | '~') if next == Some(letter) => {
                    return Err(Error::unsupported(
                        "&&, -- or ~~ within [] of a regular expression",
                    ));
                }
                (true, ']') => is_in_brackets = false,
                _ => {}
            }
            continue;
        }
        match letters.next() {
            Some('y') => translated.push_str(r"\b"),
            Some('m') => translated.push_str(r"\b{start}"),
            Some('M') => translated.push_str(r"\b{end}"),
            // These are other things in PostgreSQL.
            Some('B') => return Err(Error::unsupported("\\B in a regular expression")),
            Some('Z') => translated.push_str(r"\z"),
            Some('d') if is_in_brackets => translated.push_str("0-9"),
            Some('d') => translated.push_str("[0-9]"),
            Some('D') if !is_in_brackets => translated.push_str("[^0-9]"),
            Some(next) if next.is_ascii_alphanumeric() => translated.extend(['\\', next]),
            Some(next) => translated.push_str(&regex::escape(&next.to_string())),
            None => {
                return Err(Error::new(
                    "2201B",
                    "invalid regular expression: it ends with \\",
                ));
            }
        }
    }
    let mut builder = RegexBuilder::new(&translated);
    let built = builder
        .case_insensitive(ignores_case)
        .dot_matches_new_line(true)
        .size_limit(REGEX_MOST_BYTES)
        .dfa_size_limit(REGEX_MOST_BYTES)
        .build();
    built.map_err(|error| {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim().to_owned();
        Error::new(
            "2201B",
            format!("invalid regular expression \"{pattern}\": {reason}"),
        )
    })
}

/// A regular expression of which is asked what it matches: PostgreSQL takes the longest text, and this the first alternative.
pub(crate) fn check_longest(pattern: &str) -> Result<()> {
    match pattern.contains('|') && !pattern.ends_with('$') {
        true => Err(Error::unsupported(
            "| in a regular expression whose text is taken",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_takes_any_text() {
        let like = |text: &str, pattern: &str| is_like(text, pattern, Some('\\')).unwrap();
        assert!(like("pg_class", "pg\\_%") && !like("pgxclass", "pg\\_%"));
        assert!(like("abcabd", "%abd") && like("", "%") && !like("", "_"));
        assert!(like("aXbXc", "a%b%c") && !like("aXbX", "a%b%c"));
        assert_eq!(is_like("a", "a\\", Some('\\')).unwrap_err().code, "22025");
    }

    #[test]
    fn regular_expressions_are_those_of_postgresql() {
        let matches = |pattern: &str, text: &str| regex(pattern, false).unwrap().is_match(text);
        assert!(matches("^(items)$", "items") && !matches("^(items)$", "items2"));
        assert!(matches("^(a\\$b)$", "a$b") && matches("\\mfoo\\M", "a foo b"));
        assert!(!matches("^pg_(toast|temp)", "public") && matches("^.*$", "a\nb"));
        assert_eq!(regex("(", false).unwrap_err().code, "2201B");
        assert!(matches("^[]a[:digit:]]+$", "]a7") && matches("^[^]]$", "a"));
        assert!(matches("^[[:alpha:]_][^[:upper:]]\\w$", "éöß") && !matches("[[:alpha:]]", "1-"));
        assert!(!matches("[[:digit:]\\d]|\\d", "٣") && matches("^[[:alnum:][:space:]]+$", "ä 1"));
        for other in ["[a&&b]", "[[a]]", "a\\Bb"] {
            assert_eq!(regex(other, false).unwrap_err().code, "0A000", "{other}");
        }
        assert!(check_longest("a|ab").is_err() && check_longest("^(a|ab)$").is_ok());
    }
}
