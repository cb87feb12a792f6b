//! CREATE TIER and DROP TIER, which the parser does not know.
//!
//! ```sql
//! CREATE TIER IF NOT EXISTS b AT '/mnt/pmem1/b.pool';
//! DROP TIER IF EXISTS b;
//! ```

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;
use crate::names::identifier;

/// A statement about a tier of the database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TierStatement {
    /// CREATE TIER.
    Create {
        name: String,
        pool: PathBuf,
        if_not_exists: bool,
    },
    /// DROP TIER.
    Drop { name: String, if_exists: bool },
}

impl TierStatement {
    /// The statement in `tokens`, if they begin as a statement about a tier.
    ///
    /// # Errors
    /// [`SqlError::Syntax`], if the rest of it is wrong.
    pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<Self>, SqlError> {
        let mut words = tokens
            .iter()
            .filter(|token| !matches!(token.token, Token::Whitespace(_)))
            .map(|token| match &token.token {
                Token::Word(word) if word.quote_style.is_none() => word.value.as_str(),
                _ => "",
            });
        let verb = words.next().unwrap_or_default();
        let creates = verb.eq_ignore_ascii_case("create");
        let is_verb = creates || verb.eq_ignore_ascii_case("drop");
        if !is_verb
            || !words
                .next()
                .is_some_and(|noun| noun.eq_ignore_ascii_case("tier"))
        {
            return Ok(None);
        }
        let dialect = GenericDialect {};
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
        parser.next_token();
        parser.next_token();
        let parsed = match creates {
            true => create_tier(&mut parser),
            false => drop_tier(&mut parser),
        };
        let parsed = parsed.and_then(|parsed| {
            parser.expect_token(&Token::EOF)?;
            Ok(parsed)
        });
        Ok(Some(parsed.map_err(DataFusionError::from)?))
    }
}

fn create_tier(parser: &mut Parser<'_>) -> Result<TierStatement, ParserError> {
    let if_not_exists = parser.parse_keywords(&[Keyword::IF, Keyword::NOT, Keyword::EXISTS]);
    let name = identifier(&parser.parse_identifier()?);
    parser.expect_keyword(Keyword::AT)?;
    let found = parser.next_token();
    let pool = match &found.token {
        Token::SingleQuotedString(pool) => PathBuf::from(pool),
        _ => return parser.expected("the path of a pool in quotes", found),
    };
    Ok(TierStatement::Create {
        name,
        pool,
        if_not_exists,
    })
}

fn drop_tier(parser: &mut Parser<'_>) -> Result<TierStatement, ParserError> {
    let if_exists = parser.parse_keywords(&[Keyword::IF, Keyword::EXISTS]);
    let name = identifier(&parser.parse_identifier()?);
    Ok(TierStatement::Drop { name, if_exists })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::split;

    fn parsed(sql: &str) -> Result<Option<TierStatement>, SqlError> {
        split(sql).unwrap()[0].tier_statement()
    }

    #[test]
    fn names_are_folded_unless_quoted() {
        let create = |name: &str, if_not_exists| {
            Some(TierStatement::Create {
                name: name.into(),
                pool: "/b.pool".into(),
                if_not_exists,
            })
        };
        let sql = "-- one more\ncreate Tier B at '/b.pool';";
        assert_eq!(parsed(sql).unwrap(), create("b", false));
        let sql = "CREATE TIER IF NOT EXISTS \"B-1\" AT '/b.pool'";
        assert_eq!(parsed(sql).unwrap(), create("B-1", true));
        let drop = |name: &str, if_exists| TierStatement::Drop {
            name: name.into(),
            if_exists,
        };
        assert_eq!(parsed("DROP TIER tier").unwrap(), Some(drop("tier", false)));
        assert_eq!(
            parsed("DROP TIER IF EXISTS b").unwrap(),
            Some(drop("b", true))
        );
    }

    #[test]
    fn other_statements_are_left_and_half_ones_refused() {
        for other in [
            "DROP TABLE tier",
            "CREATE TABLE t (tier INTEGER)",
            "SELECT 1",
            "(SELECT 1)",
        ] {
            assert_eq!(parsed(other).unwrap(), None, "{other}");
        }
        for (half, said) in [
            ("CREATE TIER b", "Expected: AT, found: EOF"),
            (
                "CREATE TIER b AT c",
                "Expected: the path of a pool in quotes, found: c",
            ),
            ("CREATE TIER AT '/b.pool'", "Expected: AT"),
            ("DROP TIER b, c", "found: ,"),
            ("DROP TIER", "Expected: identifier"),
        ] {
            let error = parsed(half).unwrap_err().to_string();
            assert!(error.starts_with("syntax error: Expected"), "{error}");
            assert!(error.contains(said), "{half}: {error}");
        }
    }
}
