//! Words that change what a command does, in capitals or not.

use super::Failure;
use crate::number::parse_i64;
use crate::protocol::Args;

/// The options of a command, one after another.
pub(crate) struct OptionWords<'a> {
    args: Args<'a>,
    at: usize,
}

impl<'a> OptionWords<'a> {
    /// Options from this argument on.
    pub(crate) fn new(args: Args<'a>, from: usize) -> Self {
        Self { args, at: from }
    }

    /// Whether the next argument is this word, which is then taken.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = self
            .args
            .get(self.at)
            .is_some_and(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
        self.at += usize::from(found);
        found
    }

    /// As [`OptionWords::take`], where a value follows the word: otherwise it is not taken.
    pub(crate) fn take_with(&mut self, word: &str, values: usize) -> bool {
        self.left() > values && self.take(word)
    }

    /// The next argument, whatever it is.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], Failure> {
        let value = self.args.get(self.at).ok_or(Failure::SYNTAX)?;
        self.at += 1;
        Ok(value)
    }

    /// The next argument, which has to be a whole number.
    pub(crate) fn integer(&mut self) -> Result<i64, Failure> {
        parse_i64(self.value()?).ok_or(Failure::INTEGER)
    }

    /// How many arguments are left.
    pub(crate) fn left(&self) -> usize {
        self.args.len().saturating_sub(self.at)
    }

    /// The index of the next argument.
    pub(crate) fn at(&self) -> usize {
        self.at
    }
}
