//! Window functions whose rows have a total order, or whose value does not depend on it.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::select::Query;
use super::{Expr, Field, Grammar, Scope, Subqueries};

const FRAMES: [&str; 8] = [
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
];
/// Frames of rows that are as far away, in the order's column, or by groups of equal ones.
const RANGES: [[&str; 2]; 3] = [
    ["2 PRECEDING", "1 FOLLOWING"],
    ["UNBOUNDED PRECEDING", "3 PRECEDING"],
    ["CURRENT ROW", "4 FOLLOWING"],
];
const PERIODS: [[&str; 2]; 2] = [
    ["INTERVAL '3 days' PRECEDING", "CURRENT ROW"],
    [
        "INTERVAL '36 hours' PRECEDING",
        "INTERVAL '1 day' FOLLOWING",
    ],
];
const GROUPS: [[&str; 2]; 3] = [
    ["1 PRECEDING", "1 FOLLOWING"],
    ["2 PRECEDING", "CURRENT ROW"],
    ["1 FOLLOWING", "UNBOUNDED FOLLOWING"],
];

impl Grammar<'_> {
    /// Rows with one or two window functions.
    pub(super) fn windowed(&mut self, depth: u32) -> Query {
        let (from, scope) = self.relation(depth);
        let filter = self.filter(&scope);
        let marks = self.marks(Some(Construct::Window), &from, &filter);
        let mut exprs = Vec::new();
        let mut key = Vec::new();
        if self.choices.below(3) > 0 {
            exprs.extend(scope.key_fields().map(|field| field.expr.clone()));
            key.extend(0..exprs.len());
        }
        for _ in 0..1 + self.choices.below(2) {
            let ty = self.some_type(&scope);
            let all = |grammar: &mut Self| grammar.expr(&scope, ty, 1);
            exprs.push(self.allowing(Subqueries::All, all));
        }
        let partition = self.partition_by(&scope);
        // A named window of the query, to which functions add their order.
        let named = (!self.limits.sqlite && self.choices.once_in(6)).then(|| self.name("w"));
        for _ in 0..1 + self.choices.below(2) {
            let window = match &named {
                Some(name) => format!("{name} ").into(),
                None => partition.clone(),
            };
            exprs.push(self.window_function(&scope, &window));
        }
        let (list, columns) = self.list(&exprs);
        let mut sql = sql![marks, "SELECT ", list, " FROM ", from, filter];
        if let Some(name) = named {
            sql = sql![sql, format!(" WINDOW {name} AS ("), partition, ")"];
        } else if !self.limits.sqlite && self.choices.once_in(6) {
            let tested = self.window_function(&scope, &partition);
            if tested.same {
                let window = tested.sql.plain();
                let of = Scope {
                    fields: vec![Field::from(tested)],
                    rows: scope.rows,
                    ..Scope::default()
                };
                let condition = self.predicate(&of, 0);
                if condition.plain().contains(&window) {
                    sql = sql![sql, Construct::Qualify, " QUALIFY ", condition];
                }
            }
        }
        Query {
            sql,
            columns,
            rows: scope.rows,
            key,
            ordered: false,
        }
    }

    /// PARTITION BY, or nothing.
    pub(super) fn partition_by(&mut self, scope: &Scope) -> Sql {
        let keys = match self.choices.weighted(&[3, 4, 3, 1]) {
            0 => return Sql::default(),
            1 => match self.field(scope, |expr| expr.same) {
                Some(field) => field.expr.sql,
                None => return Sql::default(),
            },
            2 => {
                let count = 1 + self.choices.index(2);
                let keys = (0..count).filter_map(|_| self.column_or_coarse(scope));
                let keys: Vec<Sql> = keys.map(|(key, _)| key.sql).collect();
                if keys.is_empty() {
                    return Sql::default();
                }
                Sql::joined(keys, ", ")
            }
            _ => {
                let condition = |grammar: &mut Self| grammar.predicate(scope, 1);
                let condition = self.allowing(Subqueries::Conditions, condition);
                sql!["(", condition, ")"]
            }
        };
        sql!["PARTITION BY ", keys, " "]
    }

    /// A function over a window that begins like this.
    pub(super) fn window_function(&mut self, scope: &Scope, window: &Sql) -> Expr {
        if scope.key.is_empty() || self.choices.once_in(5) {
            return self.orderless(scope, window);
        }
        let ty = self.some_type(scope);
        let value = self.leaf(scope, ty);
        let order = sql!["ORDER BY ", self.total_order(scope)];
        let frame = self.choices.one_of(&FRAMES);
        let count = |sql: Sql| Expr::new(sql, Type::Big).within(scope.rows);
        let over = |frame: &'static str| sql![" OVER (", window, &order, frame, ")"];
        match self.choices.weighted(&[3, 4, 3, 3, 2, 3, 3, 1]) {
            0 => {
                let (function, mark) = match self.choices.below(4) {
                    0 => ("row_number()", Sql::default()),
                    1 => ("rank()", Sql::default()),
                    2 => ("dense_rank()", Sql::default()),
                    _ => {
                        let number = self.choices.one_of(&["ntile(3)", "ntile(2)", "ntile(50)"]);
                        (number, Construct::Ntile.into())
                    }
                };
                count(sql![mark, function, over("")])
            }
            1 => {
                let function = self.choices.one_of(&["lag(", "lead("]);
                let rest = match (ty, self.choices.below(5)) {
                    (_, 0) => sql![")"],
                    (_, 1) => sql![", 2", self.nulls()],
                    (Type::Big, 2 | 3) => sql![Construct::OffsetWithDefault, ", 1, 7)"],
                    (Type::Text, 2 | 3) => sql![Construct::OffsetWithDefault, ", 1, 'none')"],
                    _ => sql![", 1", self.nulls()],
                };
                let most = value.most.max(7);
                Expr::of(
                    sql![Construct::Offset, function, &value.sql, rest, over("")],
                    &[&value],
                )
                .within(most)
            }
            2 => {
                let function = self.choices.one_of(&["first_value(", "last_value("]);
                let nulls = self.nulls();
                let sql = sql![function, &value.sql, nulls, over(frame)];
                Expr::of(sql![Construct::ValueOfFrame, sql], &[&value])
            }
            3 => {
                let number = self.choices.one_of(&[", 2", ", 1", ", 3"]);
                let nulls = self.nulls();
                let sql = sql!["nth_value(", &value.sql, number, nulls, over(frame)];
                Expr::of(sql![Construct::NthValue, sql], &[&value])
            }
            4 => {
                let filter = self.window_filter(scope);
                count(sql!["count(", &value.sql, ")", filter, over(frame)])
            }
            5 if ty.is_number() && value.most < 1 << 40 && value.summable => match ty {
                Type::Int | Type::Big
                    if value.most.saturating_mul(scope.rows) < Type::Big.most() =>
                {
                    let sql = sql![
                        Sql::each("sum(", "CAST(sum(", "sum("),
                        &value.sql,
                        ")",
                        self.window_filter(scope),
                        over(frame),
                        Sql::each("", " AS BIGINT)", "")
                    ];
                    Expr::new(sql, Type::Big)
                }
                // Rows that leave the frame are subtracted again, which infinities do not survive.
                _ => count(sql!["count(*)", over(frame)]),
            },
            7 => self.double_rank(over("")),
            _ if ty != Type::Bool => {
                let function = self.choices.one_of(&["min(", "max("]);
                Expr::of(sql![function, &value.sql, ")", over(frame)], &[&value])
            }
            _ => count(sql!["count(*)", over(frame)]),
        }
    }

    /// The end of a function's arguments, now and then with IGNORE NULLS.
    fn nulls(&mut self) -> Sql {
        if self.limits.sqlite || !self.choices.once_in(4) {
            return ")".into();
        }
        let words = Sql::each(") IGNORE NULLS", " IGNORE NULLS)", "");
        sql![Construct::IgnoreNulls, words]
    }

    fn window_filter(&mut self, scope: &Scope) -> Sql {
        if !self.choices.once_in(4) {
            return Sql::default();
        }
        let condition = self.allowing(Subqueries::None, |grammar| grammar.predicate(scope, 0));
        sql![Construct::WindowFilter, " FILTER (WHERE ", condition, ")"]
    }

    fn double_rank(&mut self, over: Sql) -> Expr {
        let function = self.choices.one_of(&["percent_rank()", "cume_dist()"]);
        let sql = sql![Construct::DoubleRank, function, over];
        Expr::new(sql, Type::Double).same(false).summable(false)
    }

    /// A function whose value is the same for every order of tied rows.
    fn orderless(&mut self, scope: &Scope, window: &Sql) -> Expr {
        let ordered = self.field(scope, |expr| expr.same);
        let over = match &ordered {
            Some(field) if self.choices.below(3) > 0 => {
                let frame = self.tied_frame(&field.expr);
                let order = sql!["ORDER BY ", &field.expr.sql, self.direction()];
                sql![" OVER (", window, order, frame, ")"]
            }
            _ => sql![" OVER (", window, ")"],
        };
        let ty = self.some_type(scope);
        let value = self.leaf(scope, ty);
        match self.choices.below(6) {
            0 => Expr::new(sql!["count(*)", over], Type::Big).within(scope.rows),
            1 => Expr::new(sql!["count(", &value.sql, ")", over], Type::Big).within(scope.rows),
            2 => Expr::new(sql!["rank()", over], Type::Big).within(scope.rows),
            3 => self.double_rank(over),
            _ if ty != Type::Bool => {
                let function = self.choices.one_of(&["min(", "max("]);
                Expr::of(sql![function, &value.sql, ")", over], &[&value])
            }
            _ => Expr::new(sql!["count(*)", over], Type::Big).within(scope.rows),
        }
    }

    /// A frame by the values of the column that the window is ordered by, which has all rows that tie or none.
    fn tied_frame(&mut self, by: &Expr) -> Sql {
        let between = |[low, high]: [&str; 2]| format!("BETWEEN {low} AND {high}");
        if self.choices.below(2) == 0 {
            return Sql::default();
        }
        let frames: &[[&str; 2]] = match by.ty {
            Type::Int | Type::Big if by.most < 1 << 30 => &RANGES,
            Type::Date | Type::Timestamp if by.most < u128::MAX && !self.limits.sqlite => &PERIODS,
            _ => &[],
        };
        if frames.is_empty() || self.choices.once_in(3) {
            let frame = between(self.choices.one_of(&GROUPS));
            return sql![Construct::GroupsFrame, format!(" GROUPS {frame}")];
        }
        let frame = between(self.choices.one_of(frames));
        sql![Construct::RangeFrame, format!(" RANGE {frame}")]
    }
}
