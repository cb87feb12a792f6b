//! The table whose rows a statement changes, and the parts of a query about it.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{
    self, Assignment, AssignmentTarget, Expr, Ident, ObjectName, OutputClause, Query, SelectItem,
    SetExpr, TableFactor, TableWithJoins, With,
};
use tierra_engine::{Database, Table, row_id_field};

use super::{HELD, ROWS};
use crate::ddl::table_name;
use crate::error::{DefinitionError, SqlError};
use crate::list::call;
use crate::names::identifier;
use crate::rules::assign_to;
use crate::statement::every_row;
use crate::system_table;

/// The table whose rows change.
pub(super) struct Target {
    pub(super) table: Arc<Table>,
    pub(super) schema: SchemaRef,
    /// The name by which the statement refers to it.
    pub(super) alias: Ident,
}

impl Target {
    pub(super) fn of(from: &TableWithJoins, database: &Database) -> Result<Self, SqlError> {
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = &from.relation
        else {
            return Err(unsupported("a change of anything but a table"));
        };
        refuse_if(!from.joins.is_empty(), "a change of a join")?;
        let names = alias.as_ref().map(|alias| &alias.columns);
        let renames = names.is_some_and(|columns| !columns.is_empty());
        refuse_if(renames, "other names for the columns of a table to change")?;
        Self::named(name, alias.as_ref().map(|alias| &alias.name), database)
    }

    pub(super) fn named(
        name: &ObjectName,
        alias: Option<&Ident>,
        database: &Database,
    ) -> Result<Self, SqlError> {
        let known = table_name(name)?;
        let table = database.table(&known).ok_or_else(|| no_table(&known))?;
        let alias = alias.cloned();
        Ok(Self {
            schema: table.schema(),
            table,
            alias: alias.unwrap_or_else(|| quoted(&known)),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.table.spec().name
    }

    pub(super) fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.clone(), quoted(name)])
    }

    pub(super) fn row_id(&self) -> Expr {
        self.column(row_id_field(&self.schema).name())
    }

    /// The table with row ids, and `others`, as a FROM clause.
    pub(super) fn beside(&self, others: &[TableWithJoins]) -> Vec<TableWithJoins> {
        let target = self.in_schema(ROWS);
        std::iter::once(target)
            .chain(others.iter().cloned())
            .collect()
    }

    pub(super) fn in_schema(&self, schema: &str) -> TableWithJoins {
        TableWithJoins {
            relation: self.factor(schema, self.alias.clone()),
            joins: Vec::new(),
        }
    }

    /// The table of that name in `schema`, called `alias`.
    pub(super) fn factor(&self, schema: &str, alias: Ident) -> TableFactor {
        TableFactor::Table {
            name: ObjectName::from(vec![quoted(schema), quoted(self.name())]),
            alias: Some(ast::TableAlias {
                explicit: true,
                name: alias,
                columns: Vec::new(),
                at: None,
            }),
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        }
    }

    /// `value` with the mark that it goes into the column at `place`, whose function is added to `functions`.
    pub(super) fn marked(
        &self,
        value: Expr,
        place: usize,
        functions: &mut Vec<Arc<ScalarUDF>>,
    ) -> Expr {
        let name = format!("tierra_assign_{place}");
        if !functions.iter().any(|function| function.name() == name) {
            let field = Arc::clone(&self.schema.fields()[place]);
            functions.push(Arc::new(assign_to(name.clone(), self.name(), field)));
        }
        call(name, [value])
    }

    /// For each column of the table, the expression that is assigned to it, if any.
    pub(super) fn assigned(
        &self,
        assignments: &[Assignment],
    ) -> Result<Vec<Option<Expr>>, SqlError> {
        let mut values = vec![None; self.schema.fields().len()];
        let mut assign = |column: &ObjectName, value: &Expr| {
            let place = self.place_of(column)?;
            match values[place].replace(or_default(value)) {
                None => Ok(()),
                Some(_) => Err(plan_error(format!("column {column} is assigned twice"))),
            }
        };
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(column) => assign(column, value)?,
                AssignmentTarget::Tuple(columns) => {
                    let listed = match value {
                        Expr::Tuple(values) => values.as_slice(),
                        Expr::Nested(value) if columns.len() == 1 => std::slice::from_ref(&**value),
                        Expr::Subquery(_) => {
                            return Err(DefinitionError::UnsupportedFor {
                                what: "(columns) = (query)",
                                instead: "assign a query of its own to each column",
                            }
                            .into());
                        }
                        _ => &[],
                    };
                    if listed.len() != columns.len() {
                        return Err(plan_error(format!(
                            "{} columns are assigned, but {} values",
                            columns.len(),
                            listed.len()
                        )));
                    }
                    for (column, value) in columns.iter().zip(listed) {
                        assign(column, value)?;
                    }
                }
            }
        }
        Ok(values)
    }

    pub(super) fn place_of(&self, column: &ObjectName) -> Result<usize, SqlError> {
        let parts = column.0.iter().map(|part| part.as_ident());
        let parts: Option<Vec<&Ident>> = parts.collect();
        let name = match parts.as_deref() {
            Some([name]) => Some(identifier(name)),
            Some([table, name]) if identifier(table) == identifier(&self.alias) => {
                Some(identifier(name))
            }
            _ => None,
        };
        let place = name.and_then(|name| self.schema.index_of(&name).ok());
        place.ok_or_else(|| plan_error(format!("table '{}' has no column {column}", self.name())))
    }

    /// The query for RETURNING.
    pub(super) fn returning(
        &self,
        returning: Option<&Vec<SelectItem>>,
        output: Option<&OutputClause>,
    ) -> Result<Option<Box<ast::Statement>>, SqlError> {
        // Without WHERE the parser takes RETURNING for another database's clause.
        let items = match (returning, output) {
            (None, None) => return Ok(None),
            (Some(items), None) => items,
            (None, Some(OutputClause::Returning { select_items, .. })) => select_items,
            _ => return Err(unsupported("OUTPUT")),
        };
        let held = vec![self.in_schema(HELD)];
        Ok(Some(Box::new(query(None, items.clone(), held, None)?)))
    }
}

/// `SELECT projection FROM from WHERE selection`.
pub(super) fn query(
    with: Option<With>,
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<ast::Statement, SqlError> {
    let mut statement = every_row(&ObjectName::from(vec![Ident::new("t")]))?;
    let ast::Statement::Query(query) = &mut statement else {
        return Err(unsupported("the statement"));
    };
    let Query {
        with: withs, body, ..
    } = query.as_mut();
    *withs = with;
    if let SetExpr::Select(select) = body.as_mut() {
        (select.projection, select.from, select.selection) = (projection, from, selection);
    }
    Ok(statement)
}

pub(super) fn named(expr: Expr, alias: &str) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr,
        alias: quoted(alias),
    }
}

pub(super) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// `value`, or NULL for the word DEFAULT: no column has another default.
pub(super) fn or_default(value: &Expr) -> Expr {
    match value {
        Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
        {
            null()
        }
        value => value.clone(),
    }
}

pub(super) fn null() -> Expr {
    Expr::Value(ast::Value::Null.into())
}

pub(super) fn no_table(name: &str) -> SqlError {
    match system_table::is_name(name) {
        true => plan_error(format!(
            "'{name}' describes the database and cannot be changed"
        )),
        // In the planner's words, to which hints are added.
        false => plan_error(format!("table '{name}' not found")),
    }
}

pub(super) fn plan_error(text: String) -> SqlError {
    DataFusionError::Plan(text).into()
}

pub(super) fn unsupported(what: &str) -> SqlError {
    DefinitionError::Unsupported(what.to_string()).into()
}

pub(super) fn refuse_if(is_there: bool, what: &str) -> Result<(), SqlError> {
    match is_there {
        true => Err(unsupported(what)),
        false => Ok(()),
    }
}
