//! Subqueries in expressions, correlated with the outer row or not.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope, Subqueries};

/// The most work of a correlated subquery, the product of both sides, in engines without a join for it.
const MOST_PRODUCT: u128 = 4_000_000;
/// The comparisons of a subquery's rows with the outer row, most often equality.
const SIGNS: [&str; 8] = [" = ", " = ", " = ", " = ", " = ", " < ", " <> ", " >= "];
/// Those of a subquery of one aggregate: others are not planned.
const OF_AGGREGATES: [&str; 7] = [" = ", " = ", " = ", " = ", " < ", " >= ", " BETWEEN "];

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
            let found = self.correlation(&scope, outer, sign);
            let compared = signs.len() == OF_AGGREGATES.len() && sign != " = ";
            conditions.extend(found.map(|found| match compared {
                true => sql![Construct::ScalarCompared, found],
                false => found,
            }));
        }
        let from = match conditions.is_empty() {
            true => sql![" FROM ", from],
            false => sql![" FROM ", from, " WHERE ", Sql::joined(conditions, " AND ")],
        };
        Some((scope, from))
    }

    /// A comparison of columns of two scopes, if there are any of one type.
    pub(super) fn correlation(
        &mut self,
        inner: &Scope,
        outer: &Scope,
        sign: &'static str,
    ) -> Option<Sql> {
        let mine = self.field(inner, |expr| expr.same)?;
        let theirs = self.field(outer, |expr| expr.ty == mine.expr.ty && expr.same)?;
        let (mine, theirs) = (mine.expr, theirs.expr);
        if sign != " BETWEEN " {
            return Some(sql![&mine.sql, sign, &theirs.sql]);
        }
        let high = self.leaf(outer, mine.ty);
        Some(sql![
            "(",
            &mine.sql,
            sign,
            &theirs.sql,
            " AND ",
            &high.sql,
            ")"
        ])
    }

    /// EXISTS, IN, ANY or ALL.
    pub(super) fn membership(&mut self, outer: &Scope) -> Option<Sql> {
        if self.subqueries >= Subqueries::Conditions && self.choices.once_in(3) {
            return self.correlated_membership(outer);
        }
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

    /// A subquery that yields one value: an aggregate of all rows, or one row.
    pub(super) fn scalar_subquery(&mut self, outer: &Scope, ty: Type) -> Option<Expr> {
        if self.subqueries == Subqueries::All && self.choices.once_in(3) {
            return self.correlated_value(outer, ty);
        }
        match self.choices.below(5) {
            0 => return self.first_row(ty),
            1 if self.subqueries == Subqueries::All => {
                if let Some(found) = self.row_by_key(outer, ty) {
                    return Some(found);
                }
            }
            _ => {}
        }
        let signs: &[_] = match self.subqueries == Subqueries::All {
            true => &OF_AGGREGATES,
            false => &[],
        };
        let (scope, from) = self.inner(outer, signs)?;
        let mark = Construct::ScalarAggregate;
        if ty == Type::Big && self.choices.below(2) == 1 {
            let sql = sql![mark, "(SELECT count(*)", from, ")"];
            return Some(Expr::new(sql, Type::Big).within(scope.rows));
        }
        // Not every engine has MIN and MAX of BOOLEANs.
        let field = self.field(&scope, |expr| {
            expr.ty == ty && ty != Type::Bool && expr.same
        })?;
        let function = self.choices.one_of(&["min(", "max("]);
        Some(Expr::of(
            sql![mark, "(SELECT ", function, &field.expr.sql, ")", from, ")"],
            &[&field.expr],
        ))
    }

    /// A column of the first row in a total order.
    fn first_row(&mut self, ty: Type) -> Option<Expr> {
        let (from, scope) = self.base();
        let field = self.field(&scope, |expr| expr.ty == ty && expr.same)?;
        if scope.key.is_empty() {
            return None;
        }
        let skipped = self.choices.one_of(&["", " OFFSET 1", " OFFSET 30"]);
        let sql = sql![
            Construct::ScalarFirst,
            "(SELECT ",
            &field.expr.sql,
            " FROM ",
            from,
            " ORDER BY ",
            self.total_order(&scope),
            " LIMIT 1",
            skipped,
            ")"
        ];
        Some(Expr::of(sql, &[&field.expr]))
    }

    /// A column of the row that has the key that the outer row says.
    fn row_by_key(&mut self, outer: &Scope, ty: Type) -> Option<Expr> {
        let (from, scope) = self.base();
        let field = self.field(&scope, |expr| expr.ty == ty && expr.same)?;
        if !scope.declared || scope.rows * outer.rows > MOST_PRODUCT {
            return None;
        }
        let keys: Vec<Expr> = scope.key_fields().map(|field| field.expr.clone()).collect();
        let mut conditions = Vec::new();
        for key in keys {
            let theirs = self.field(outer, |expr| expr.ty == key.ty && expr.same)?;
            conditions.push(sql![&key.sql, " = ", &theirs.expr.sql]);
        }
        let sql = sql![
            Construct::ScalarByKey,
            "(SELECT ",
            &field.expr.sql,
            " FROM ",
            from,
            " WHERE ",
            Sql::joined(conditions, " AND "),
            ")"
        ];
        Some(Expr::of(sql, &[&field.expr]))
    }
}
