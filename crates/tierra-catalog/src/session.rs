//! What a run of a query has at hand: the things of the catalog, arguments, and the steps that it has taken.
//!
//! Everything is in memory, so a query has a budget of steps: one that would take much time or memory fails.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use regex::Regex;

use crate::contents::Objects;
use crate::error::{Error, Result};
use crate::pattern::regex;
use crate::value::Value;

/// The most steps of a query: some seconds. Each value of an expression is one.
const STEPS_MOST: u64 = 100_000_000;
/// What a row that is kept costs, so that those of a query take some hundred MB at most.
pub(crate) const ROW_STEPS: u64 = 60;
/// The bytes of a text that cost a step.
pub(crate) const BYTES_A_STEP: u64 = 4;
/// The most bytes of the arguments of a call, and of a value that is made of several.
const VALUE_MOST_BYTES: u64 = 1 << 24;
/// What it costs to compile a regular expression.
const REGEX_STEPS: u64 = 30_000;
/// The most bytes of a text that a regular expression is looked for in: at worst each letter takes as many steps as the expression has.
const SEARCHED_MOST_BYTES: usize = 1 << 16;
/// The most regular expressions that are kept.
const REGEXES_MOST: usize = 64;

/// What a run has at hand.
pub(crate) struct Session<'a> {
    pub(crate) objects: &'a Objects<'a>,
    pub(crate) arguments: Vec<Value>,
    steps: Cell<u64>,
    stop: &'a AtomicBool,
    patterns: RefCell<HashMap<(String, bool), Regex>>,
}

impl<'a> Session<'a> {
    /// It ends with an error once `stop` is set.
    pub(crate) fn new(
        objects: &'a Objects<'a>,
        arguments: Vec<Value>,
        stop: &'a AtomicBool,
    ) -> Self {
        Self {
            objects,
            arguments,
            steps: Cell::new(0),
            stop,
            patterns: RefCell::default(),
        }
    }

    /// Counts steps.
    pub(crate) fn step(&self, steps: u64) -> Result<()> {
        let sum = self.steps.get().saturating_add(steps);
        self.steps.set(sum);
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::new(
                "57014",
                "canceling statement due to user request",
            ));
        }
        if sum > STEPS_MOST {
            Err(Error::too_much())
        } else {
            Ok(())
        }
    }

    /// Counts the bytes that are looked at or made, before they are.
    pub(crate) fn bytes(&self, bytes: u64) -> Result<()> {
        if bytes > VALUE_MOST_BYTES {
            return Err(Error::too_much());
        }
        self.step(bytes / BYTES_A_STEP)
    }

    /// Counts a search for a regular expression.
    pub(crate) fn searched(&self, text: &str) -> Result<()> {
        if text.len() > SEARCHED_MOST_BYTES {
            return Err(Error::too_much());
        }
        self.step(text.len() as u64)
    }

    /// Counts values that are compared again and again, to be sorted or found.
    pub(crate) fn weigh(&self, values: &[Value]) -> Result<()> {
        let bytes = values.iter().map(Value::bytes).sum::<usize>();
        self.step(bytes as u64 / BYTES_A_STEP)
    }

    pub(crate) fn regex(&self, pattern: &str, ignores_case: bool) -> Result<Regex> {
        let key = (pattern.to_owned(), ignores_case);
        if let Some(found) = self.patterns.borrow().get(&key) {
            return Ok(found.clone());
        }
        self.step(REGEX_STEPS)?;
        let made = regex(pattern, ignores_case)?;
        let mut patterns = self.patterns.borrow_mut();
        if patterns.len() == REGEXES_MOST {
            patterns.clear();
        }
        patterns.insert(key, made.clone());
        Ok(made)
    }
}
