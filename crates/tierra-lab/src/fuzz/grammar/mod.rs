//! Random queries with exactly one answer: typed, within the range of every engine's arithmetic, and without anything that SQL
//! leaves open (rows that tie under LIMIT, sums of DOUBLEs in a predicate).
//!
//! | file | what it makes |
//! |---|---|
//! | [`scalar`] | expressions of a type |
//! | [`predicate`] | conditions, in three-valued logic |
//! | [`subquery`] | EXISTS, IN, ANY, ALL and scalar subqueries, correlated and not |
//! | [`relation`] | FROM: tables, joins, derived tables, common table expressions |
//! | [`select`] | queries: plain, DISTINCT, set operations, ORDER BY with LIMIT |
//! | [`aggregate`] | GROUP BY, HAVING, aggregates |
//! | [`window`] | window functions |
//! | [`partition`] | queries whose answer is the union of three parts |

mod aggregate;
mod partition;
mod predicate;
mod relation;
mod scalar;
mod select;
mod subquery;
mod window;

use super::choices::Choices;
use super::sql::{Sql, sql};
use super::table::{Column, Table};
use super::value::{Type, Value};

/// Which subqueries an expression may have.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Subqueries {
    None,
    /// Those that do not refer to the outer row.
    Apart,
    /// Scalar ones do not refer to it: the planner plans such ones only in WHERE, select lists and aggregates.
    Conditions,
    All,
}

/// What a query may contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Only what SQLite has as well.
    pub(crate) sqlite: bool,
    /// Literals become parameters. They must not be in parts that a query does not use, where the planner finds no parameters.
    pub(crate) prepared: bool,
    /// The most rows of a product of two sides of a join.
    pub(crate) rows: u128,
}

/// Makes one query.
pub(crate) struct Grammar<'a> {
    pub(crate) choices: &'a mut Choices,
    pub(crate) tables: &'a [Table],
    pub(crate) limits: Limits,
    names: usize,
    common: Vec<Named>,
    subqueries: Subqueries,
}

/// A common table expression.
struct Named {
    name: String,
    columns: Vec<Field>,
    rows: u128,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) sql: Sql,
    pub(crate) ty: Type,
    /// The greatest magnitude, in units of the last digit; in quarters for DOUBLE.
    most: u128,
    /// Whether its sum is independent of the order of rows.
    summable: bool,
    /// Whether all engines compute the same bits, so that conditions and groups may depend on it.
    same: bool,
}

/// A column of a relation.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    expr: Expr,
    /// The table's column that it is, for literals that it may equal.
    source: Option<Column>,
}

/// The columns that an expression may refer to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub(crate) fields: Vec<Field>,
    /// Columns that are unique together; empty if unknown.
    key: Vec<Sql>,
    /// An upper bound of the rows.
    rows: u128,
    /// Whether it is a join, which needs parentheses on the right of another.
    joined: bool,
}

impl Expr {
    fn new(sql: Sql, ty: Type) -> Expr {
        Expr {
            sql,
            ty,
            most: ty.most(),
            summable: ty != Type::Double,
            same: true,
        }
    }

    fn within(self, most: u128) -> Expr {
        Expr { most, ..self }
    }

    fn summable(self, summable: bool) -> Expr {
        Expr { summable, ..self }
    }

    fn same(self, same: bool) -> Expr {
        Expr { same, ..self }
    }

    /// An expression that yields the values of these.
    fn of(sql: Sql, all: &[&Expr]) -> Expr {
        Expr {
            sql,
            ty: all[0].ty,
            most: all.iter().map(|expr| expr.most).max().unwrap_or(0),
            summable: all.iter().all(|expr| expr.summable),
            same: all.iter().all(|expr| expr.same),
        }
    }
}

impl From<Expr> for Field {
    fn from(expr: Expr) -> Field {
        Field { expr, source: None }
    }
}

impl Field {
    /// A column of a derived table that has the expression under a name.
    fn named(expr: &Expr, name: String) -> Field {
        Field {
            expr: Expr {
                sql: name.into(),
                ..expr.clone()
            },
            source: None,
        }
    }
}

impl<'a> Grammar<'a> {
    pub(crate) fn new(
        choices: &'a mut Choices,
        tables: &'a [Table],
        limits: Limits,
    ) -> Grammar<'a> {
        Grammar {
            choices,
            tables,
            limits,
            names: 0,
            common: Vec::new(),
            subqueries: Subqueries::None,
        }
    }

    /// Makes a part that may have these subqueries.
    fn allowing<T>(&mut self, subqueries: Subqueries, make: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.subqueries, subqueries);
        let made = make(self);
        self.subqueries = before;
        made
    }

    fn name(&mut self, kind: &str) -> String {
        self.names += 1;
        format!("{kind}{}", self.names)
    }

    /// A type that expressions over the scope are likely to have.
    fn some_type(&mut self, scope: &Scope) -> Type {
        if scope.fields.is_empty() || self.choices.once_in(8) {
            let plain = [
                Type::Big,
                Type::Text,
                Type::Bool,
                Type::Double,
                Type::Int,
                Type::Date,
                Type::Timestamp,
            ];
            return self.choices.one_of(&plain);
        }
        scope.fields[self.choices.index(scope.fields.len())].expr.ty
    }

    /// A column of the scope for which the test is true, if there is one.
    fn field(&mut self, scope: &Scope, test: impl Fn(&Expr) -> bool) -> Option<Field> {
        let fitting: Vec<&Field> = scope
            .fields
            .iter()
            .filter(|field| test(&field.expr))
            .collect();
        match fitting.len() {
            0 => None,
            count => Some(fitting[self.choices.index(count)].clone()),
        }
    }

    /// A literal; one that the column may hold, if a column is given.
    fn literal(&mut self, ty: Type, like: Option<&Column>) -> Expr {
        if self.choices.once_in(25) {
            return Expr::new(Sql::value(ty, Value::Null), ty)
                .within(0)
                .summable(true);
        }
        let value = match like {
            Some(column) if column.ty == ty && self.choices.below(4) < 3 => {
                column.likely(self.choices)
            }
            _ => self.plain_value(ty),
        };
        let most = match &value {
            Value::Number(number) => number.unsigned_abs(),
            Value::Double(x) => (x.abs() * 4.0) as u128,
            _ => ty.most(),
        };
        let summable = match &value {
            Value::Double(x) => x.is_finite() && (x * 4.0).fract() == 0.0 && most < ty.most(),
            _ => true,
        };
        Expr::new(Sql::value(ty, value), ty)
            .within(most)
            .summable(summable)
    }

    fn plain_value(&mut self, ty: Type) -> Value {
        let small = self.choices.below(40) as i128 - 10;
        match ty {
            Type::Bool => Value::Bool(small & 1 == 1),
            Type::Int | Type::Big => Value::Number(small),
            Type::Dec(precision, scale) => {
                let unit = 10_i128.pow(u32::from(scale.min(precision.saturating_sub(3)))) / 4;
                Value::Number((small * unit.max(1)) % (ty.most() as i128 + 1))
            }
            Type::Double => Value::Double(small as f64 / 4.0),
            Type::Date => Value::Number(10_000 + small),
            Type::Timestamp => Value::Number(small * 86_400_000_000),
            Type::Text => {
                let words = [
                    "",
                    "a",
                    "ab",
                    "b",
                    "abc",
                    "B",
                    "the same beginning 3",
                    "7",
                    "c",
                    "zebra",
                ];
                Value::Text(self.choices.one_of(&words).to_owned())
            }
        }
    }

    /// `CAST(.. AS type)`; SQLite's values already have their type.
    fn cast(&self, inner: impl Into<Sql>, ty: Type) -> Sql {
        let as_type = |dialect| format!(" AS {})", ty.name(dialect));
        use super::sql::Dialect;
        sql![
            Sql::each("CAST(", "CAST(", "("),
            inner,
            Sql::each(as_type(Dialect::Tierra), as_type(Dialect::DuckDb), ")"),
        ]
    }
}
