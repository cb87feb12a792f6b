//! FROM: tables, joins, derived tables, common table expressions.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Field, Grammar, Named, Scope, Subqueries};

impl Grammar<'_> {
    /// A table, or a common table expression, under an alias.
    pub(super) fn base(&mut self) -> (Sql, Scope) {
        let alias = self.name("a");
        let index = self.choices.index(self.tables.len() + self.common.len());
        if index < self.tables.len() {
            let table = &self.tables[index];
            let fields = table.columns.iter().map(|column| {
                let expr = Expr::new(format!("{alias}.{}", column.name).into(), column.ty);
                let expr = expr.within(column.most()).summable(column.is_summable());
                Field {
                    expr,
                    source: Some(column.clone()),
                }
            });
            let scope = Scope {
                fields: fields.collect(),
                key: table.columns[..table.key]
                    .iter()
                    .map(|column| format!("{alias}.{}", column.name).into())
                    .collect(),
                rows: table.rows() as u128,
                declared: table.keyed,
                ..Scope::default()
            };
            return (format!("{} AS {alias}", table.name).into(), scope);
        }
        let common = &self.common[index - self.tables.len()];
        let from: Sql = format!("{} AS {alias}", common.name).into();
        let scope = Scope {
            fields: in_alias(&common.columns, &alias),
            key: common
                .key
                .iter()
                .map(|name| format!("{alias}.{name}").into())
                .collect(),
            rows: common.rows,
            derived: true,
            ..Scope::default()
        };
        (sql![from, common.marks.clone()], scope)
    }

    /// The FROM of a query.
    pub(super) fn relation(&mut self, depth: u32) -> (Sql, Scope) {
        match self.choices.weighted(&[
            6,
            if depth > 0 { 5 } else { 0 },
            if depth > 0 { 2 } else { 0 },
        ]) {
            0 => self.base(),
            1 => self.join(depth - 1),
            _ => {
                let query = self.select(None, depth - 1);
                let alias = self.name("d");
                let scope = Scope {
                    fields: in_alias(&query.columns, &alias),
                    key: query.key_in(&alias),
                    rows: query.rows,
                    derived: true,
                    ..Scope::default()
                };
                (sql!["(", query.sql, format!(") AS {alias}")], scope)
            }
        }
    }

    /// A common table expression, to which relations made later may refer.
    pub(super) fn common(&mut self) -> Sql {
        let query = self.select(None, 1);
        let name = self.name("w");
        let marks = query.sql.constructs().into_iter().map(Sql::from);
        let marks = Sql::joined(marks, "");
        let key = query
            .key
            .iter()
            .map(|key| query.columns[*key].expr.sql.plain());
        let key = key.collect();
        let sql = sql![format!("{name} AS ("), query.sql, ")"];
        self.common.push(Named {
            name,
            marks,
            key,
            columns: query.columns,
            rows: query.rows,
        });
        sql
    }

    fn join(&mut self, depth: u32) -> (Sql, Scope) {
        let (left_sql, left) = self.relation(depth);
        if !self.limits.sqlite && self.choices.once_in(12) {
            return self.lateral(left_sql, left);
        }
        if self.choices.once_in(10) {
            return self.using(left_sql, left);
        }
        let (right_sql, right) = self.relation(depth.min(1));
        // Not every parser reads a join on the right without parentheses.
        let right_sql = match right.joined {
            true => sql!["(", right_sql, ")"],
            false => right_sql,
        };
        let both = Scope {
            fields: left.fields.iter().chain(&right.fields).cloned().collect(),
            key: match left.key.is_empty() || right.key.is_empty() {
                true => Vec::new(),
                false => left.key.iter().chain(&right.key).cloned().collect(),
            },
            rows: left.rows * right.rows,
            joined: true,
            declared: false,
            derived: left.derived || right.derived,
        };
        let wide = both.rows > self.limits.rows;
        let kind = self.choices.weighted(&[6, 4, 2, 3, 2, 2, 1]);
        if kind == 6 && !wide {
            return (sql![left_sql, " CROSS JOIN ", right_sql], both);
        }
        // Subqueries in ON of a join that keeps or drops rows of one side refer to rows of one side.
        let compared = match kind {
            1..=5 if self.choices.below(2) == 0 => &left,
            1..=5 => &right,
            _ => &both,
        };
        let (on, rows) = match self.join_condition(&left, &right, &both, compared, wide) {
            Some(found) => found,
            // The size of the product is not bounded: only one side is read.
            None => return (left_sql, left),
        };
        let word = [" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "].get(kind);
        match (word, kind) {
            (Some(word), _) => {
                let rows = rows + left.rows + right.rows;
                let mark = match kind {
                    1 => Construct::LeftJoin.into(),
                    2 => Construct::RightJoin.into(),
                    3 => Construct::FullJoin.into(),
                    _ => Sql::default(),
                };
                // A row without a partner on either side may look the same where a key is all NULL.
                let key = match kind == 3 && both.derived {
                    true => Vec::new(),
                    false => both.key.clone(),
                };
                (
                    sql![mark, left_sql, *word, right_sql, " ON ", on],
                    Scope { rows, key, ..both },
                )
            }
            (None, 4 | 5) if !self.limits.sqlite => {
                let (word, mark) = match kind {
                    4 => (
                        Sql::each(" LEFT SEMI JOIN ", " SEMI JOIN ", ""),
                        Construct::SemiJoinOfNulls,
                    ),
                    _ => (
                        Sql::each(" LEFT ANTI JOIN ", " ANTI JOIN ", ""),
                        Construct::AntiJoinOfNulls,
                    ),
                };
                let mark = match has_nulls(&left, &on) && has_nulls(&right, &on) {
                    true => mark.into(),
                    false => Sql::default(),
                };
                (
                    sql![mark, left_sql, word, right_sql, " ON ", on],
                    Scope {
                        joined: true,
                        ..left
                    },
                )
            }
            _ => (
                sql![left_sql, " JOIN ", right_sql, " ON ", on],
                Scope { rows, ..both },
            ),
        }
    }

    /// A join of a relation's rows with those of a table by USING: both sides have two columns, and one of them is merged.
    fn using(&mut self, left_sql: Sql, left: Scope) -> (Sql, Scope) {
        let (right_sql, right) = self.base();
        let is_number = |ty: Type| matches!(ty, Type::Int | Type::Big);
        let mine = self.field(&left, |expr| expr.same).map(|field| field.expr);
        let theirs = mine.as_ref().and_then(|mine| {
            let fits = |expr: &Expr| expr.ty == mine.ty || is_number(expr.ty) && is_number(mine.ty);
            self.field(&right, |expr| expr.same && fits(expr))
        });
        let (Some(mine), Some(theirs)) = (mine, theirs.map(|field| field.expr)) else {
            return (left_sql, left);
        };
        if left.rows * right.rows > self.limits.rows {
            return (left_sql, left);
        }
        let merged = self.name("k");
        let mut fields = vec![Field::named(
            &Expr {
                // The wider type, in which the engines may differ, is used in nothing that could go beyond the narrower.
                ty: if mine.ty == theirs.ty {
                    mine.ty
                } else {
                    Type::Big
                },
                ..Expr::of(Sql::default(), &[&mine, &theirs])
            },
            merged.clone(),
        )];
        let mut sides = Vec::new();
        for (from, scope, key) in [(left_sql, &left, &mine), (right_sql, &right, &theirs)] {
            let alias = self.name("d");
            let others = self.some_fields(scope, 2);
            let (list, columns) = self.list(&others);
            let comma = if others.is_empty() { "" } else { ", " };
            let key = sql![&key.sql, format!(" AS {merged}"), comma];
            sides.push(sql![
                "(SELECT ",
                key,
                list,
                " FROM ",
                from,
                format!(") AS {alias}")
            ]);
            fields.extend(in_alias(&columns, &alias));
        }
        let word = self
            .choices
            .one_of(&[" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "]);
        let mark = match mine.ty == theirs.ty {
            true => Sql::default(),
            false => Construct::UsingOfTypes.into(),
        };
        let scope = Scope {
            fields,
            rows: left.rows * right.rows + left.rows + right.rows,
            joined: true,
            derived: true,
            ..Scope::default()
        };
        let behind = format!(" USING ({merged})");
        let sql = sql![mark, Construct::Using, Sql::joined(sides, word), behind];
        (sql, scope)
    }

    /// ON, and the most rows that can match.
    fn join_condition(
        &mut self,
        left: &Scope,
        right: &Scope,
        both: &Scope,
        compared: &Scope,
        wide: bool,
    ) -> Option<(Sql, u128)> {
        if !wide && self.choices.once_in(5) {
            return Some((self.join_filter(both, compared), both.rows));
        }
        let mut mine = self.field(left, |expr| expr.same)?;
        let mut theirs = self.field(right, |expr| expr.ty == mine.expr.ty && expr.same);
        if wide || theirs.is_none() {
            // With a condition on the right side's key, no row has two matches.
            if right.key.len() != 1 {
                return None;
            }
            theirs = right.key_fields().next().cloned();
            let ty = theirs.as_ref()?.expr.ty;
            mine = self.field(left, |expr| expr.ty == ty && expr.same)?;
        }
        let theirs = theirs?;
        let equal = sql![&mine.expr.sql, " = ", &theirs.expr.sql];
        let rows = if wide { left.rows } else { both.rows };
        let equal = sql![equal, self.drawn_on(both)];
        Some(match self.choices.below(4) {
            0..=2 => (equal, rows),
            _ => (
                sql![equal, " AND (", self.join_filter(both, compared), ")"],
                rows,
            ),
        })
    }

    /// A condition of ON with random().
    fn drawn_on(&mut self, both: &Scope) -> Sql {
        match self.and_drawn(both, 12) {
            none if none.is_empty() => none,
            drawn => sql![Construct::DrawnInJoin, drawn],
        }
    }

    /// A condition of ON: on both sides without subqueries, or with subqueries on the scope that these may refer to.
    fn join_filter(&mut self, both: &Scope, compared: &Scope) -> Sql {
        match self.choices.once_in(3) {
            true => self.allowing(Subqueries::Conditions, |grammar| {
                grammar.predicate(compared, 1)
            }),
            false => self.allowing(Subqueries::None, |grammar| grammar.predicate(both, 1)),
        }
    }
}

/// Whether a column with NULLs of a scope is one that ON names.
fn has_nulls(scope: &Scope, on: &Sql) -> bool {
    let on = on.plain();
    scope.fields.iter().any(|field| {
        let source = field.source.as_ref();
        source.is_some_and(super::Column::is_nullable) && on.contains(&field.expr.sql.plain())
    })
}

/// The columns of a query under an alias.
pub(super) fn in_alias(columns: &[Field], alias: &str) -> Vec<Field> {
    let named = |field: &Field| {
        let name = field.expr.sql.plain();
        Field {
            expr: Expr {
                sql: format!("{alias}.{name}").into(),
                ..field.expr.clone()
            },
            source: None,
        }
    };
    columns.iter().map(named).collect()
}
