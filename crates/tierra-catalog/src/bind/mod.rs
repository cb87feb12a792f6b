//! From syntax to plans: what each name means, and of which type each value is.

mod access;
mod call;
mod coerce;
mod column_name;
mod expression;
mod from;
mod many;
mod operator;
mod query;
mod select;
mod with;

pub(crate) use self::expression::is_function;

use std::sync::Arc;

use sqlparser::ast::{Ident, ObjectName};

use crate::error::{Error, Result};
use crate::expression::Expr;
use crate::functions::RowsFunction;
use crate::plan::{Aggregate, Column, Item, Plan, Window};
use crate::types::Type;

/// The deepest nesting of expressions.
const DEPTH_MOST: usize = 200;
/// The most parts that the expressions of a query may have, with those that are there several times.
const PARTS_MOST: usize = 1 << 18;
/// The most items of a FROM: a bit each.
const ITEMS_MOST: usize = 60;

/// An expression and its type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: Type,
    /// Those of a record.
    pub(crate) fields: Vec<Column>,
}

impl Typed {
    fn new(expr: Expr, ty: Type) -> Self {
        Self {
            expr,
            ty,
            fields: Vec::new(),
        }
    }

    fn bool(expr: Expr) -> Self {
        Self::new(expr, Type::BOOL)
    }
}

/// The name of an item of FROM, and its columns.
struct ItemNames {
    schema: Option<String>,
    name: String,
    columns: Vec<Column>,
    /// The table of the catalog that it is: its number is a column as well.
    is_table: bool,
}

/// A column that can be named alone.
#[derive(Clone)]
struct Visible {
    name: String,
    typed: Typed,
}

/// What may be named in a SELECT.
#[derive(Default)]
struct Scope {
    names: Vec<ItemNames>,
    items: Vec<Item>,
    visible: Vec<Visible>,
    /// The items that were named since it was last looked at, a bit each.
    touched: u64,
    /// Whether it is not seen from within: a subquery in FROM that is not LATERAL is bound.
    is_hidden: bool,
    /// Whether columns of a query around it are named.
    is_correlated: bool,
    /// Whether aggregates, window functions and functions that return rows may stand here.
    allows_aggregates: bool,
    allows_rows: bool,
    in_aggregate: bool,
    keys: Vec<Expr>,
    /// The columns that were named outside aggregates and not as part of a key.
    loose: Vec<(usize, usize)>,
    aggregates: Vec<Aggregate>,
    windows: Vec<Window>,
    row_functions: Vec<(RowsFunction, Vec<Expr>)>,
    rows_width: usize,
}

/// A query of WITH.
struct Named {
    name: String,
    columns: Vec<Column>,
    plan: Arc<Plan>,
    /// How many queries are around it.
    home: usize,
}

/// Makes plans.
pub(crate) struct Binder {
    /// The types of the parameters, as far as they are known.
    pub(crate) parameters: Vec<Option<Type>>,
    scopes: Vec<Scope>,
    /// The outermost query whose columns were named since it was last looked at.
    outermost: usize,
    named: Vec<Named>,
    recursions: usize,
    depth: usize,
    /// The parts of expressions that were made.
    made: usize,
    /// How many columns of queries around were named.
    outer_names: usize,
}

impl Binder {
    pub(crate) fn new(parameters: Vec<Option<Type>>) -> Self {
        Self {
            parameters,
            scopes: Vec::new(),
            outermost: usize::MAX,
            named: Vec::new(),
            recursions: 0,
            depth: 0,
            made: 0,
            outer_names: 0,
        }
    }

    /// Counts parts of expressions.
    fn make(&mut self, parts: usize) -> Result<()> {
        self.made = self.made.saturating_add(parts);
        match self.made <= PARTS_MOST {
            true => Ok(()),
            false => Err(Error::new(
                "54001",
                "the expressions of the query have too many parts",
            )),
        }
    }

    /// Counts the parts that were made since there were `before`, which are copied so many times.
    fn copied(&mut self, before: usize, times: usize) -> Result<()> {
        self.make((self.made - before).saturating_mul(times))
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes
            .last_mut()
            .expect("names are bound within a query")
    }

    /// What a name means: a column of this query, or else of the nearest one around it that has it.
    fn column(&mut self, path: &[String]) -> Result<Typed> {
        let innermost = self.scopes.len();
        for place in (0..innermost).rev() {
            let up = innermost - 1 - place;
            let scope = &self.scopes[place];
            if scope.is_hidden {
                continue;
            }
            let Some(mut found) = scope.find(path)? else {
                continue;
            };
            let mut columns = Vec::new();
            lift(&mut found.expr, up, &mut columns);
            let scope = &mut self.scopes[place];
            scope.touched |= columns.iter().fold(0, |mask, (item, _)| mask | 1 << item);
            if !scope.in_aggregate {
                scope.loose.extend(columns);
            }
            if up > 0 {
                self.outer_names += 1;
                self.outermost = self.outermost.min(place);
                self.scopes[place + 1..]
                    .iter_mut()
                    .for_each(|scope| scope.is_correlated = true);
            }
            return Ok(found);
        }
        Err(match path {
            [item, ..] if path.len() > 1 && !self.has_item(item) => Error::new(
                "42P01",
                format!("missing FROM-clause entry for table \"{item}\""),
            ),
            path => Error::new(
                "42703",
                format!("column \"{}\" does not exist", path.join(".")),
            ),
        })
    }

    fn has_item(&self, name: &str) -> bool {
        self.scopes
            .iter()
            .any(|scope| scope.names.iter().any(|item| item.name == name))
    }
}

impl Scope {
    fn find(&self, path: &[String]) -> Result<Option<Typed>> {
        let ambiguous =
            |name: &str| Error::new("42702", format!("column reference \"{name}\" is ambiguous"));
        let (schema, item, name) = match path {
            [name] => {
                let mut found = self.visible.iter().filter(|visible| visible.name == *name);
                let first = found.next();
                if found.next().is_some() {
                    return Err(ambiguous(name));
                }
                if first.is_none() && name == "tableoid" && self.names.len() == 1 {
                    return self.names[0].find(0, name, ambiguous);
                }
                return Ok(first.map(|visible| visible.typed.clone()));
            }
            [item, name] => (None, item, name),
            [schema, item, name] => (Some(schema), item, name),
            // The database is not looked at.
            [_, schema, item, name] => (Some(schema), item, name),
            _ => return Ok(None),
        };
        let mut items = self.names.iter().enumerate().filter(|(_, names)| {
            names.name == *item && (schema.is_none() || names.schema.as_ref() == schema)
        });
        match items.next() {
            Some((place, names)) => names.find(place, name, ambiguous),
            None => Ok(None),
        }
    }
}

impl ItemNames {
    fn find(
        &self,
        item: usize,
        name: &str,
        ambiguous: impl Fn(&str) -> Error,
    ) -> Result<Option<Typed>> {
        let mut found = self
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.name == name);
        let first = found.next();
        if found.next().is_some() {
            return Err(ambiguous(name));
        }
        Ok(match first {
            Some((column, found)) => Some(found.at(item, column)),
            None if name == "tableoid" && self.is_table => {
                let column = self.columns.len();
                Some(Typed::new(Expr::column(item, column), Type::OID))
            }
            None => None,
        })
    }
}

impl Column {
    /// It, as a column of an item.
    fn at(&self, item: usize, column: usize) -> Typed {
        Typed {
            expr: Expr::column(item, column),
            ty: self.ty,
            fields: self.fields.clone(),
        }
    }
}

/// Makes a column of its query one of a query `up` levels around. Only columns and what joins make of them come here.
fn lift(expr: &mut Expr, up: usize, columns: &mut Vec<(usize, usize)>) {
    match expr {
        Expr::Column {
            up: own,
            item,
            column,
        } => {
            *own = up;
            columns.push((*item, *column));
        }
        Expr::Coalesce(parts) => parts.iter_mut().for_each(|part| lift(part, up, columns)),
        Expr::Cast(_, inner) => lift(inner, up, columns),
        _ => {}
    }
}

/// A name as SQL folds it.
pub(crate) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a name.
pub(crate) fn path(name: &ObjectName) -> Result<Vec<String>> {
    let parts = name.0.iter().map(|part| {
        let ident = part.as_ident().ok_or_else(|| Error::unsupported(name))?;
        Ok(folded(ident))
    });
    parts.collect()
}
