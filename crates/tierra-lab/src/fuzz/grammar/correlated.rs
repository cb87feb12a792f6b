//! Subqueries that refer to the row outside from below groups, LIMIT, windows and set operations, by computed values, and from
//! two levels down.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope, Subqueries};

/// The most pairs of rows in engines without a join for it.
const MOST_PRODUCT: u128 = 4_000_000;

impl Grammar<'_> {
    /// EXISTS, IN, ANY or ALL of such a subquery.
    pub(super) fn correlated_membership(&mut self, outer: &Scope) -> Option<Sql> {
        let mine = self.field(outer, |expr| expr.same)?.expr;
        let (rows, _) = self.correlated_rows(outer, mine.ty)?;
        let not = self.choices.one_of(&["", "NOT "]);
        match self.choices.below(5) {
            0 | 1 => return Some(sql![not, "EXISTS (", rows, ")"]),
            2 if !self.limits.sqlite => {
                let sign = self
                    .choices
                    .one_of(&[" = ", " <> ", " < ", " <= ", " > ", " >= "]);
                let word = self.choices.one_of(&["ANY (", "ALL ("]);
                return Some(sql![&mine.sql, sign, word, rows, ")"]);
            }
            _ => {}
        }
        Some(sql![&mine.sql, " ", not, "IN (", rows, ")"])
    }

    /// Such a subquery that yields one value.
    pub(super) fn correlated_value(&mut self, outer: &Scope, ty: Type) -> Option<Expr> {
        if self.choices.below(3) == 0 {
            return self.aggregate_of_both(outer, ty);
        }
        // Not every engine has MIN and MAX of BOOLEANs.
        if ty == Type::Bool {
            return None;
        }
        let counted = ty == Type::Big && self.choices.below(3) == 0;
        let of = match counted {
            true => self.some_type(outer),
            false => ty,
        };
        let (rows, column) = self.correlated_rows(outer, of)?;
        let alias = self.name("d");
        let function = match counted {
            true => "(SELECT count(".to_owned(),
            false => format!("(SELECT {}(", self.choices.one_of(&["min", "max"])),
        };
        let name = format!("{alias}.{}) FROM (", column.sql.plain());
        let sql = sql![function, name, rows, format!(") AS {alias})")];
        Some(match counted {
            true => Expr::new(sql, ty).within(MOST_PRODUCT),
            false => Expr { sql, ..column },
        })
    }

    /// Rows of one column of this type, and the column by its name.
    pub(super) fn correlated_rows(&mut self, outer: &Scope, ty: Type) -> Option<(Sql, Expr)> {
        let (from, scope) = self.rows_beside(outer)?;
        let field = self.field(&scope, |expr| expr.ty == ty && expr.same)?;
        let name = self.name("u");
        let value = match self.choices.once_in(4) {
            true => self.of_both(&scope, outer, ty),
            false => field.expr.clone(),
        };
        let named = |expr: &Expr| Expr {
            sql: name.clone().into(),
            ..expr.clone()
        };
        let selected = |value: &Expr| sql![&value.sql, format!(" AS {name}")];
        let total = !scope.key.is_empty();
        let kind = self
            .choices
            .weighted(&[3, 2, 4, 3 * u64::from(total), 2, 2 * u64::from(total)]);
        Some(match kind {
            0 => (sql!["SELECT ", selected(&value), from], named(&value)),
            1 => {
                let mark = Construct::DistinctBesideOuter;
                let sql = sql![mark, "SELECT DISTINCT ", selected(&value), from];
                (sql, named(&value))
            }
            2 => self.groups_beside(&scope, from, &field.expr, &name),
            3 => {
                let limit = self.choices.one_of(&[1, 2, 5]);
                let skipped = self.choices.one_of(&["", " OFFSET 1"]);
                let order = sql![" ORDER BY ", self.total_order(&scope)];
                let sql = sql![
                    Construct::LimitBesideOuter,
                    "SELECT ",
                    selected(&value),
                    from,
                    order,
                    format!(" LIMIT {limit}{skipped}")
                ];
                // In brackets SQL has rows in no order, but LIMIT has chosen them.
                (sql, named(&value))
            }
            4 => {
                let (other, others) = self.rows_beside(outer)?;
                let another = self.field(&others, |expr| expr.ty == ty && expr.same)?;
                let all = ["UNION ALL", "UNION", "EXCEPT", "INTERSECT"];
                let word = self.choices.one_of(&all);
                let sql = sql![
                    Construct::SetsBesideOuter,
                    "SELECT ",
                    selected(&value),
                    from,
                    format!(" {word} SELECT "),
                    &another.expr.sql,
                    other
                ];
                (
                    sql,
                    named(&Expr::of(Sql::default(), &[&value, &another.expr])),
                )
            }
            _ => {
                let partition = self.partition_by(&scope);
                let function = self.choices.one_of(&["min(", "max(", "first_value("]);
                let order = sql!["ORDER BY ", self.total_order(&scope), ")"];
                let value = match ty {
                    Type::Bool => sql!["first_value(", &value.sql],
                    _ => sql![function, &value.sql],
                };
                let sql = sql![
                    Construct::WindowBesideOuter,
                    "SELECT ",
                    value,
                    ") OVER (",
                    partition,
                    order,
                    format!(" AS {name}"),
                    from
                ];
                (sql, named(&field.expr.clone().summable(false)))
            }
        })
    }

    /// A value for each group, of rows FROM on.
    fn groups_beside(&mut self, scope: &Scope, from: Sql, of: &Expr, name: &str) -> (Sql, Expr) {
        let key = match self.column_or_coarse(scope) {
            Some((key, _)) => key.sql,
            None => of.sql.clone(),
        };
        let function = match of.ty {
            // The groups are by the value itself.
            Type::Bool => None,
            _ => Some(self.choices.one_of(&["max(", "min("])),
        };
        let (value, key) = match function {
            Some(function) => (sql![function, &of.sql, ")"], key),
            None => (of.sql.clone(), of.sql.clone()),
        };
        let having = self
            .choices
            .one_of(&["", " HAVING count(*) > 1", " HAVING count(*) < 3"]);
        let mark = match having {
            "" => Sql::default(),
            _ => Construct::HavingBesideOuter.into(),
        };
        let sql = sql![
            mark,
            Construct::GroupsBesideOuter,
            "SELECT ",
            value,
            format!(" AS {name}"),
            from,
            " GROUP BY ",
            key,
            having
        ];
        let column = Expr {
            sql: name.to_owned().into(),
            ..of.clone()
        };
        (sql, column)
    }

    /// An aggregate of all rows beside the outer one, perhaps of a value of both, perhaps with HAVING.
    fn aggregate_of_both(&mut self, outer: &Scope, ty: Type) -> Option<Expr> {
        let (from, scope) = self.rows_beside(outer)?;
        let field = self.field(&scope, |expr| expr.same)?.expr;
        let having = self.choices.one_of(&[
            "",
            "",
            " HAVING count(*) < 3",
            " HAVING count(*) > 1",
            " HAVING count(*) >= 0",
        ]);
        let mark = match having {
            "" => Sql::default(),
            _ => Construct::HavingBesideOuter.into(),
        };
        let made = |value: Sql| {
            sql![
                mark,
                Construct::AggregateBesideOuter,
                "(SELECT ",
                value,
                from,
                having,
                ")"
            ]
        };
        if ty == Type::Big && self.choices.below(2) == 0 {
            let value = match self.choices.below(3) {
                0 => sql!["count(*)"],
                1 => sql!["count(DISTINCT ", &field.sql, ")"],
                _ => sql!["count(", self.of_both(&scope, outer, field.ty).sql, ")"],
            };
            return Some(Expr::new(made(value), Type::Big).within(scope.rows));
        }
        let field = self.field(&scope, |expr| {
            expr.ty == ty && ty != Type::Bool && expr.same
        })?;
        let value = match self.choices.below(3) {
            0 => field.expr,
            _ => self.of_both(&scope, outer, ty),
        };
        let function = self.choices.one_of(&["min(", "max("]);
        let sql = made(sql![function, &value.sql, ")"]);
        Some(Expr { sql, ..value })
    }

    /// A value of the row inside and the row outside. It names a column inside, so an aggregate of it is the subquery's own.
    fn of_both(&mut self, inner: &Scope, outer: &Scope, ty: Type) -> Expr {
        let both = together(inner, outer);
        let value = self.allowing(Subqueries::None, |grammar| grammar.leaf(&both, ty));
        match self.field(inner, |expr| expr.same) {
            Some(mine) => {
                let sql = sql![
                    "CASE WHEN ",
                    &mine.expr.sql,
                    " IS NOT NULL THEN ",
                    &value.sql,
                    " END"
                ];
                Expr { sql, ..value }
            }
            None => value,
        }
    }

    /// FROM and WHERE of rows that the row outside chooses, and what they have.
    fn rows_beside(&mut self, outer: &Scope) -> Option<(Sql, Scope)> {
        let (from, scope) = match self.choices.once_in(5) {
            true => self.allowing(Subqueries::None, |grammar| grammar.relation(1)),
            false => self.base(),
        };
        if scope.rows * outer.rows > MOST_PRODUCT {
            return None;
        }
        let both = together(&scope, outer);
        let mut conditions = Vec::new();
        if self.choices.below(4) > 0 {
            conditions.extend(self.compared(&scope, outer));
        }
        if conditions.is_empty() || self.choices.once_in(3) {
            // Its own subqueries refer to both rows.
            let nested = self.choices.once_in(3);
            let within = match nested {
                true => Subqueries::All,
                false => Subqueries::None,
            };
            let condition = self.allowing(within, |grammar| match nested {
                true => grammar.membership(&both),
                false => Some(grammar.predicate(&both, 1)),
            });
            let mark = match nested {
                true => Construct::TwoLevelsOut.into(),
                false => Sql::default(),
            };
            conditions.extend(condition.map(|condition| sql![mark, "(", condition, ")"]));
        }
        let from = match conditions.is_empty() {
            true => sql![" FROM ", from],
            false => sql![" FROM ", from, " WHERE ", Sql::joined(conditions, " AND ")],
        };
        Some((from, scope))
    }

    /// A comparison of a value inside with one outside: of columns, of functions of them, or of two types.
    fn compared(&mut self, inner: &Scope, outer: &Scope) -> Option<Sql> {
        let mine = self.field(inner, |expr| expr.same)?.expr;
        let sign = self.choices.one_of(&[" = ", " = ", " = ", " < ", " <> "]);
        let is_number = |ty: Type| matches!(ty, Type::Int | Type::Big);
        match self.choices.below(3) {
            0 => self.correlation(inner, outer, sign),
            1 => {
                let mine = self.coarse(&mine);
                let theirs = self.field(outer, |expr| expr.ty == mine.ty && expr.same)?;
                Some(sql![
                    Construct::ComputedBesideOuter,
                    &mine.sql,
                    sign,
                    &theirs.expr.sql
                ])
            }
            _ if is_number(mine.ty) => {
                let theirs = self.field(outer, |expr| is_number(expr.ty) && expr.same)?;
                let mine = sql!["(", &mine.sql, " % 5)"];
                Some(sql![
                    Construct::ComputedBesideOuter,
                    mine,
                    sign,
                    &theirs.expr.sql
                ])
            }
            _ => {
                let theirs = self.field(outer, |expr| expr.ty == mine.ty && expr.same)?;
                let (mine, theirs) = (&mine.sql, &theirs.expr.sql);
                Some(sql!["(", mine, " = ", theirs, " OR ", theirs, " IS NULL)"])
            }
        }
    }
}

/// The columns of the row inside and of the row outside.
fn together(inner: &Scope, outer: &Scope) -> Scope {
    Scope {
        fields: inner.fields.iter().chain(&outer.fields).cloned().collect(),
        rows: inner.rows * outer.rows,
        joined: true,
        ..Scope::default()
    }
}
