//! PostgreSQL's system catalog for Tierra: queries of `pg_catalog` and `information_schema`, answered from a description of the tables.
//!
//! ```text
//! reads.rs     -- is it a query of the catalog?
//! bind/        -- what each name means, and of which type each value is: syntax becomes a plan
//! run.rs       -- runs the plan; join.rs, group.rs, expression.rs, with what session.rs and lookup.rs have at hand
//! functions/   -- what it may call
//! tables/      -- the rows of each table; data/ has PostgreSQL 15's declarations of tables, types and words
//! contents.rs  -- what there is: the caller's description, with a number for each thing
//! cast.rs      -- values as text and binary
//! ```
//!
//! ```
//! use tierra_catalog::{Column, Contents, Question, Table, Type};
//!
//! let id = Column { name: "id".into(), ty: Type::INT8, modifier: -1, is_nullable: false };
//! let cities = Table { name: "cities".into(), columns: vec![id], primary_key: vec![0], rows: 7 };
//! let contents = Contents { user: "alice".into(), tables: vec![cities], ..Contents::default() };
//!
//! let question = Question::of("SELECT relname, reltuples FROM pg_class WHERE oid = 'cities'::regclass")?.unwrap();
//! let answer = question.plan(&[])?.answer(&contents, &[])?;
//! assert_eq!(answer.texts(), [[Some("cities".into()), Some("7".into())]]);
//! # Ok::<(), tierra_catalog::Error>(())
//! ```
//!
//! *Keeps true:* a query is answered as PostgreSQL would, or refused by an error that says what is not known. No query takes
//! more than some seconds and some hundred MB, and none ends the process.
//!
//! Why an evaluator of its own: these tables are small, and the queries that tools send are not. They have correlated subqueries, functions
//! that return rows in select lists, arrays from subqueries, records. DataFusion plans few of them. The crate datafusion-pg-catalog
//! replaces known queries by others as texts; its `pg_index` and `pg_constraint` are those of an empty cluster; and it brings a second
//! pgwire and default features of DataFusion that are not wanted here. Row by row, with equalities hashed, the general
//! case is short.

mod bind;
mod cast;
mod contents;
mod error;
mod expression;
mod functions;
mod group;
mod join;
mod lookup;
mod names;
mod pattern;
mod plan;
mod reads;
mod run;
mod session;
mod tables;
mod types;
mod value;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sqlparser::ast::{Query as Syntax, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Tokenizer;

use crate::bind::Binder;
use crate::contents::Objects;
use crate::expression::Runs;
use crate::plan::Plan;
use crate::reads::Reads;
use crate::run::Run;
use crate::session::Session;
use crate::value::Value;

pub use crate::contents::{Column, Contents, Table};
pub use crate::error::Error;
pub use crate::reads::is_hint;
pub use crate::types::Type;

/// The most bytes of a query of the catalog.
const TEXT_MOST_BYTES: usize = 1 << 18;
/// The most tokens: a chain of operators is as deep as it is long.
const TOKENS_MOST: usize = 20_000;
/// How deep what is in brackets may be.
const NESTING_MOST: usize = 100;
/// The steps of a value that is sent.
const CELL_STEPS: u64 = 20;
/// Room for the deepest of them.
const STACK_BYTES: usize = 64 << 20;

/// A query of the catalog that was read.
#[derive(Debug)]
pub struct Question {
    syntax: Box<Syntax>,
    reads: Reads,
}

impl Question {
    /// Reads a statement; `None` if it is not a query of the catalog, or not one that is understood.
    ///
    /// # Errors
    /// If it reads tables of the catalog and others as well.
    pub fn of(sql: &str) -> Result<Option<Self>, Error> {
        on_large_stack(|| {
            if sql.len() > TEXT_MOST_BYTES {
                return Ok(None);
            }
            let dialect = PostgreSqlDialect {};
            let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location();
            let Some(tokens) = tokens.ok().filter(|tokens| tokens.len() <= TOKENS_MOST) else {
                return Ok(None);
            };
            let parser = Parser::new(&dialect).with_recursion_limit(NESTING_MOST);
            let statements = parser.with_tokens_with_locations(tokens).parse_statements();
            let Ok([Statement::Query(_)]) = statements.as_deref() else {
                return Ok(None);
            };
            let mut statements = statements.unwrap_or_default();
            let Some(statement @ Statement::Query(_)) = statements.pop() else {
                return Ok(None);
            };
            let Some(reads) = reads::reads(&statement)? else {
                return Ok(None);
            };
            Ok(match statement {
                Statement::Query(syntax) if is_read(&syntax.body) => Some(Self { syntax, reads }),
                _ => None,
            })
        })
    }

    /// Whether it reads no table, and has something that is not known here and may be to another planner. Of functions that are called
    /// as PostgreSQL's own, none is.
    #[must_use]
    pub fn is_of_another(&self) -> bool {
        let is_unknown = |error: Error| match error.code {
            "42883" => !error.message.starts_with("function pg_"),
            code => code == "0A000",
        };
        self.reads == Reads::Functions && self.plan(&[]).is_err_and(is_unknown)
    }

    /// Plans it, for parameters of these types; `None` where the query is to say.
    ///
    /// # Errors
    /// If a name or a type is wrong, or something in it is not known.
    pub fn plan(&self, parameters: &[Option<Type>]) -> Result<Query, Error> {
        on_large_stack(|| {
            let known = parameters
                .iter()
                .map(|ty| ty.filter(|ty| *ty != Type::UNKNOWN));
            let mut binder = Binder::new(known.collect());
            let mut plan = binder.query(&self.syntax)?;
            binder.settle(&mut plan)?;
            // What is in a row has forgotten its types.
            if plan.columns.iter().any(|column| column.ty == Type::RECORD) {
                return Err(Error::unsupported("a row as a column"));
            }
            let parameters = binder
                .parameters
                .into_iter()
                .map(|ty| ty.unwrap_or(Type::TEXT));
            Ok(Query {
                parameters: parameters.collect(),
                plan: Arc::new(plan),
            })
        })
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // A long chain of operators is deep.
        on_large_stack(|| {
            *self.syntax.body = SetExpr::Values(sqlparser::ast::Values {
                explicit_row: false,
                value_keyword: false,
                rows: Vec::new(),
            })
        });
    }
}

/// Whether it changes nothing.
fn is_read(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(_) | SetExpr::Values(_) => true,
        SetExpr::Query(query) => is_read(&query.body),
        SetExpr::SetOperation { left, right, .. } => is_read(left) && is_read(right),
        _ => false,
    }
}

fn on_large_stack<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(STACK_BYTES / 2, STACK_BYTES, work)
}

/// A query that was planned.
#[derive(Debug)]
pub struct Query {
    parameters: Vec<Type>,
    plan: Arc<Plan>,
}

impl Query {
    /// The types of its parameters.
    #[must_use]
    pub fn parameters(&self) -> &[Type] {
        &self.parameters
    }

    /// The names and types of its columns.
    pub fn columns(&self) -> impl ExactSizeIterator<Item = (&str, Type)> {
        self.plan
            .columns
            .iter()
            .map(|column| (column.name.as_str(), column.ty))
    }

    /// Its rows, with arguments as PostgreSQL writes them.
    ///
    /// # Errors
    /// If a value is wrong, or the rows take too many steps.
    pub fn answer(
        &self,
        contents: &Contents,
        arguments: &[Option<String>],
    ) -> Result<Answer, Error> {
        self.answer_until(contents, arguments, &AtomicBool::new(false))
    }

    /// As [`Query::answer`]; ends with an error soon after `stop` is set.
    ///
    /// # Errors
    /// Also if it was stopped.
    pub fn answer_until(
        &self,
        contents: &Contents,
        arguments: &[Option<String>],
        stop: &AtomicBool,
    ) -> Result<Answer, Error> {
        on_large_stack(|| {
            let objects = Objects::of(contents);
            let arguments = self.parameters.iter().enumerate().map(|(place, ty)| {
                match arguments.get(place).and_then(Option::as_deref) {
                    Some(text) => cast::input(text, *ty, &objects),
                    None => Ok(Value::Null),
                }
            });
            let session = Session::new(&objects, arguments.collect::<Result<_, _>>()?, stop);
            let run = Run::new(session);
            let rows = run.rows(&self.plan, None)?;
            let types: Vec<Type> = self.plan.columns.iter().map(|column| column.ty).collect();
            let rows = rows.iter().map(|row| {
                let values = row.iter().zip(&types).map(|(value, ty)| {
                    run.session().step(CELL_STEPS)?;
                    if value.is_null() {
                        return Ok(None);
                    }
                    // It is there in both forms.
                    run.session().bytes(2 * value.bytes() as u64)?;
                    Ok(Some(Cell {
                        text: cast::output(value, *ty, &objects),
                        binary: cast::binary(value, *ty, &objects),
                    }))
                });
                values.collect()
            });
            Ok(Answer {
                rows: rows.collect::<Result<_, Error>>()?,
            })
        })
    }
}

/// A value in both forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// As text.
    pub text: String,
    /// As binary.
    pub binary: Vec<u8>,
}

/// The rows of a query; `None` is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The rows.
    pub rows: Vec<Vec<Option<Cell>>>,
}

impl Answer {
    /// Bytes that the rows take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let cells = self.rows.iter().flatten().flatten();
        let texts = cells
            .map(|cell| cell.text.len() + cell.binary.len())
            .sum::<usize>();
        let count = self.rows.iter().map(Vec::len).sum::<usize>();
        texts + count * size_of::<Option<Cell>>()
    }

    /// The rows as texts.
    #[must_use]
    pub fn texts(self) -> Vec<Vec<Option<String>>> {
        let rows = self.rows.into_iter();
        rows.map(|row| {
            row.into_iter()
                .map(|cell| cell.map(|cell| cell.text))
                .collect()
        })
        .collect()
    }
}
