//! Which statements are queries of the system catalog.

use tierra_catalog::Question;
use tierra_sql::{Lexeme, Statement};

use crate::error::Fault;

impl From<tierra_catalog::Error> for Fault {
    fn from(error: tierra_catalog::Error) -> Self {
        Self::new(error.code, error.message)
    }
}

/// The query of the catalog that a statement is, if it is one.
pub(crate) fn question(statement: &Statement) -> Result<Option<Question>, Fault> {
    let is_hint = |lexeme: &Lexeme| lexeme.name().is_some_and(tierra_catalog::is_hint);
    match statement.lexemes().iter().any(is_hint) {
        true => {
            let question = Question::of(&text(statement))?;
            Ok(question.filter(|question| !question.is_of_another()))
        }
        false => Ok(None),
    }
}

/// The text of a statement, with its strings as the standard writes them.
fn text(statement: &Statement) -> String {
    let quoted = |text: &str, quote: char| {
        let inner = text.replace(quote, &format!("{quote}{quote}"));
        format!("{quote}{inner}{quote}")
    };
    let words = statement.lexemes().iter().map(|lexeme| match lexeme {
        Lexeme::Word { text, quoted: true } => quoted(text, '"'),
        Lexeme::Text(text) => quoted(text, '\''),
        Lexeme::Word { text, .. } | Lexeme::Number(text) | Lexeme::Other(text) => text.clone(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_written_with_their_strings_and_names() {
        let statements =
            tierra_sql::statements("SELECT E'a\\'b', \"N\"\"x\" FROM T -- c\n").unwrap();
        assert_eq!(text(&statements[0]), "select 'a''b' , \"N\"\"x\" from t");
        let is_one =
            |sql: &str| question(&tierra_sql::statements(sql).unwrap()[0]).map(|one| one.is_some());
        assert!(is_one("SELECT relname FROM pg_class").unwrap());
        assert!(is_one("(SELECT version())").unwrap());
        for other in [
            "SELECT 1",
            "SELECT * FROM t",
            "INSERT INTO pg_class VALUES (1)",
            "SELECT \"user\" FROM t",
            "SELECT version(), now()",
            "SELECT version(), sqrt(4)",
            "WITH pg_class AS (SELECT n FROM t) SELECT n FROM pg_class",
        ] {
            assert!(!is_one(other).unwrap(), "{other}");
        }
        assert_eq!(
            is_one("SELECT * FROM pg_class, t").unwrap_err().code,
            "0A000"
        );
    }
}
