//! Conditions with random() that it does not decide: it is at least 0 and less than 1.
//!
//! So the answer is determined, and the optimiser cannot know that: it may move, repeat or leave out such a condition only where
//! that changes nothing for one that does decide.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::{Grammar, Scope};

impl Grammar<'_> {
    /// ` AND` such a condition, once in so many times; SQLite's random() is any whole number.
    pub(super) fn and_drawn(&mut self, scope: &Scope, times: u64) -> Sql {
        match self.drawn_once_in(times) {
            true => sql![" AND (", self.drawn(scope), ")"],
            false => Sql::default(),
        }
    }

    /// Whether there is such a condition, once in so many times.
    pub(super) fn drawn_once_in(&mut self, times: u64) -> bool {
        !self.limits.sqlite && self.choices.once_in(times)
    }

    /// A condition that is true for every row, or is as another one that it has.
    pub(super) fn drawn(&mut self, scope: &Scope) -> Sql {
        let condition = match self.choices.below(6) {
            0 | 1 => "random() < 2".into(),
            2 => "random() >= 0".into(),
            3 => sql!["random() >= 0 AND ", self.in_brackets(scope)],
            4 => sql!["random() > 1 OR ", self.in_brackets(scope)],
            _ => sql![
                "CASE WHEN random() < 2 THEN ",
                self.in_brackets(scope),
                " END"
            ],
        };
        sql![Construct::DrawnCondition, condition]
    }

    fn in_brackets(&mut self, scope: &Scope) -> Sql {
        sql!["(", self.predicate(scope, 0), ")"]
    }
}
