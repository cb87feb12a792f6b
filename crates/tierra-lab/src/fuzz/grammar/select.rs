//! Queries: plain, DISTINCT, set operations, ORDER BY with LIMIT.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Field, Grammar, Scope, Subqueries};

/// The most rows of an answer; larger ones are reduced to a digest, or to the first few rows.
const MOST_ROWS: u128 = 2_000;

/// A query, and its columns.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) sql: Sql,
    pub(super) columns: Vec<Field>,
    /// An upper bound of the rows.
    pub(super) rows: u128,
    /// The numbers of columns that are unique together, where NULL counts as a value; empty if unknown.
    pub(super) key: Vec<usize>,
    /// Whether the rows have a defined order.
    pub(crate) ordered: bool,
}

impl Query {
    /// The types of its columns.
    pub(crate) fn types(&self) -> Vec<Type> {
        self.columns.iter().map(|column| column.expr.ty).collect()
    }

    /// Its key as the key of a scope.
    pub(super) fn key_in(&self, alias: &str) -> Vec<Sql> {
        let name = |column: &usize| self.columns[*column].expr.sql.plain();
        let columns = self.key.iter();
        columns
            .map(|column| format!("{alias}.{}", name(column)).into())
            .collect()
    }

    fn is_same(&self) -> bool {
        self.columns.iter().all(|column| column.expr.same)
    }
}

impl Grammar<'_> {
    /// A whole query, of few rows.
    pub(crate) fn query(&mut self) -> Query {
        let mut with = Sql::default();
        if !self.limits.prepared && self.choices.once_in(8) {
            let count = 1 + self.choices.index(2);
            let common: Vec<Sql> = (0..count).map(|_| self.common()).collect();
            with = sql!["WITH ", Sql::joined(common, ", "), " "];
        }
        let query = self.select(None, 2);
        let query = match query.rows > MOST_ROWS {
            true if query.is_same() && self.choices.below(2) == 1 => self.first_rows(query),
            true => self.digest(query),
            false if query.is_same() && self.choices.once_in(4) => self.first_rows(query),
            false => query,
        };
        Query {
            sql: sql![with, query.sql],
            ..query
        }
    }

    /// A query of any kind; columns of these types if that matters.
    pub(super) fn select(&mut self, want: Option<&[Type]>, depth: u32) -> Query {
        let deep = u64::from(depth > 0);
        let free = u64::from(want.is_none());
        let (list, nested) = (free * u64::from(!self.limits.sqlite), free * deep);
        match self.choices.weighted(&[
            8,
            5 * free,
            3 * free,
            2 * deep,
            2 * list,
            3 * nested,
            2 * list,
        ]) {
            0 => self.plain(want, depth),
            1 => self.grouped(depth),
            2 => self.windowed(depth),
            3 => self.set_operation(want, depth - 1),
            4 => self.unnested(depth),
            5 => self.levels(depth - 1),
            _ => self.distinct_on(depth),
        }
    }

    /// WHERE, or nothing.
    pub(super) fn filter(&mut self, scope: &Scope) -> Sql {
        let mut parts = Vec::new();
        if self.choices.below(3) > 0 {
            let all = |grammar: &mut Self| grammar.predicate(scope, 2);
            parts.push(sql!["(", self.allowing(Subqueries::All, all), ")"]);
        }
        if self.choices.once_in(8) {
            parts.extend(self.allowing(Subqueries::All, |grammar| grammar.membership(scope)));
        }
        if self.drawn_once_in(10) {
            let mark = match scope.joined {
                true => Construct::DrawnAboveJoin.into(),
                false => Sql::default(),
            };
            let drawn = self.allowing(Subqueries::None, |grammar| grammar.drawn(scope));
            parts.push(sql![mark, "(", drawn, ")"]);
        }
        match parts.is_empty() {
            true => Sql::default(),
            false => sql![" WHERE ", Sql::joined(parts, " AND ")],
        }
    }

    fn plain(&mut self, want: Option<&[Type]>, depth: u32) -> Query {
        let (from, scope) = self.relation(depth);
        self.plain_of(from, scope, want)
    }

    /// A plain query of a relation.
    pub(super) fn plain_of(&mut self, from: Sql, scope: Scope, want: Option<&[Type]>) -> Query {
        let types: Vec<Type> = match want {
            Some(types) => types.to_vec(),
            None => (0..1 + self.choices.index(4))
                .map(|_| self.some_type(&scope))
                .collect(),
        };
        let mut exprs: Vec<Expr> = self.allowing(Subqueries::All, |grammar| {
            types
                .iter()
                .map(|ty| grammar.expr(&scope, *ty, 2))
                .collect()
        });
        let mut key = Vec::new();
        if want.is_none() && !scope.key.is_empty() && self.choices.below(3) == 2 {
            let keys: Vec<Expr> = scope.key_fields().map(|field| field.expr.clone()).collect();
            key.extend(exprs.len()..exprs.len() + keys.len());
            exprs.extend(keys);
        }
        let filter = self.filter(&scope);
        let marks = self.marks(None, &from, &filter);
        let distinct = self.choices.once_in(6) && exprs.iter().all(|expr| expr.same);
        let (list, columns) = self.list(&exprs);
        let word = if distinct {
            "SELECT DISTINCT "
        } else {
            "SELECT "
        };
        if distinct {
            key = (0..columns.len()).collect();
        }
        let mut sql = sql![marks, word, list, " FROM ", &from, &filter];
        let mut rows = scope.rows;
        if !distinct && !scope.key.is_empty() && self.choices.once_in(5) {
            let limit = self.choices.one_of(&[3, 1, 10, 100]);
            sql = sql![
                sql,
                " ORDER BY ",
                self.total_order(&scope),
                format!(" LIMIT {limit}")
            ];
            if self.choices.once_in(3) {
                sql = sql![sql, format!(" OFFSET {}", self.choices.below(12))];
            }
            let marks = self.marks(Some(Construct::Limit), &from, &filter);
            rows = rows.min(u128::from(limit as u64));
            return Query {
                sql: sql![marks, "SELECT * FROM (", sql, ") AS ", self.name("d")],
                columns,
                rows,
                key,
                ordered: false,
            };
        }
        Query {
            sql,
            columns,
            rows,
            key,
            ordered: false,
        }
    }

    /// Expressions under names.
    pub(super) fn list(&mut self, exprs: &[Expr]) -> (Sql, Vec<Field>) {
        let names: Vec<String> = exprs.iter().map(|_| self.name("x")).collect();
        let named = exprs.iter().zip(&names);
        let parts = named
            .clone()
            .map(|(expr, name)| sql![&expr.sql, format!(" AS {name}")]);
        let list = Sql::joined(parts.collect::<Vec<_>>(), ", ");
        let columns = named.map(|(expr, name)| Field::named(expr, name.clone()));
        (list, columns.collect())
    }

    /// Something, then the key: a total order of the rows.
    pub(super) fn total_order(&mut self, scope: &Scope) -> Sql {
        let mut parts = Vec::new();
        for _ in 0..self.choices.below(3) {
            if let Some(field) = self.field(scope, |expr| expr.same) {
                parts.push(sql![&field.expr.sql, self.direction()]);
            }
        }
        for key in &scope.key {
            parts.push(sql![key, self.direction()]);
        }
        Sql::joined(parts, ", ")
    }

    pub(super) fn direction(&mut self) -> &'static str {
        self.choices.one_of(&[
            " ASC NULLS LAST",
            " DESC NULLS FIRST",
            " ASC NULLS FIRST",
            " DESC NULLS LAST",
        ])
    }

    fn set_operation(&mut self, want: Option<&[Type]>, depth: u32) -> Query {
        let left = self.select(want, depth);
        let right = self.select(Some(&left.types()), depth);
        let all = !self.limits.sqlite;
        let word =
            match self
                .choices
                .weighted(&[4, 3, 2, 2, 2 * u64::from(all), 2 * u64::from(all)])
            {
                0 => " UNION ALL ",
                1 => " UNION ",
                2 => " EXCEPT ",
                3 => " INTERSECT ",
                4 => " EXCEPT ALL ",
                _ => " INTERSECT ALL ",
            };
        let same = left.is_same() && right.is_same();
        let word = if same { word } else { " UNION ALL " };
        let key = match word.contains("ALL") {
            true => Vec::new(),
            false => (0..left.columns.len()).collect(),
        };
        let pairs = left.columns.iter().zip(&right.columns);
        let columns = pairs.map(|(one, another)| Field {
            expr: Expr::of(one.expr.sql.clone(), &[&one.expr, &another.expr]),
            source: None,
        });
        // DECIMALs of both sides have one type only if requested: sums have wider ones.
        let whole = |query: &Query, alias: String, grammar: &Self| {
            let casts = query
                .columns
                .iter()
                .zip(&left.columns)
                .map(|(column, name)| {
                    let cast = match column.expr.ty {
                        Type::Dec(..) => grammar.cast(&column.expr.sql, column.expr.ty),
                        _ => column.expr.sql.clone(),
                    };
                    sql![cast, " AS ", &name.expr.sql]
                });
            sql![
                "SELECT ",
                Sql::joined(casts.collect::<Vec<_>>(), ", "),
                " FROM (",
                &query.sql,
                format!(") AS {alias}")
            ]
        };
        let (one, another) = (self.name("d"), self.name("d"));
        let sql = sql![whole(&left, one, self), word, whole(&right, another, self)];
        Query {
            sql,
            columns: columns.collect(),
            rows: left.rows + right.rows,
            key,
            ordered: false,
        }
    }

    /// The first rows by all columns: rows that tie are equal.
    fn first_rows(&mut self, query: Query) -> Query {
        let alias = self.name("d");
        let order = (0..query.columns.len())
            .map(|number| sql![format!("{}", number + 1), self.direction()]);
        let order: Vec<Sql> = order.collect();
        let limit = self.choices.one_of(&[10, 1, 100, 1_000]);
        let mut sql = sql![
            "SELECT * FROM (",
            query.sql,
            format!(") AS {alias} ORDER BY "),
            Sql::joined(order, ", ")
        ];
        sql = sql![sql, format!(" LIMIT {limit}")];
        if self.choices.once_in(4) {
            sql = sql![sql, format!(" OFFSET {}", self.choices.below(20))];
        }
        Query {
            sql,
            rows: query.rows.min(limit),
            ordered: true,
            ..query
        }
    }

    /// A digest of many rows: counts, extremes and sums of all columns.
    fn digest(&mut self, query: Query) -> Query {
        let mut exprs = vec![Expr::new("count(*)".into(), Type::Big).within(query.rows)];
        let scope = Scope {
            fields: query.columns.clone(),
            rows: query.rows,
            ..Scope::default()
        };
        for field in &query.columns {
            let column = &field.expr;
            exprs.push(Expr::new(sql!["count(", &column.sql, ")"], Type::Big).within(query.rows));
            exprs.extend(self.sum_of(&scope, column, Sql::default()));
            if column.same && column.ty != Type::Bool {
                exprs.push(Expr::of(sql!["min(", &column.sql, ")"], &[column]));
                exprs.push(Expr::of(sql!["max(", &column.sql, ")"], &[column]));
            }
        }
        let (list, columns) = self.list(&exprs);
        let alias = self.name("d");
        let sql = sql![
            "SELECT ",
            list,
            " FROM (",
            query.sql,
            format!(") AS {alias}")
        ];
        Query {
            sql,
            columns,
            rows: 1,
            key: Vec::new(),
            ordered: false,
        }
    }
}
