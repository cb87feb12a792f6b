//! Subqueries in expressions, correlated with the row around them or not.

use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope, Subqueries, UNDER_REPAIR};

/// The work of a correlated subquery is the product of both sides, in engines that do not join.
const MOST_PRODUCT: u128 = 4_000_000;

impl Grammar<'_> {
    /// A table with a condition of its own, and perhaps one that names the outer row, that columns are equal if that is asked for.
    fn inner(&mut self, outer: &Scope, equal: bool) -> Option<(Scope, Sql)> {
        let (from, scope) = self.base();
        if scope.rows * outer.rows > MOST_PRODUCT {
            return None;
        }
        let mut conditions = Vec::new();
        if self.choices.below(2) == 1 {
            let plain = |grammar: &mut Self| grammar.predicate(&scope, 1);
            conditions.push(sql!["(", self.allowing(Subqueries::None, plain), ")"]);
        }
        if self.choices.below(2) == 1 {
            let sign = match equal {
                true => " = ",
                false => [" = ", " < ", " <> ", " >= "][self.choices.weighted(&[7, 1, 1, 1])],
            };
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
        let (scope, from) = self.inner(outer, false)?;
        let not = self.choices.one_of(&["", "NOT "]);
        if self.choices.below(3) == 0 {
            return Some(sql![not, "EXISTS (SELECT 1", from, ")"]);
        }
        let mine = self.field(outer, |expr| expr.same)?;
        let theirs = self.field(&scope, |expr| expr.ty == mine.expr.ty && expr.same)?;
        let theirs = sql!["(SELECT ", &theirs.expr.sql, from, ")"];
        if UNDER_REPAIR {
            return Some(sql![&mine.expr.sql, " IN ", theirs]);
        }
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
        // An aggregate of the rows that relate to the outer one in another way is not planned.
        let (scope, from) = self.inner(outer, true)?;
        if ty == Type::Big && self.choices.below(2) == 1 {
            return Some(
                Expr::new(sql!["(SELECT count(*)", from, ")"], Type::Big).within(scope.rows),
            );
        }
        // MIN and MAX of BOOLEANs are not everywhere.
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
