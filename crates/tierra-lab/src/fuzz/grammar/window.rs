//! Window functions whose rows have a total order, or whose value does not depend on it.

use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::select::Query;
use super::{Expr, Grammar, Scope, Subqueries};

const FRAMES: [&str; 6] = [
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
];

impl Grammar<'_> {
    /// Rows with one or two window functions.
    pub(super) fn windowed(&mut self, depth: u32) -> Query {
        let (from, scope) = self.relation(depth);
        let filter = self.filter(&scope);
        let mut exprs = Vec::new();
        for _ in 0..1 + self.choices.below(2) {
            let ty = self.some_type(&scope);
            let all = |grammar: &mut Self| grammar.expr(&scope, ty, 1);
            exprs.push(self.allowing(Subqueries::All, all));
        }
        let partition = match self.choices.weighted(&[3, 5, 1]) {
            0 => None,
            1 => self
                .field(&scope, |expr| expr.same)
                .map(|field| field.expr.sql),
            _ => {
                let condition = |grammar: &mut Self| grammar.predicate(&scope, 1);
                let condition = self.allowing(Subqueries::Conditions, condition);
                Some(sql!["(", condition, ")"])
            }
        };
        let partition = match partition {
            Some(key) => sql!["PARTITION BY ", key, " "],
            None => Sql::default(),
        };
        // A named window of the query, to which functions add their order.
        let named = (!self.limits.sqlite && self.choices.once_in(6)).then(|| self.name("w"));
        for _ in 0..1 + self.choices.below(2) {
            let window = match &named {
                Some(name) => format!("{name} ").into(),
                None => partition.clone(),
            };
            exprs.push(self.window_function(&scope, window));
        }
        let (list, columns) = self.list(&exprs);
        let mut sql = sql!["SELECT ", list, " FROM ", from, filter];
        if let Some(name) = named {
            sql = sql![sql, format!(" WINDOW {name} AS ("), partition, ")"];
        }
        Query {
            sql,
            columns,
            rows: scope.rows,
            ordered: false,
        }
    }

    fn window_function(&mut self, scope: &Scope, window: Sql) -> Expr {
        if scope.key.is_empty() {
            return self.orderless(scope, window);
        }
        let ty = self.some_type(scope);
        let value = self.leaf(scope, ty);
        let order = sql!["ORDER BY ", self.total_order(scope)];
        let frame = self.choices.one_of(&FRAMES);
        let count = |sql: Sql| Expr::new(sql, Type::Big).within(scope.rows);
        let over = |frame: &'static str| sql![" OVER (", &window, &order, frame, ")"];
        match self.choices.weighted(&[3, 2, 2, 2, 2, 3, 3]) {
            0 => {
                let function =
                    self.choices
                        .one_of(&["row_number()", "rank()", "dense_rank()", "ntile(3)"]);
                count(sql![self.cast(sql![function, over("")], Type::Big)])
            }
            1 => {
                let function = self.choices.one_of(&["lag(", "lead("]);
                let rest = self.choices.one_of(&[", 1)", ", 2)", ")"]);
                Expr::of(sql![function, &value.sql, rest, over("")], &[&value])
            }
            2 => {
                let function = self.choices.one_of(&["first_value(", "last_value("]);
                Expr::of(sql![function, &value.sql, ")", over(frame)], &[&value])
            }
            3 => Expr::of(
                sql!["nth_value(", &value.sql, ", 2)", over(frame)],
                &[&value],
            ),
            4 => count(sql!["count(", &value.sql, ")", over(frame)]),
            5 if ty.is_number() && value.most < 1 << 40 && value.summable => match ty {
                Type::Int | Type::Big
                    if value.most.saturating_mul(scope.rows) < Type::Big.most() =>
                {
                    let sql = sql![
                        Sql::each("sum(", "CAST(sum(", "sum("),
                        &value.sql,
                        ")",
                        over(frame),
                        Sql::each("", " AS BIGINT)", "")
                    ];
                    Expr::new(sql, Type::Big)
                }
                // Rows that leave the frame are subtracted again, which infinities do not survive.
                _ => count(sql!["count(*)", over(frame)]),
            },
            _ if ty != Type::Bool => {
                let function = self.choices.one_of(&["min(", "max("]);
                Expr::of(sql![function, &value.sql, ")", over(frame)], &[&value])
            }
            _ => count(sql!["count(*)", over(frame)]),
        }
    }

    /// A function whose value is the same for every order of tied rows.
    fn orderless(&mut self, scope: &Scope, window: Sql) -> Expr {
        let ordered = self.field(scope, |expr| expr.same);
        let over = match &ordered {
            Some(field) if self.choices.below(2) == 1 => {
                sql![
                    " OVER (",
                    window,
                    "ORDER BY ",
                    &field.expr.sql,
                    self.direction(),
                    ")"
                ]
            }
            _ => sql![" OVER (", window, ")"],
        };
        let ty = self.some_type(scope);
        let value = self.leaf(scope, ty);
        match self.choices.below(4) {
            0 => Expr::new(sql!["count(*)", over], Type::Big).within(scope.rows),
            1 => Expr::new(sql!["count(", &value.sql, ")", over], Type::Big).within(scope.rows),
            2 => {
                Expr::new(self.cast(sql!["rank()", over], Type::Big), Type::Big).within(scope.rows)
            }
            _ if ty != Type::Bool => {
                let function = self.choices.one_of(&["min(", "max("]);
                Expr::of(sql![function, &value.sql, ")", over], &[&value])
            }
            _ => Expr::new(sql!["count(*)", over], Type::Big).within(scope.rows),
        }
    }
}
