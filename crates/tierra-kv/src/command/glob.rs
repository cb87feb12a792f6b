//! Patterns of keys: `*`, `?`, `[a-z]`, `[^a]` and `\`, as KEYS and SCAN have them.

/// Whether all of `text` is what `pattern` describes.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when what follows the last star does not fit: one byte further.
    let mut star = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            star = Some((p, t));
            continue;
        }
        match one(pattern, p, text[t]) {
            Some(next) => (p, t) = (next, t + 1),
            None => match &mut star {
                Some((after, from)) => {
                    *from += 1;
                    (p, t) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Where the pattern goes on after the element at `p`, if that fits the byte.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        b'[' => class(pattern, p + 1, byte),
        literal => (literal == byte).then_some(p + 1),
    }
}

/// A class that begins after its bracket; one that does not end reaches to the end of the pattern.
fn class(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    p += usize::from(negated);
    let mut found = false;
    loop {
        match pattern[p.min(pattern.len())..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                p += 2;
            }
            [b']', ..] => {
                p += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                p += 3;
            }
            [literal, ..] => {
                found |= literal == byte;
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn patterns_describe_keys() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hallo", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeello", true),
            ("h[ae]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[\\]]", "]", true),
            ("[abc", "b", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
            ("a**", "a", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
    }

    /// Patterns of stars and letters, against the definition itself.
    fn defined(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| defined(rest, &text[skip..])),
            ([b'?', rest @ ..], [_, after @ ..]) => defined(rest, after),
            ([a, rest @ ..], [b, after @ ..]) => a == b && defined(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn stars_are_tried_everywhere(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), defined(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn no_pattern_panics(pattern in prop::collection::vec(any::<u8>(), 0..12), text in prop::collection::vec(any::<u8>(), 0..12)) {
            matches(&pattern, &text);
            matches(&[b"[".as_slice(), &pattern].concat(), &text);
        }
    }
}
