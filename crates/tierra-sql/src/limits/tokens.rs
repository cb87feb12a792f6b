//! How many tokens a text may have, before there are any.
//!
//! Each byte of punctuation or white space may be a token, and so may each run of letters or of digits. What stands in plain quotes is one
//! token. From the first quote or comment of another kind on (`E'..'`, `$$..$$`, `--`), everything is counted as if nothing were
//! quoted. So the count is never too low, whatever the tokenizer makes of the text.

/// The most tokens that `text` has.
pub(crate) fn most_tokens(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut count, mut at) = (0, 0);
    let mut before = Class::Mark;
    let mut knows_quotes = true;
    while let Some(&byte) = bytes.get(at) {
        let class = Class::of(byte);
        let is_token = match class {
            Class::Mark => true,
            // The rest of a character.
            Class::Rest => false,
            Class::Letter | Class::Digit => class != before,
        };
        count += usize::from(is_token);
        let quoted_behind = at == 0 || may_precede_quotes(bytes[at - 1]);
        at += 1;
        if class != Class::Rest {
            before = class;
        }
        if !knows_quotes {
            continue;
        }
        match byte {
            b'\'' | b'"' if quoted_behind => at = behind_quotes(bytes, at, byte),
            b'\'' | b'"' | b'`' | b'#' => knows_quotes = false,
            b'-' if bytes.get(at) == Some(&b'-') => knows_quotes = false,
            b'/' if matches!(bytes.get(at), Some(b'*' | b'/')) => knows_quotes = false,
            // `$1` is a parameter, `$$` and `$1$` begin a text.
            b'$' => knows_quotes = is_parameter(&bytes[at..]),
            _ => {}
        }
    }
    count
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    /// Anything else, the first byte of a character beyond ASCII included.
    Mark,
    Rest,
}

impl Class {
    fn of(byte: u8) -> Self {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Self::Letter,
            b'0'..=b'9' => Self::Digit,
            0x80..=0xbf => Self::Rest,
            _ => Self::Mark,
        }
    }
}

/// Whether a quote after this byte begins what plain quotes do. After others it may end or continue something else.
fn may_precede_quotes(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"(,=<>.[|+".contains(&byte)
}

/// The place behind the closing quote; two of them are one in the text.
fn behind_quotes(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while let Some(found) = bytes[at..].iter().position(|byte| *byte == quote) {
        at += found + 1;
        if bytes.get(at) != Some(&quote) {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// Whether digits follow, and nothing that makes them the tag of a text.
fn is_parameter(behind: &[u8]) -> bool {
    let digits = behind.iter().take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    let next = behind.get(digits);
    digits > 0 && !next.is_some_and(|byte| *byte == b'$' || Class::of(*byte) != Class::Mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn tokens(text: &str) -> Option<usize> {
        let found = Tokenizer::new(&GenericDialect {}, text).tokenize();
        found.ok().map(|tokens| tokens.len())
    }

    #[test]
    fn long_texts_in_quotes_are_one_token() {
        let long = "it''s 1 of 2, ".repeat(1_000);
        let sql = format!("INSERT INTO \"a b\" VALUES ('{long}', $1, 'x')");
        let most = most_tokens(&sql);
        assert!((15..40).contains(&most), "{most}");
        assert!(tokens(&sql).unwrap() <= most);
    }

    /// What the tokenizer takes for quoted must not be taken for more than that.
    #[test]
    fn no_text_has_more_tokens_than_were_counted() {
        const PARTS: &[&str] = &[
            "'", "'", "\"", "`", "$", "$1", "$a$", "--", "/*", "*/", "\n", "\\", "E'", "U&'", "x'",
            "q'[", "]'", "N'", "r\"", "b'", "#", "1", ".5e3", "0x1f", "1L", "a", "é", "日", ",",
            "(", "&", "@", "?-", "::", "->>", " ",
        ];
        let seed = std::env::var("TIERRA_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| u64::from(std::process::id()));
        eprintln!("TIERRA_SEED={seed}");
        let mut state = seed.wrapping_mul(2) + 1;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 16) as usize % below
        };
        let mut checked = 0;
        for _ in 0..200_000 {
            let parts = 1 + random(12);
            let text: String = (0..parts).map(|_| PARTS[random(PARTS.len())]).collect();
            if let Some(tokens) = tokens(&text) {
                checked += 1;
                let most = most_tokens(&text);
                assert!(tokens <= most, "{text:?} has {tokens}, counted {most}");
            }
        }
        assert!(checked > 10_000, "{checked}");
    }
}
