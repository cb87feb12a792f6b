//! `?` as a parameter: the next `$n` of its statement.
//!
//! The tokenizer reads `?` as the beginning of operators that Tierra does not have, so `x = ?-1` and `?||'%'` are taken apart
//! here. A statement has parameters of one kind.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;

/// The tokens of a text, with every `?` numbered within its statement.
///
/// # Errors
/// If a statement has both `?` and `$1`, whose order would be a guess.
pub(crate) fn numbered(tokens: Vec<TokenWithSpan>) -> Result<Vec<TokenWithSpan>, SqlError> {
    if !tokens.iter().any(|token| rest_of(&token.token).is_some()) {
        return Ok(tokens);
    }
    let (mut count, mut has_numbers) = (0, false);
    let mut all = Vec::with_capacity(tokens.len());
    for mut token in tokens {
        match (rest_of(&token.token), &token.token) {
            (Some(rest), _) => {
                count += 1;
                token.token = Token::Placeholder(format!("${count}"));
                let span = token.span;
                all.push(token);
                all.extend(rest.map(|token| TokenWithSpan { token, span }));
            }
            (None, Token::SemiColon) => {
                (count, has_numbers) = (0, false);
                all.push(token);
            }
            (None, other) => {
                has_numbers |= matches!(other, Token::Placeholder(_));
                all.push(token);
            }
        }
        if has_numbers && count > 0 {
            return Err(SqlError::Syntax(
                "a statement has parameters ? or $1, not both".to_string(),
            ));
        }
    }
    Ok(all)
}

/// What follows the `?` that a token begins with; `None` if it begins with something else.
fn rest_of(token: &Token) -> Option<Option<Token>> {
    match token {
        Token::Question => Some(None),
        Token::Placeholder(name) if name == "?" => Some(None),
        Token::QuestionMarkDash => Some(Some(Token::Minus)),
        Token::QuestionMarkDoubleVerticalBar => Some(Some(Token::StringConcat)),
        Token::QuestionPipe => Some(Some(Token::Pipe)),
        Token::QuestionAnd => Some(Some(Token::Ampersand)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::statement::split;

    fn text(sql: &str) -> Vec<String> {
        let statements = split(sql).unwrap();
        statements.iter().map(|one| one.beginning(200)).collect()
    }

    #[test]
    fn every_statement_counts_from_one() {
        assert_eq!(
            text("select ? , '?' , ?; select ?||'x', ?-1"),
            ["select $1 , '?' , $2", "select $1||'x', $2-1"]
        );
        assert_eq!(text("select $2, $1"), ["select $2, $1"]);
        let error = split("select ?, $1").err().unwrap().to_string();
        assert!(error.contains("not both"), "{error}");
    }
}
