//! Statements as texts, for interfaces that answer some of them themselves.
//!
//! A server of another protocol has statements that SQL here does not have, such as COPY FROM STDIN. It splits a text as a session
//! does, looks at the tokens of each statement, and runs those that are not its own.

use std::sync::Arc;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::error::SqlError;
use crate::memory::TokenAccount;
use crate::statement::{self, Parsed};
use crate::syntax::is_space;

/// One statement of a text.
pub struct Statement {
    pub(crate) parsed: Parsed,
    lexemes: Vec<Lexeme>,
    /// That of its text, unless that is short.
    account: Option<Arc<TokenAccount>>,
}

/// A token of a statement, without blanks and comments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lexeme {
    /// A keyword or name, in lower case unless it was quoted.
    Word {
        /// Its letters.
        text: String,
        /// Whether it stood in double quotes.
        quoted: bool,
    },
    /// A text in quotes, without them and with its escapes resolved.
    Text(String),
    /// A number as written.
    Number(String),
    /// Anything else as written: punctuation, operators, parameters.
    Other(String),
}

impl Lexeme {
    /// Whether it is this keyword, in lower case.
    pub fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word { text, quoted: false } if text == keyword)
    }

    /// Whether it is this punctuation.
    pub fn is_mark(&self, mark: &str) -> bool {
        matches!(self, Self::Other(found) if found == mark)
    }

    /// A name: a word, quoted or not.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Word { text, .. } => Some(text),
            _ => None,
        }
    }

    fn of(token: &Token) -> Self {
        match token {
            Token::Word(word) => Self::Word {
                text: match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => word.value.to_lowercase(),
                },
                quoted: word.quote_style.is_some(),
            },
            Token::SingleQuotedString(text)
            | Token::EscapedStringLiteral(text)
            | Token::NationalStringLiteral(text)
            | Token::UnicodeStringLiteral(text) => Self::Text(text.clone()),
            Token::DollarQuotedString(text) => Self::Text(text.value.clone()),
            Token::Number(digits, _) => Self::Number(digits.clone()),
            other => Self::Other(other.to_string()),
        }
    }
}

/// The statements of a text that nobody else wrote. [`Session::statements`](crate::Session::statements) accounts for its memory.
///
/// # Errors
/// If the text cannot be split: a quote that is not closed.
pub fn statements(sql: &str) -> Result<Vec<Statement>, SqlError> {
    let all = statement::split(sql)?.into_iter();
    Ok(all.map(|parsed| Statement::new(parsed, None)).collect())
}

impl Statement {
    pub(crate) fn new(parsed: Parsed, account: Option<Arc<TokenAccount>>) -> Self {
        let tokens = parsed.tokens().iter();
        let tokens = tokens.filter(|token| !is_space(&token.token));
        Self {
            lexemes: tokens.map(|token| Lexeme::of(&token.token)).collect(),
            parsed,
            account,
        }
    }

    /// Its tokens.
    pub fn lexemes(&self) -> &[Lexeme] {
        &self.lexemes
    }

    /// Whether it begins with these keywords, in lower case.
    pub fn begins(&self, keywords: &[&str]) -> bool {
        let found = self.lexemes.get(..keywords.len());
        found.is_some_and(|found| {
            let mut both = found.iter().zip(keywords);
            both.all(|(lexeme, keyword)| lexeme.is(keyword))
        })
    }

    /// The statement that these tokens are, by their places in [`Statement::lexemes`].
    #[must_use]
    pub fn part(&self, places: std::ops::Range<usize>) -> Self {
        let tokens = self.parsed.tokens().iter();
        let tokens = tokens.filter(|token| !is_space(&token.token));
        let blank = Token::Whitespace(datafusion::sql::sqlparser::tokenizer::Whitespace::Space);
        let kept = tokens.skip(places.start).take(places.len());
        let kept = kept.flat_map(|token| [token.clone(), TokenWithSpan::wrap(blank.clone())]);
        Self {
            parsed: Parsed::of(kept.collect()),
            lexemes: self.lexemes[places].to_vec(),
            account: self.account.clone(),
        }
    }

    /// The beginning of the statement.
    pub fn text(&self) -> String {
        self.parsed.beginning(crate::activity::TEXT_MOST)
    }
}

impl std::fmt::Debug for Statement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Statement").field(&self.text()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_told_apart_and_parts_are_statements() {
        let all = statements("COPY (SELECT 'a;''b', \"N\" FROM T) TO STDOUT; -- x\n;SET a.b = 1.5")
            .unwrap();
        assert_eq!(all.len(), 2);
        let copy = &all[0];
        assert!(copy.begins(&["copy"]) && !copy.begins(&["copy", "t"]));
        let word = |text: &str, quoted| Lexeme::Word {
            text: text.to_owned(),
            quoted,
        };
        let tokens = copy.lexemes();
        assert_eq!(tokens[3], Lexeme::Text("a;'b".to_owned()));
        assert_eq!(tokens[5], word("N", true));
        assert_eq!(tokens[7], word("t", false));
        assert!(tokens[8].is_mark(")") && tokens[10].is("stdout"));
        let query = copy.part(2..8);
        assert_eq!(query.text(), "SELECT 'a;'b' , \"N\" FROM T");
        assert_eq!(query.lexemes().len(), 6);
        assert_eq!(
            all[1].lexemes().last(),
            Some(&Lexeme::Number("1.5".to_owned()))
        );
        assert!(statements("SELECT 'open").is_err());
    }
}
