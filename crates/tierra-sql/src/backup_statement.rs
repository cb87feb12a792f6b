//! BACKUP DATABASE, which the parser does not know.
//!
//! ```sql
//! BACKUP DATABASE TO '/backups/monday.tierra' WITH (compression = 'zstd');
//! BACKUP DATABASE TO '/backups/tuesday.tierra' WITH (since = '/backups/monday.tierra');
//! ```

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use tierra_engine::Compression;

use crate::error::SqlError;

/// BACKUP DATABASE.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BackupStatement {
    pub(crate) file: PathBuf,
    pub(crate) compression: Compression,
    /// The backup that it builds on.
    pub(crate) since: Option<PathBuf>,
}

impl BackupStatement {
    /// The statement in `tokens`, if they begin as one.
    ///
    /// # Errors
    /// [`SqlError::Syntax`], if the rest of it is wrong.
    pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<Self>, SqlError> {
        let mut words = tokens
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let begins = words.next().is_some_and(|token| is_word(token, "backup"));
        if !begins {
            return Ok(None);
        }
        let dialect = GenericDialect {};
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
        parser.next_token();
        let parsed = rest(&mut parser).and_then(|parsed| {
            parser.expect_token(&Token::EOF)?;
            Ok(parsed)
        });
        Ok(Some(parsed.map_err(DataFusionError::from)?))
    }
}

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    match &token.token {
        Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

fn rest(parser: &mut Parser<'_>) -> Result<BackupStatement, ParserError> {
    parser.expect_keyword(Keyword::DATABASE)?;
    parser.expect_keyword(Keyword::TO)?;
    let found = parser.next_token();
    let file = match &found.token {
        Token::SingleQuotedString(file) if !file.is_empty() => PathBuf::from(file),
        _ => return parser.expected("the path of a file in quotes", found),
    };
    let mut statement = BackupStatement {
        file,
        compression: Compression::default(),
        since: None,
    };
    if parser.parse_keyword(Keyword::WITH) {
        parser.expect_token(&Token::LParen)?;
        option(parser, &mut statement)?;
        while parser.consume_token(&Token::Comma) {
            option(parser, &mut statement)?;
        }
        parser.expect_token(&Token::RParen)?;
    }
    Ok(statement)
}

/// `compression = 'METHOD'` or `since = 'FILE'`. As in CREATE TABLE, the name may be in single quotes.
fn option(parser: &mut Parser<'_>, statement: &mut BackupStatement) -> Result<(), ParserError> {
    let found = parser.next_token();
    let name = match &found.token {
        Token::Word(word) => word.value.to_ascii_lowercase(),
        Token::SingleQuotedString(name) => name.clone(),
        _ => String::new(),
    };
    if !["compression", "since"].contains(&&*name) {
        return parser.expected("compression or since, the options of a backup", found);
    }
    parser.expect_token(&Token::Eq)?;
    let found = parser.next_token();
    let Token::SingleQuotedString(value) = &found.token else {
        return parser.expected("a value in quotes", found);
    };
    if name == "since" {
        statement.since = Some(PathBuf::from(value));
        return Ok(());
    }
    match value.to_ascii_lowercase().parse() {
        Ok(compression) => statement.compression = compression,
        Err(_) => return parser.expected("'none' or 'zstd'", found),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::split;

    fn parsed(sql: &str) -> Result<Option<BackupStatement>, SqlError> {
        BackupStatement::parse(split(sql).unwrap()[0].tokens())
    }

    #[test]
    fn a_file_and_perhaps_a_compression() {
        let backup = |file: &str, compression| {
            Some(BackupStatement {
                file: file.into(),
                compression,
                since: None,
            })
        };
        let sql = "-- nightly\nbackup Database to '/b/ä file'";
        assert_eq!(parsed(sql).unwrap(), backup("/b/ä file", Compression::None));
        for option in ["Compression = 'ZSTD'", "'compression'='zstd'"] {
            let sql = format!("BACKUP DATABASE TO 'b' WITH ({option})");
            assert_eq!(parsed(&sql).unwrap(), backup("b", Compression::Zstd));
        }
        let sql = "BACKUP DATABASE TO 'b' WITH (since = '/A/a', compression = 'none')";
        let since = parsed(sql).unwrap().unwrap().since;
        assert_eq!(since, Some(PathBuf::from("/A/a")));
    }

    #[test]
    fn other_statements_are_left_and_half_ones_refused() {
        for other in ["SELECT backup", "\"backup\" database", "(SELECT 1)"] {
            assert_eq!(parsed(other).unwrap(), None, "{other}");
        }
        for (half, said) in [
            ("BACKUP", "Expected: DATABASE, found: EOF"),
            ("BACKUP TABLE t TO 'b'", "Expected: DATABASE, found: TABLE"),
            ("BACKUP DATABASE 'b'", "Expected: TO, found: 'b'"),
            (
                "BACKUP DATABASE TO b",
                "Expected: the path of a file in quotes, found: b",
            ),
            ("BACKUP DATABASE TO ''", "the path of a file"),
            (
                "BACKUP DATABASE TO 'b' WITH (level = '1')",
                "Expected: compression or since, the options of a backup, found: level",
            ),
            (
                "BACKUP DATABASE TO 'b' WITH (compression = 'gzip')",
                "Expected: 'none' or 'zstd', found: 'gzip'",
            ),
            (
                "BACKUP DATABASE TO 'b' WITH (since = a)",
                "Expected: a value in quotes, found: a",
            ),
            ("BACKUP DATABASE TO 'b', 'c'", "found: ,"),
        ] {
            let error = parsed(half).unwrap_err().to_string();
            assert!(error.starts_with("syntax error: Expected"), "{error}");
            assert!(error.contains(said), "{half}: {error}");
        }
    }
}
