//! A statement's tokens, as the statements that only PostgreSQL has are read.

use tierra_sql::Lexeme;

use crate::error::Fault;

/// The tokens of a statement, one after the other.
pub(crate) struct Words<'a> {
    lexemes: &'a [Lexeme],
    at: usize,
}

impl<'a> Words<'a> {
    /// Those from the place `at`.
    pub(crate) fn new(lexemes: &'a [Lexeme], at: usize) -> Self {
        Self { lexemes, at }
    }

    /// The place of the next one.
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    pub(crate) fn peek(&self) -> Option<&'a Lexeme> {
        self.lexemes.get(self.at)
    }

    pub(crate) fn next(&mut self) -> Option<&'a Lexeme> {
        let found = self.peek();
        self.at += 1;
        found
    }

    /// Takes this keyword, if it is next.
    pub(crate) fn next_is(&mut self, keyword: &str) -> bool {
        let is_it = self.peek().is_some_and(|lexeme| lexeme.is(keyword));
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes this punctuation, if it is next.
    pub(crate) fn next_is_mark(&mut self, mark: &str) -> bool {
        let is_it = self.peek().is_some_and(|lexeme| lexeme.is_mark(mark));
        self.at += usize::from(is_it);
        is_it
    }

    pub(crate) fn name(&mut self) -> Result<String, Fault> {
        let found = self.next().and_then(Lexeme::name);
        found
            .map(str::to_owned)
            .ok_or_else(|| self.expected("a name"))
    }

    /// A name; `None` for ALL.
    pub(crate) fn name_or_all(&mut self) -> Result<Option<String>, Fault> {
        if self.next_is("all") {
            self.end()?;
            return Ok(None);
        }
        let name = self.name()?;
        self.end()?;
        Ok(Some(name))
    }

    /// Fails if anything is left.
    pub(crate) fn end(&self) -> Result<(), Fault> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("the end of the statement")),
        }
    }

    /// The error that `what` was expected in place of the token that was taken last.
    pub(crate) fn expected(&self, what: &str) -> Fault {
        let found = self
            .lexemes
            .get(self.at.saturating_sub(1))
            .or(self.lexemes.last());
        let found = match found {
            Some(Lexeme::Word { text, .. } | Lexeme::Number(text) | Lexeme::Other(text)) => {
                text.clone()
            }
            Some(Lexeme::Text(text)) => format!("'{text}'"),
            None => String::new(),
        };
        Fault::syntax(format!(
            "syntax error at or near \"{found}\": expected {what}"
        ))
    }
}
