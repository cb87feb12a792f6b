//! psql's patterns for names: `^(name)$`, in which `.*` is any text and `.` any character.

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Part>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Letter(char),
    Any,
    AnyText,
}

impl Pattern {
    /// Reads a regular expression; `None` if it is more than a pattern of psql.
    pub(super) fn of(text: &str) -> Option<Self> {
        let inner = text.strip_prefix("^(")?.strip_suffix(")$")?;
        let mut parts = Vec::new();
        let mut letters = inner.chars().peekable();
        while let Some(letter) = letters.next() {
            parts.push(match letter {
                '.' if letters.next_if_eq(&'*').is_some() => Part::AnyText,
                '.' => Part::Any,
                '\\' => Part::Letter(letters.next().filter(|letter| !letter.is_alphanumeric())?),
                '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '^' | '$' => {
                    return None;
                }
                letter => Part::Letter(letter),
            });
        }
        Some(Self(parts))
    }

    /// Whether `name` is one of these.
    pub(super) fn matches(&self, name: &str) -> bool {
        // The places of the pattern that the letters so far can have come to.
        let mut places = vec![false; self.0.len() + 1];
        places[0] = true;
        self.pass_over(&mut places);
        for letter in name.chars() {
            let mut next = vec![false; places.len()];
            for (place, part) in self
                .0
                .iter()
                .enumerate()
                .filter(|(place, _)| places[*place])
            {
                match part {
                    Part::AnyText => next[place] = true,
                    Part::Any => next[place + 1] = true,
                    Part::Letter(expected) => next[place + 1] |= *expected == letter,
                }
            }
            self.pass_over(&mut next);
            places = next;
        }
        places.last() == Some(&true)
    }

    /// Any text may be none.
    fn pass_over(&self, places: &mut [bool]) {
        for (place, part) in self.0.iter().enumerate() {
            places[place + 1] |= places[place] && *part == Part::AnyText;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        let matches = |pattern: &str, name: &str| Pattern::of(pattern).unwrap().matches(name);
        assert!(
            matches("^(items)$", "items")
                && !matches("^(items)$", "items2")
                && !matches("^(item)$", "items")
        );
        assert!(
            matches("^(it.*)$", "items")
                && matches("^(it.*)$", "it")
                && !matches("^(it.*)$", "xit")
        );
        assert!(
            matches("^(.*e.*s)$", "items")
                && matches("^(i.ems)$", "items")
                && !matches("^(i.ems)$", "iems")
        );
        assert!(matches("^(a\\$b)$", "a$b") && matches("^(.*)$", ""));
        for more in ["items", "^(a|b)$", "^(a+)$", "^([ab])$", "^(\\d)$"] {
            assert_eq!(Pattern::of(more), None, "{more}");
        }
    }
}
