//! CREATE TIER, ALTER TIER and DROP TIER, which the parser does not know.
//!
//! ```sql
//! CREATE TIER IF NOT EXISTS b AT '/mnt/pmem1/b.pool' WITH (access = 'auto');
//! ALTER TIER b SET (access = 'in-place');
//! DROP TIER IF EXISTS b;
//! ```

use std::path::PathBuf;

use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use tierra_engine::Access;

use crate::error::SqlError;
use crate::names::identifier;

/// A statement about a tier of the database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TierStatement {
    /// CREATE TIER.
    Create {
        name: String,
        pool: PathBuf,
        access: Access,
        if_not_exists: bool,
    },
    /// ALTER TIER.
    Alter { name: String, access: Access },
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
        let rest = match &*verb.to_ascii_lowercase() {
            "create" => create_tier,
            "alter" => alter_tier,
            "drop" => drop_tier,
            _ => return Ok(None),
        };
        let noun = words.next().unwrap_or_default();
        if !noun.eq_ignore_ascii_case("tier") {
            return Ok(None);
        }
        let dialect = GenericDialect {};
        let mut parser = Parser::new(&dialect).with_tokens_with_locations(tokens.to_vec());
        parser.next_token();
        parser.next_token();
        let parsed = rest(&mut parser).and_then(|parsed| {
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
    let access = match parser.parse_keyword(Keyword::WITH) {
        true => access_option(parser)?,
        false => Access::default(),
    };
    Ok(TierStatement::Create {
        name,
        pool,
        access,
        if_not_exists,
    })
}

fn alter_tier(parser: &mut Parser<'_>) -> Result<TierStatement, ParserError> {
    let name = identifier(&parser.parse_identifier()?);
    parser.expect_keyword(Keyword::SET)?;
    let access = access_option(parser)?;
    Ok(TierStatement::Alter { name, access })
}

/// `(access = 'MODE')`, the only option of a tier. As in CREATE TABLE, its name may be in single quotes.
fn access_option(parser: &mut Parser<'_>) -> Result<Access, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let found = parser.next_token();
    match &found.token {
        Token::Word(word) if word.value.eq_ignore_ascii_case("access") => {}
        Token::SingleQuotedString(name) if name == "access" => {}
        _ => return parser.expected("access, the only option of a tier", found),
    }
    parser.expect_token(&Token::Eq)?;
    let found = parser.next_token();
    let mode = match &found.token {
        Token::SingleQuotedString(mode) => mode.to_ascii_lowercase().parse().ok(),
        _ => None,
    };
    let Some(mode) = mode else {
        let modes = "'in-place', 'mapped', 'buffered', 'direct' or 'auto'";
        return parser.expected(modes, found);
    };
    parser.expect_token(&Token::RParen)?;
    Ok(mode)
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
    use tierra_memory::CopyMethod;

    fn parsed(sql: &str) -> Result<Option<TierStatement>, SqlError> {
        split(sql).unwrap()[0].tier_statement()
    }

    #[test]
    fn names_are_folded_unless_quoted() {
        let create = |name: &str, if_not_exists| {
            Some(TierStatement::Create {
                name: name.into(),
                pool: "/b.pool".into(),
                access: Access::InPlace,
                if_not_exists,
            })
        };
        let sql = "-- one more\ncreate Tier B at '/b.pool';";
        assert_eq!(parsed(sql).unwrap(), create("b", false));
        let sql = "CREATE TIER IF NOT EXISTS \"B-1\" AT '/b.pool'";
        assert_eq!(parsed(sql).unwrap(), create("B-1", true));
        let sql = "CREATE TIER b AT '/b.pool' WITH (Access = 'Auto')";
        let Some(TierStatement::Create { access, .. }) = parsed(sql).unwrap() else {
            panic!("{sql}");
        };
        assert_eq!(access, Access::Auto);
        let alter = TierStatement::Alter {
            name: "b".into(),
            access: Access::Framed(CopyMethod::Direct),
        };
        let sql = "alter tier B set ('access' = 'direct')";
        assert_eq!(parsed(sql).unwrap(), Some(alter));
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
            (
                "CREATE TIER b AT 'c' WITH (size = '1')",
                "Expected: access, the only option of a tier, found: size",
            ),
            (
                "ALTER TIER b SET (access = 'fast')",
                "'direct' or 'auto', found: 'fast'",
            ),
            ("ALTER TIER b RENAME TO c", "Expected: SET, found: RENAME"),
            (
                "ALTER TIER b SET (access = 'auto', access = 'auto')",
                "Expected: )",
            ),
            ("DROP TIER b, c", "found: ,"),
            ("DROP TIER", "Expected: identifier"),
        ] {
            let error = parsed(half).unwrap_err().to_string();
            assert!(error.starts_with("syntax error: Expected"), "{error}");
            assert!(error.contains(said), "{half}: {error}");
        }
    }
}
