//! What a run of a query has at hand: the things of the catalog, arguments, and the steps that it has taken.
//!
//! Everything is in memory, so a query has a budget of steps: one that would take much time or memory fails.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use regex::Regex;

use crate::contents::Objects;
use crate::error::{Error, Result};
use crate::pattern::regex;
use crate::value::Value;

/// The most steps of a query: some seconds.
const STEPS_MOST: u64 = 30_000_000;
/// What a row that is kept costs, so that those of a query take some hundred MB at most.
pub(crate) const ROW_STEPS: u64 = 20;
/// The bytes of a text that cost a step.
pub(crate) const BYTES_A_STEP: u64 = 16;
/// What it costs to compile a regular expression.
const REGEX_STEPS: u64 = 1_000;

/// What a run has at hand.
pub(crate) struct Session<'a> {
    pub(crate) objects: &'a Objects<'a>,
    pub(crate) arguments: Vec<Value>,
    steps: Cell<u64>,
    patterns: RefCell<HashMap<(String, bool), Regex>>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(objects: &'a Objects<'a>, arguments: Vec<Value>) -> Self {
        Self {
            objects,
            arguments,
            steps: Cell::new(0),
            patterns: RefCell::default(),
        }
    }

    /// Counts steps.
    pub(crate) fn step(&self, steps: u64) -> Result<()> {
        let sum = self.steps.get().saturating_add(steps);
        self.steps.set(sum);
        if sum > STEPS_MOST {
            Err(Error::too_much())
        } else {
            Ok(())
        }
    }

    pub(crate) fn regex(&self, pattern: &str, ignores_case: bool) -> Result<Regex> {
        let key = (pattern.to_owned(), ignores_case);
        if let Some(found) = self.patterns.borrow().get(&key) {
            return Ok(found.clone());
        }
        self.step(REGEX_STEPS)?;
        let made = regex(pattern, ignores_case)?;
        self.patterns.borrow_mut().insert(key, made.clone());
        Ok(made)
    }
}
