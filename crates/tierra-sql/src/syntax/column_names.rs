//! Columns called `key` or `index`, which the parser takes for indexes of another database.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Quotes them in CREATE TABLE.
pub(crate) fn quote(tokens: &mut [TokenWithSpan]) {
    let mut words = tokens.iter().filter_map(|token| match &token.token {
        Token::Word(word) => Some(word.keyword),
        _ => None,
    });
    if (words.next(), words.next()) != (Some(Keyword::CREATE), Some(Keyword::TABLE)) {
        return;
    }
    let (mut depth, mut begins_column) = (0_usize, false);
    for token in tokens {
        match &mut token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word)
                if begins_column
                    && word.quote_style.is_none()
                    && matches!(word.keyword, Keyword::KEY | Keyword::INDEX) =>
            {
                word.value.make_ascii_lowercase();
                (word.quote_style, word.keyword) = (Some('"'), Keyword::NoKeyword);
            }
            _ => {}
        }
        begins_column = depth == 1 && matches!(token.token, Token::LParen | Token::Comma);
    }
}
