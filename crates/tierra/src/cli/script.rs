//! Splits a text of SQL into statements and dot commands, each with the line it begins on.
//!
//! It understands only what decides where a statement ends: quotes of all kinds, comments, semicolons. The parser checks the
//! rest, statement by statement, so that an error in the last statement of a script does not keep the first from running.

/// One statement or command of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// What it is.
    pub(crate) kind: Kind,
    /// Its text without the semicolon and surrounding blanks.
    pub(crate) text: &'a str,
    /// The line of the script on which it begins, from 1.
    pub(crate) line: usize,
}

/// The kind of a [`Piece`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SQL up to a semicolon.
    Statement,
    /// SQL at the end of the text, without a semicolon.
    Unfinished,
    /// A line that starts with a dot.
    Command,
}

/// The pieces of `script`, in order. Comments and blanks between statements are not pieces.
pub(crate) fn pieces(script: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += blank_len(&script[at..]);
        let rest = &script[at..];
        if rest.is_empty() {
            return None;
        }
        let line = 1 + script[..at].matches('\n').count();
        let (kind, len, skip) = if rest.starts_with('.') {
            (Kind::Command, rest.find('\n').unwrap_or(rest.len()), 0)
        } else {
            match statement_len(rest) {
                Some(len) => (Kind::Statement, len, 1),
                None => (Kind::Unfinished, rest.len(), 0),
            }
        };
        at += len + skip;
        let text = rest[..len].trim();
        Some(Piece { kind, text, line })
    })
    // An extra semicolon is not a statement.
    .filter(|piece| !piece.text.is_empty())
}

/// Bytes of blanks and comments at the start of `text`.
fn blank_len(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        match comment_len(&text.as_bytes()[at..]) {
            0 => return at,
            len => at += len,
        }
    }
}

/// Bytes of the comment at the start of `text`, or 0.
fn comment_len(text: &[u8]) -> usize {
    if text.starts_with(b"--") {
        return (text.iter().position(|&byte| byte == b'\n')).unwrap_or(text.len());
    }
    if !text.starts_with(b"/*") {
        return 0;
    }
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < text.len() {
        match &text[at..] {
            [b'*', b'/', ..] => (at, depth) = (at + 2, depth - 1),
            [b'/', b'*', ..] => (at, depth) = (at + 2, depth + 1),
            _ => at += 1,
        }
    }
    at
}

/// Bytes before the semicolon that ends the statement at the start of `text`.
fn statement_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        at += match rest[0] {
            b';' => return Some(at),
            // A doubled quote ends one quoted run and begins the next, with the same result.
            quote @ (b'\'' | b'"' | b'`') => 2 + position(&rest[1..], &[quote])?,
            b'e' | b'E' if rest.get(1) == Some(&b'\'') => 2 + escaped_len(&rest[2..])?,
            // A dollar inside a name is part of the name.
            first if is_of_name(first) => rest
                .iter()
                .position(|&byte| !is_of_name(byte) && byte != b'$')
                .unwrap_or(rest.len()),
            b'$' => match dollar_quote(rest) {
                Some(quote) => 2 * quote.len() + position(&rest[quote.len()..], quote)?,
                None => 1,
            },
            _ => comment_len(rest).max(1),
        };
    }
    None
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// The first position of `wanted` in `text`.
fn position(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|found| found == wanted)
}

/// Bytes of a string with backslashes, from after its opening quote to its closing one, inclusive.
fn escaped_len(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = text.iter().position(|&byte| {
        let ends = byte == b'\'' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some(end + 1)
}

/// The `$$` or `$tag$` that `text` begins with; `$1` is a parameter.
fn dollar_quote(text: &[u8]) -> Option<&[u8]> {
    let tag = text[1..].iter().take_while(|&&byte| is_of_name(byte));
    let len = 2 + tag.count();
    (text.get(len - 1) == Some(&b'$')).then(|| &text[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(script: &str) -> Vec<(Kind, &str, usize)> {
        let pieces = pieces(script);
        pieces.map(|p| (p.kind, p.text, p.line)).collect()
    }

    #[test]
    fn statements_end_at_semicolons_that_are_code() {
        use Kind::*;
        assert_eq!(
            cut("select 1; select\n2;"),
            [(Statement, "select 1", 1), (Statement, "select\n2", 1)]
        );
        assert_eq!(
            cut("select ';''; \";\", \"a\"\"; -- b;\n'/* ;"),
            [(Unfinished, "select ';''; \";\", \"a\"\"; -- b;\n'/* ;", 1)]
        );
        assert_eq!(
            cut("select ';''', \";\" -- ;\n /* ; /* ; */ ; */ ;x"),
            [
                (Statement, "select ';''', \";\" -- ;\n /* ; /* ; */ ; */", 1),
                (Unfinished, "x", 2)
            ]
        );
    }

    #[test]
    fn quotes_of_all_kinds_hide_semicolons() {
        use Kind::*;
        for statement in [
            "select $$a;b$$",
            "select $t$a;$$;b$t$",
            "select $é$;$é$",
            r"select e'it\'s; \\', E'\\\';'",
            "select `a;b`",
        ] {
            let script = format!("{statement}; select $1;");
            assert_eq!(
                cut(&script),
                [(Statement, statement, 1), (Statement, "select $1", 1)]
            );
        }
        assert_eq!(
            cut("select a$$b; select c$$d;"),
            [(Statement, "select a$$b", 1), (Statement, "select c$$d", 1)]
        );
        for open in ["select $$a; b", "select $t$ $$; x", r"select e'a\'; b"] {
            assert_eq!(cut(open), [(Unfinished, open, 1)]);
        }
    }

    #[test]
    fn blanks_comments_and_stray_semicolons_are_nothing() {
        assert_eq!(cut(""), []);
        assert_eq!(cut(" ;; \n ; -- only a comment"), []);
        assert_eq!(cut("/* never closed ; "), []);
        assert_eq!(
            cut("-- é\n\n select 1"),
            [(Kind::Unfinished, "select 1", 3)]
        );
    }

    #[test]
    fn a_command_is_a_line() {
        use Kind::*;
        assert_eq!(
            cut(".format csv\nselect 1;\n  .tables \nselect .5;"),
            [
                (Command, ".format csv", 1),
                (Statement, "select 1", 2),
                (Command, ".tables", 3),
                (Statement, "select .5", 4)
            ]
        );
    }
}
