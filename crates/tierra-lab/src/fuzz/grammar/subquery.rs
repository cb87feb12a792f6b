//! Subqueries in expressions, correlated with the outer row or not.

use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope, Subqueries};

/// The most work of a correlated subquery, the product of both sides, in engines without a join for it.
const MOST_PRODUCT: u128 = 4_000_000;
/// The comparisons of a subquery's rows with the outer row, most often equality.
const SIGNS: [&str; 8] = [" = ", " = ", " = ", " = ", " = ", " < ", " <> ", " >= "];

impl Grammar<'_> {
    /// Rows with a condition of their own, and perhaps one that compares them by these signs with the outer row.
    fn inner(&mut self, outer: &Scope, signs: &[&'static str]) -> Option<(Scope, Sql)> {
        let (from, scope) = match self.choices.once_in(6) {
            true => self.allowing(Subqueries::None, |grammar| grammar.relation(1)),
            false => self.base(),
        };
        if scope.rows * outer.rows > MOST_PRODUCT {
            return None;
        }
        let mut conditions = Vec::new();
        if self.choices.below(2) == 1 {
            // Nested subqueries refer to the row of the enclosing one, if to any.
            let within = match self.choices.once_in(3) {
                true => Subqueries::Conditions,
                false => Subqueries::None,
            };
            let condition = self.allowing(within, |grammar| grammar.predicate(&scope, 1));
            conditions.push(sql!["(", condition, ")"]);
        }
        if !signs.is_empty() && self.choices.below(2) == 1 {
            let sign = self.choices.one_of(signs);
            conditions.extend(self.correlation(&scope, outer, sign));
        }
        let from = match conditions.is_empty() {
            true => sql![" FROM ", from],
            false => sql![" FROM ", from, " WHERE ", Sql::joined(conditions, " AND ")],
        };
        Some((scope, from))
    }

    fn correlation(&mut self, inner: &Scope, outer: &Scope, sign: &'static str) -> Option<Sql> {
        let mine = self.field(inner, |expr| expr.same)?;
        let theirs = self.field(outer, |expr| expr.ty == mine.expr.ty && expr.same)?;
        Some(sql![&mine.expr.sql, sign, &theirs.expr.sql])
    }

    /// EXISTS, IN, ANY or ALL.
    pub(super) fn membership(&mut self, outer: &Scope) -> Option<Sql> {
        let signs: &[_] = match self.subqueries >= Subqueries::Conditions {
            true => &SIGNS,
            false => &[],
        };
        let (scope, from) = self.inner(outer, signs)?;
        let not = self.choices.one_of(&["", "NOT "]);
        if self.choices.below(3) == 0 {
            return Some(sql![not, "EXISTS (SELECT 1", from, ")"]);
        }
        let mine = self.field(outer, |expr| expr.same)?;
        let theirs = self.field(&scope, |expr| expr.ty == mine.expr.ty && expr.same)?;
        let theirs = sql!["(SELECT ", &theirs.expr.sql, from, ")"];
        if self.limits.sqlite || self.choices.below(3) < 2 {
            return Some(sql![&mine.expr.sql, " ", not, "IN ", theirs]);
        }
        let sign = self
            .choices
            .one_of(&[" = ", " <> ", " < ", " <= ", " > ", " >= "]);
        let word = self.choices.one_of(&["ANY ", "ALL "]);
        Some(sql![&mine.expr.sql, sign, word, theirs])
    }

    /// A subquery that yields one value: an aggregate of all rows.
    pub(super) fn scalar_subquery(&mut self, outer: &Scope, ty: Type) -> Option<Expr> {
        // An aggregate of rows that relate to the outer one in another way is not planned.
        let signs: &[_] = match self.subqueries == Subqueries::All {
            true => &[" = "],
            false => &[],
        };
        let (scope, from) = self.inner(outer, signs)?;
        if ty == Type::Big && self.choices.below(2) == 1 {
            return Some(
                Expr::new(sql!["(SELECT count(*)", from, ")"], Type::Big).within(scope.rows),
            );
        }
        // Not every engine has MIN and MAX of BOOLEANs.
        let field = self.field(&scope, |expr| {
            expr.ty == ty && ty != Type::Bool && expr.same
        })?;
        let function = self.choices.one_of(&["min(", "max("]);
        Some(Expr::of(
            sql!["(SELECT ", function, &field.expr.sql, ")", from, ")"],
            &[&field.expr],
        ))
    }
}
