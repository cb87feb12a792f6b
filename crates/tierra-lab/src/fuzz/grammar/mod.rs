//! Random queries with exactly one answer: typed, within the range of every engine's arithmetic, and without anything that SQL
//! leaves open (rows that tie under LIMIT, sums of DOUBLEs in a predicate).
//!
//! | file | what it makes |
//! |---|---|
//! | [`scalar`] | expressions of a type |
//! | [`time`] | those of dates and timestamps |
//! | [`coarse`] | functions that give one value for several of a column |
//! | [`predicate`] | conditions, in three-valued logic |
//! | [`drawn`] | conditions with random() that it does not decide |
//! | [`subquery`] | EXISTS, IN, ANY, ALL and scalar subqueries, correlated and not |
//! | [`correlated`] | those that refer to the row outside from below groups, LIMIT, windows and set operations |
//! | [`relation`] | FROM: tables, joins, derived tables, common table expressions |
//! | [`select`] | queries: plain, DISTINCT, set operations, ORDER BY with LIMIT |
//! | [`levels`] | queries of queries, each with its LIMIT and with names that change their columns; DISTINCT ON |
//! | [`aggregate`] | GROUP BY, grouping sets, HAVING |
//! | [`combined`] | aggregates |
//! | [`window`] | window functions |
//! | [`unnest`] | lists and their items |
//! | [`lateral`] | joins with a subquery that refers to the row beside it |
//! | [`partition`] | queries whose answer is the union of three parts |
//!
//! Left out, because the engines mean different things or one of them refuses it:
//!
//! | what | why |
//! |---|---|
//! | a TIMESTAMP as a text | Tierra writes a T before the time, DuckDB and PostgreSQL a space |
//! | a DECIMAL cast to an integer | Tierra cuts digits off, DuckDB and PostgreSQL round |
//! | a DATE and hours without a cast | Tierra's result is a DATE where the interval is whole days, DuckDB's never |
//! | the difference of two TIMESTAMPs | a duration in Tierra, days and hours in DuckDB |
//! | `extract(second ..)` | whole seconds in Tierra and DuckDB, with the fraction in PostgreSQL: no peer checks it |
//! | DISTINCT ON whose ORDER BY has the expressions in another order | Tierra refuses it |
//! | lag and lead with a default that is no literal | Tierra refuses it |
//! | `LATERAL unnest(..)` | Tierra refuses it |
//! | array_to_string of NULLs alone | empty in Tierra and PostgreSQL, NULL in DuckDB |
//! | QUALIFY without a window function | Tierra refuses it |
//! | columns of lists in tables | Tierra has none; lists are made of columns and by array_agg |
//! | random() where DISTINCT ON, PARTITION BY or ORDER BY name the same expression twice | no engine says whether both are one value |

mod aggregate;
mod coarse;
mod combined;
mod correlated;
mod drawn;
mod lateral;
mod levels;
mod partition;
mod predicate;
mod relation;
mod scalar;
mod select;
mod subquery;
mod time;
mod unnest;
mod window;

use super::choices::Choices;
use super::construct::Construct;
use super::sql::{Dialect, Sql, sql};
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
    /// What it is marked as.
    marks: Sql,
    columns: Vec<Field>,
    /// The names of columns that are unique together.
    key: Vec<String>,
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
    /// Whether its key is declared as a table's primary key.
    declared: bool,
    /// Whether it has a derived table, of whose key all columns may be NULL.
    derived: bool,
}

impl Scope {
    /// The columns of its key.
    fn key_fields(&self) -> impl Iterator<Item = &Field> {
        let texts: Vec<String> = self.key.iter().map(Sql::plain).collect();
        let fields = self.fields.iter();
        fields.filter(move |field| texts.contains(&field.expr.sql.plain()))
    }
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

    /// As many columns of the scope as are drawn, each once, whose values are the same in all engines.
    fn some_fields(&mut self, scope: &Scope, most: usize) -> Vec<Expr> {
        let count = 1 + self.choices.index(most);
        let fields = (0..count).filter_map(|_| self.field(scope, |expr| expr.same));
        each_once(fields.map(|field| field.expr).collect())
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

    /// Marks what stands above what: a filter, and a clause of this construct, above FROM.
    fn marks(&self, clause: Option<Construct>, from: &Sql, filter: &Sql) -> Sql {
        use Construct::*;
        let mut marks = Sql::default();
        let mut mark = |is_true: bool, construct: Construct| {
            if is_true {
                marks = std::mem::take(&mut marks).and(construct);
            }
        };
        mark(!filter.is_empty() && from.has(Unnest), FilterAboveUnnest);
        mark(!filter.is_empty() && from.has(Window), FilterAboveWindow);
        mark(!filter.is_empty() && from.has(Limit), FilterAboveLimit);
        mark(
            filter.has(DrawnCondition) && from.has(Window),
            DrawnAboveWindow,
        );
        match clause {
            Some(Window) => {
                mark(from.has(Limit), WindowAboveLimit);
                mark(from.has(Groups), WindowAboveGroups);
                mark(from.has(Unnest), WindowAboveUnnest);
                mark(filter.has(DrawnCondition), DrawnBelowWindow);
            }
            Some(Groups) => {
                mark(from.has(Groups), GroupOfGroups);
                mark(from.has(Unnest), GroupAboveUnnest);
                mark(filter.has(DrawnCondition), DrawnBelowGroups);
            }
            Some(Limit) => {
                mark(from.has(Limit), LimitAboveLimit);
                mark(from.has(Window), LimitAboveWindow);
                mark(from.has(Groups), LimitAboveGroups);
            }
            _ => {}
        }
        match clause {
            Some(construct) => marks.and(construct),
            None => marks,
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
        sql![
            Sql::each("CAST(", "CAST(", "("),
            inner,
            Sql::each(as_type(Dialect::Tierra), as_type(Dialect::DuckDb), ")"),
        ]
    }
}

/// The expressions without duplicates.
fn each_once(exprs: Vec<Expr>) -> Vec<Expr> {
    let mut texts = Vec::new();
    let mut is_new = |expr: &Expr| {
        let text = expr.sql.plain();
        let new = !texts.contains(&text);
        texts.push(text);
        new
    };
    exprs.into_iter().filter(|expr| is_new(expr)).collect()
}
