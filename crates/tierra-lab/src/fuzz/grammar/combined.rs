//! Aggregates: of rows in any order, and of rows in a total order.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope};

impl Grammar<'_> {
    /// An aggregate of the rows of a scope.
    pub(super) fn aggregate(&mut self, scope: &Scope) -> Expr {
        let filter = match self.choices.once_in(5) {
            true => sql![" FILTER (WHERE ", self.predicate(scope, 1), ")"],
            false => Sql::default(),
        };
        let rows = scope.rows;
        let ty = self.some_type(scope);
        let value = self.expr(scope, ty, 1);
        let ordered = 3 * u64::from(!scope.key.is_empty() && !self.limits.sqlite);
        match self.choices.weighted(&[3, 3, 2, 3, 4, 2, 1, 1, 2, ordered]) {
            9 => self.ordered_aggregate(scope, filter),
            0 => Expr::new(sql!["count(*)", filter], Type::Big).within(rows),
            1 => Expr::new(sql!["count(", &value.sql, ")", filter], Type::Big).within(rows),
            2 if value.same => {
                Expr::new(sql!["count(DISTINCT ", &value.sql, ")", filter], Type::Big).within(rows)
            }
            3 | 4 if ty.is_number() && self.choices.below(3) < 2 => {
                match self.sum_of(scope, &value, filter.clone()) {
                    Some(sum) => sum,
                    None => {
                        Expr::new(sql!["count(", &value.sql, ")", filter], Type::Big).within(rows)
                    }
                }
            }
            5 if matches!(ty, Type::Int | Type::Big)
                && value.most.saturating_mul(rows) < 1 << 53 =>
            {
                Expr::new(sql!["avg(", &value.sql, ")", filter], Type::Double)
                    .same(false)
                    .summable(false)
            }
            6 if ty == Type::Text && !self.limits.sqlite => {
                let sql = sql![
                    "string_agg(",
                    &value.sql,
                    ", ',' ORDER BY ",
                    &value.sql,
                    ")",
                    filter
                ];
                Expr::of(sql, &[&value])
            }
            7 if ty == Type::Bool && !self.limits.sqlite => {
                let function = self.choices.one_of(&["bool_and(", "bool_or("]);
                Expr::of(sql![function, &value.sql, ")", filter], &[&value])
            }
            _ if value.same && ty != Type::Bool => {
                let function = self.choices.one_of(&["min(", "max("]);
                Expr::of(sql![function, &value.sql, ")", filter], &[&value])
            }
            _ => Expr::new(sql!["count(", &value.sql, ")", filter], Type::Big).within(rows),
        }
    }

    /// An aggregate whose value depends on the order of rows.
    fn ordered_aggregate(&mut self, scope: &Scope, filter: Sql) -> Expr {
        let ty = self.some_type(scope);
        let value = self.leaf(scope, ty);
        let order = sql![" ORDER BY ", self.total_order(scope), ")", filter];
        let text = match ty {
            Type::Text => value.clone(),
            _ => self.leaf(scope, Type::Text),
        };
        let ordered = Construct::OrderedAggregate;
        match self.choices.below(4) {
            0 => Expr::of(
                sql![ordered, "string_agg(", &text.sql, ", ','", order],
                &[&text],
            ),
            1 => {
                let number = 1 + self.choices.below(3);
                let list = sql!["(array_agg(", &value.sql, order, format!(")[{number}]")];
                Expr::of(sql![ordered, Construct::ListItem, list], &[&value])
            }
            2 => {
                let function = self
                    .choices
                    .one_of(&[["first_value(", "first("], ["last_value(", "last("]]);
                let function = Sql::each(function[0], function[1], "");
                Expr::of(sql![ordered, function, &value.sql, order], &[&value])
            }
            _ => Expr::of(
                sql![
                    ordered,
                    // DuckDB's text of NULLs alone is NULL.
                    "array_to_string(array_agg(coalesce(",
                    &text.sql,
                    ", 'none')",
                    order,
                    ", ';')"
                ],
                &[&text],
            ),
        }
    }

    /// The sum of an expression, if it stays within its type and does not depend on the order of rows.
    pub(super) fn sum_of(&mut self, scope: &Scope, value: &Expr, behind: Sql) -> Option<Expr> {
        let most = value
            .most
            .checked_mul(scope.rows.max(1))
            .filter(|_| value.summable && value.same)?;
        let (ty, limit) = match value.ty {
            Type::Int | Type::Big => (Type::Big, Type::Big.most()),
            Type::Dec(_, scale) => (Type::Dec(38, scale), Type::Dec(38, scale).most()),
            Type::Double => (Type::Double, 1 << 52),
            _ => return None,
        };
        if most >= limit {
            return None;
        }
        // DuckDB's sums of integers have 128 bits.
        let (before, after) = match ty {
            Type::Big => (
                Sql::each("sum(", "CAST(sum(", "sum("),
                Sql::each("", " AS BIGINT)", ""),
            ),
            _ => ("sum(".into(), Sql::default()),
        };
        let distinct = if self.choices.once_in(8) {
            "DISTINCT "
        } else {
            ""
        };
        let sql = sql![before, distinct, &value.sql, ")", behind, after];
        Some(Expr::new(sql, ty).within(most).summable(most < ty.most()))
    }
}
