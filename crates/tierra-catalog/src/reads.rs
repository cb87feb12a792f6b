//! Whether a query is one of the system catalog.
//!
//! It is if all tables that it names are the catalog's, or if it names none and calls a function that only the catalog has. A query
//! that names tables of the catalog and others is refused: the planner of other queries does not know the catalog.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    DataType, Expr, Function, ObjectName, Query, Statement, TableFactor, Visit, Visitor,
};

use crate::bind;
use crate::contents::{DECLARED, Declared};
use crate::error::{Error, Result};
use crate::functions::{RowsFunction, is_of_catalog};
use crate::types::Type;

/// What a query names.
#[derive(Default)]
struct Names {
    /// Tables of the catalog, and others.
    catalog: BTreeSet<String>,
    information: BTreeSet<String>,
    others: BTreeSet<String>,
    has_function: bool,
    /// The names that WITH gives in the queries around.
    with: Vec<With>,
}

/// The queries of a WITH.
struct With {
    /// Where each one is, and its name.
    queries: Vec<(*const Query, String)>,
    is_recursive: bool,
    /// How many of the names are seen.
    seen: usize,
}

/// Whether a word shows that a query may be one of the catalog.
#[must_use]
pub fn is_hint(word: &str) -> bool {
    let folded = word.to_lowercase();
    ["pg_", "reg", "current_", "has_", "_pg_", "to_reg"]
        .iter()
        .any(|start| folded.starts_with(start))
        || [
            "information_schema",
            "version",
            "session_user",
            "user",
            "format_type",
        ]
        .contains(&folded.as_str())
        || folded.ends_with("_description")
        || is_of_catalog(&folded)
}

/// What of the catalog a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Tables,
    /// Functions alone.
    Functions,
}

/// What of the catalog it reads; `None` if it is not the catalog's.
pub(crate) fn reads(statement: &Statement) -> Result<Option<Reads>> {
    let mut names = Names::default();
    let _ = statement.visit(&mut names);
    let is_mixed = !names.others.is_empty();
    match (names.catalog.first(), names.information.first()) {
        // What no table of the catalog is called will be told.
        (Some(_), _) if names.others.iter().all(|name| name.starts_with("pg_")) => {
            Ok(Some(Reads::Tables))
        }
        (Some(catalog), _) if is_mixed => {
            let other = names.others.first().map_or("", String::as_str);
            let message = format!(
                "a query of the system catalog (\"{catalog}\") cannot read \"{other}\" as well"
            );
            Err(Error::new("0A000", message))
        }
        (Some(_), _) => Ok(Some(Reads::Tables)),
        (None, Some(_)) => Ok((!is_mixed).then_some(Reads::Tables)),
        (None, None) => Ok((!is_mixed && names.has_function).then_some(Reads::Functions)),
    }
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.begin(query, false);
        let with = query.with.as_ref();
        let queries = with.iter().flat_map(|with| &with.cte_tables);
        let queries = queries.map(|cte| (&raw const *cte.query, bind::folded(&cte.alias.name)));
        self.with.push(With {
            queries: queries.collect(),
            is_recursive: with.is_some_and(|with| with.recursive),
            seen: 0,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.with.pop();
        self.begin(query, true);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table {
                name, args: None, ..
            } => self.table(name),
            TableFactor::Table {
                name,
                args: Some(arguments),
                ..
            } => self.function(name, arguments.args.len()),
            TableFactor::Function { name, args, .. } => self.function(name, args.len()),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(Function { name, args, .. }) => {
                let count = match args {
                    sqlparser::ast::FunctionArguments::List(list) => list.args.len(),
                    _ => 0,
                };
                self.function(name, count);
            }
            // They are written without brackets.
            Expr::Identifier(name) if name.quote_style.is_none() => {
                self.has_function |= bind::is_function(&name.value);
            }
            Expr::Cast { data_type, .. } => self.has_function |= is_reference(data_type),
            Expr::TypedString(string) => self.has_function |= is_reference(&string.data_type),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_reference(ty: &DataType) -> bool {
    Type::of_sql(ty).is_ok_and(|(ty, _)| ty.is_reference())
}

impl Names {
    /// A query of WITH sees the names of those before it, and its own if that is RECURSIVE; what follows sees its own, too.
    fn begin(&mut self, query: &Query, is_over: bool) {
        if let Some(with) = self.with.last_mut() {
            let mut queries = with.queries.iter();
            if let Some(place) = queries.position(|(at, _)| std::ptr::eq(*at, query)) {
                with.seen = place + usize::from(is_over || with.is_recursive);
            }
        }
    }

    fn is_of_with(&self, name: &str) -> bool {
        let mut seen = self.with.iter().flat_map(|with| &with.queries[..with.seen]);
        seen.any(|(_, found)| found == name)
    }

    fn table(&mut self, name: &ObjectName) {
        let Ok(path) = bind::path(name) else { return };
        let is_named = |schema: &str, name: &str| {
            DECLARED
                .iter()
                .any(|table| table.schema == schema && table.name == name)
        };
        match path.as_slice() {
            [name] if self.is_of_with(name) => return,
            [name] if Declared::named(None, name).is_some() => self.catalog.insert(name.clone()),
            [.., schema, name] if schema == "pg_catalog" => self.catalog.insert(name.clone()),
            // What PostgreSQL's does not have, the planner's may.
            [.., schema, name] if schema == "information_schema" && is_named(schema, name) => {
                self.information.insert(name.clone())
            }
            path => self.others.insert(path.join(".")),
        };
    }

    fn function(&mut self, name: &ObjectName, arguments: usize) {
        let Ok(path) = bind::path(name) else { return };
        let Some(last) = path.last() else { return };
        let rows = RowsFunction::named(last, arguments);
        self.has_function |= is_of_catalog(last)
            || last.starts_with("pg_")
            || path
                .first()
                .is_some_and(|schema| schema == "pg_catalog" && path.len() == 2)
            || rows.is_some_and(RowsFunction::is_of_catalog);
    }
}
