//! GROUP BY, HAVING, aggregates.

use super::super::sql::{Dialect, Sql, sql};
use super::super::value::Type;
use super::select::Query;
use super::{Expr, Field, Grammar, Scope, Subqueries};

impl Grammar<'_> {
    /// Groups, or all rows as one.
    pub(super) fn grouped(&mut self, depth: u32) -> Query {
        let (from, scope) = self.relation(depth);
        let filter = self.filter(&scope);
        let sets = !self.limits.sqlite && self.choices.once_in(10);
        let count = self.choices.weighted(&[3, 4, 3, 1]);
        let keys: Vec<Expr> = (0..count)
            .filter_map(|_| self.group_key(&scope, sets))
            .collect();
        let keys = if sets { each_once(keys) } else { keys };
        let aggregates: Vec<Expr> = (0..1 + self.choices.index(3))
            .map(|_| self.allowing(Subqueries::All, |grammar| grammar.aggregate(&scope)))
            .collect();
        let having = self
            .choices
            .once_in(4)
            .then(|| self.having(&scope, &keys, &aggregates));
        let exprs: Vec<Expr> = keys.iter().chain(&aggregates).cloned().collect();
        let (list, columns) = self.list(&exprs);
        let mut sql = sql!["SELECT ", list, " FROM ", from, filter];
        if !keys.is_empty() {
            let ordinals = (1..=keys.len()).map(|number| Sql::from(number.to_string()));
            let names = keys.iter().map(|key| key.sql.clone());
            let list = if sets {
                Sql::joined(names, ", ")
            } else {
                Sql::joined(ordinals, ", ")
            };
            sql = match (sets, self.choices.below(3)) {
                (false, _) => sql![sql, " GROUP BY ", list],
                (true, 0) => sql![sql, " GROUP BY ROLLUP (", list, ")"],
                (true, 1) => sql![sql, " GROUP BY CUBE (", list, ")"],
                (true, _) => sql![
                    sql,
                    " GROUP BY GROUPING SETS ((",
                    list,
                    "), (",
                    &keys[0].sql,
                    "))"
                ],
            };
        }
        if let Some(having) = having {
            sql = sql![sql, " HAVING ", having];
        }
        let rows = match keys.len() {
            0 => 1,
            _ if sets => scope.rows * 8 + 1,
            _ => scope.rows,
        };
        Query {
            sql,
            columns,
            rows,
            ordered: false,
        }
    }

    /// A condition on aggregates, or on the key columns: only by these may subqueries refer to the outer row.
    fn having(&mut self, scope: &Scope, keys: &[Expr], aggregates: &[Expr]) -> Sql {
        let groups = |exprs: Vec<&Expr>| Scope {
            fields: exprs.into_iter().cloned().map(Field::from).collect(),
            rows: scope.rows,
            ..Scope::default()
        };
        let text = |expr: &Expr| expr.sql.text(Dialect::Tierra);
        let columns: Vec<String> = scope.fields.iter().map(|field| text(&field.expr)).collect();
        let keys = keys.iter().filter(|key| columns.contains(&text(key)));
        let keys = groups(keys.collect());
        if !keys.fields.is_empty() && self.choices.once_in(3) {
            return self.allowing(Subqueries::All, |grammar| grammar.predicate(&keys, 1));
        }
        let aggregates = groups(aggregates.iter().filter(|expr| expr.same).collect());
        self.allowing(Subqueries::Apart, |grammar| {
            grammar.predicate(&aggregates, 1)
        })
    }

    fn group_key(&mut self, scope: &Scope, plain: bool) -> Option<Expr> {
        let field = self.field(scope, |expr| expr.same)?.expr;
        if plain || self.choices.below(3) < 2 {
            return Some(field);
        }
        let key = |grammar: &mut Self| grammar.expr(scope, field.ty, 2);
        Some(self.allowing(Subqueries::Conditions, key)).filter(|expr| expr.same)
    }

    /// An aggregate of the rows of a scope.
    pub(super) fn aggregate(&mut self, scope: &Scope) -> Expr {
        let filter = match self.choices.once_in(5) {
            true => sql![" FILTER (WHERE ", self.predicate(scope, 1), ")"],
            false => Sql::default(),
        };
        let rows = scope.rows;
        let ty = self.some_type(scope);
        let value = self.expr(scope, ty, 1);
        match self.choices.weighted(&[3, 3, 2, 3, 4, 2, 1, 1]) {
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

/// The expressions without duplicates.
fn each_once(keys: Vec<Expr>) -> Vec<Expr> {
    let mut texts = Vec::new();
    let mut is_new = |key: &Expr| {
        let text = key.sql.text(Dialect::Tierra);
        let new = !texts.contains(&text);
        texts.push(text);
        new
    };
    keys.into_iter().filter(|key| is_new(key)).collect()
}
