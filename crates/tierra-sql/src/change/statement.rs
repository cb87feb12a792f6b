//! From a statement that changes rows to the query that finds and computes them.
//!
//! | statement | the query's columns |
//! |---|---|
//! | DELETE | the row id; every column of the table, if RETURNING needs them |
//! | UPDATE | the row id, the new value of every column |
//! | MERGE | the row id, what becomes of the row, new values of every column |
//! | INSERT | those of an INSERT, whose rows are held back; with ON CONFLICT then a MERGE of them |

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;
use datafusion::sql::sqlparser::ast::{
    self, Expr, FromTable, SetExpr, TableObject, UpdateTableFromKind, With,
};
use tierra_engine::{Database, Table, row_id_field};

use super::merge::{self, RowAction, Upsert};
use super::target::{Target, named, no_table, plan_error, query, refuse_if, unsupported};
use crate::ddl::table_name;
use crate::error::SqlError;
use crate::visit::visit_expressions;

/// A statement that changes rows, in the form in which it is planned.
pub(crate) struct ChangeStatement {
    /// The query, or an INSERT.
    pub(crate) statement: ast::Statement,
    /// The functions that the query calls, beside the session's.
    pub(crate) functions: Vec<Arc<ScalarUDF>>,
    pub(crate) change: Change,
}

/// What to do with the rows of the query.
#[derive(Clone)]
pub(crate) struct Change {
    pub(crate) table: Arc<Table>,
    pub(crate) effect: Effect,
    /// What the numbers of a MERGE's second column mean, from 1.
    pub(crate) actions: Vec<RowAction>,
    /// What becomes of the rows of an INSERT whose keys are taken.
    pub(crate) upsert: Option<Box<Upsert>>,
    /// The query for RETURNING, of the rows that the statement holds.
    pub(crate) returning: Option<Box<ast::Statement>>,
}

/// What becomes of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Insert,
    Update,
    Delete,
    Merge,
}

impl Effect {
    /// The first word of the statement.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Effect::Insert => "INSERT",
            Effect::Update => "UPDATE",
            Effect::Delete => "DELETE",
            Effect::Merge => "MERGE",
        }
    }
}

/// Whether a statement names a column of that name.
fn names(statement: &ast::Statement, column: &str) -> bool {
    let found = visit_expressions(statement, |expr| {
        let name = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        match name.is_some_and(|name| name.value == column) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    found.is_break()
}

impl ChangeStatement {
    /// `statement`, if it changes rows in another way than a plain INSERT.
    ///
    /// # Errors
    /// If it has a clause that is not supported, or names an unknown table or column.
    pub(crate) fn of(
        statement: &ast::Statement,
        database: &Database,
    ) -> Result<Option<Self>, SqlError> {
        let (statement, with) = match statement {
            ast::Statement::Query(query) => match query.body.as_ref() {
                SetExpr::Update(inner) | SetExpr::Delete(inner) | SetExpr::Merge(inner) => {
                    (inner, query.with.clone())
                }
                _ => return Ok(None),
            },
            other => (other, None),
        };
        let change = match statement {
            ast::Statement::Update(update) => Self::update(update, with, database).map(Some),
            ast::Statement::Delete(delete) => Self::delete(delete, with, database).map(Some),
            ast::Statement::Merge(merge) => merge::of_merge(merge, with, database).map(Some),
            ast::Statement::Insert(insert) => Self::insert(insert, database),
            _ => Ok(None),
        }?;
        // What an INSERT reads has no such column.
        if let Some(Self { change, .. }) = &change
            && !matches!(statement, ast::Statement::Insert(_))
        {
            let row_id = row_id_field(&change.table.schema());
            if names(statement, row_id.name()) {
                let table = &change.table.spec().name;
                return Err(plan_error(format!(
                    "table '{table}' has no column \"{}\"",
                    row_id.name()
                )));
            }
        }
        Ok(change)
    }

    fn update(
        update: &ast::Update,
        with: Option<With>,
        database: &Database,
    ) -> Result<Self, SqlError> {
        let ast::Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        refuse_if(!optimizer_hints.is_empty(), "a hint /*+ .. */")?;
        refuse_if(or.is_some(), "UPDATE OR ..")?;
        refuse_if(!order_by.is_empty(), "ORDER BY of UPDATE")?;
        refuse_if(limit.is_some(), "LIMIT of UPDATE")?;
        let target = Target::of(table, database)?;
        let others = match from {
            Some(UpdateTableFromKind::BeforeSet(tables)) => tables.as_slice(),
            Some(UpdateTableFromKind::AfterSet(tables)) => tables.as_slice(),
            None => &[],
        };
        let values = target.assigned(assignments)?;
        let mut functions = Vec::new();
        let mut projection = vec![named(target.row_id(), "row")];
        for (place, (value, field)) in values.into_iter().zip(target.schema.fields()).enumerate() {
            let value = match value {
                Some(value) => target.marked(value, place, &mut functions),
                None => target.column(field.name()),
            };
            projection.push(named(value, &format!("value {place}")));
        }
        let returning = target.returning(returning.as_ref(), output.as_ref())?;
        Ok(Self {
            statement: query(with, projection, target.beside(others), selection.clone())?,
            functions,
            change: Change {
                table: target.table,
                effect: Effect::Update,
                actions: Vec::new(),
                upsert: None,
                returning,
            },
        })
    }

    fn delete(
        delete: &ast::Delete,
        with: Option<With>,
        database: &Database,
    ) -> Result<Self, SqlError> {
        let ast::Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from: FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from),
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        refuse_if(!optimizer_hints.is_empty(), "a hint /*+ .. */")?;
        refuse_if(!tables.is_empty(), "DELETE table FROM ..")?;
        refuse_if(!order_by.is_empty(), "ORDER BY of DELETE")?;
        refuse_if(limit.is_some(), "LIMIT of DELETE")?;
        let [table] = from.as_slice() else {
            return Err(unsupported("DELETE FROM more than one table"));
        };
        let target = Target::of(table, database)?;
        let others = using.as_deref().unwrap_or_default();
        let returning = target.returning(returning.as_ref(), output.as_ref())?;
        let mut projection = vec![named(target.row_id(), "row")];
        if returning.is_some() {
            let columns = target.schema.fields().iter().enumerate();
            projection.extend(columns.map(|(place, field)| {
                named(target.column(field.name()), &format!("value {place}"))
            }));
        }
        Ok(Self {
            statement: query(with, projection, target.beside(others), selection.clone())?,
            functions: Vec::new(),
            change: Change {
                table: target.table,
                effect: Effect::Delete,
                actions: Vec::new(),
                upsert: None,
                returning,
            },
        })
    }

    /// An INSERT with RETURNING, ON CONFLICT or another name for the table; other INSERTs write while they read.
    fn insert(insert: &ast::Insert, database: &Database) -> Result<Option<Self>, SqlError> {
        let is_plain = insert.returning.is_none()
            && insert.output.is_none()
            && insert.on.is_none()
            && insert.table_alias.is_none();
        if is_plain {
            return Ok(None);
        }
        let TableObject::TableName(name) = &insert.table else {
            return Err(unsupported("INSERT into anything but a table"));
        };
        let alias = insert.table_alias.as_ref().map(|alias| &alias.alias);
        let target = Target::named(name, alias, database)?;
        let upsert = match &insert.on {
            Some(on) => merge::of_on_conflict(on, &target)?,
            None => None,
        };
        let returning = target.returning(insert.returning.as_ref(), insert.output.as_ref())?;
        let mut plain = insert.clone();
        (plain.returning, plain.output, plain.on, plain.table_alias) = (None, None, None, None);
        Ok(Some(Self {
            statement: ast::Statement::Insert(plain),
            functions: Vec::new(),
            change: Change {
                table: target.table,
                effect: Effect::Insert,
                actions: Vec::new(),
                upsert: upsert.map(Box::new),
                returning,
            },
        }))
    }
}

/// The tables of a TRUNCATE, each once.
///
/// # Errors
/// If it has a clause that is not supported, or names an unknown table.
pub(crate) fn truncated(
    truncate: &ast::Truncate,
    database: &Database,
) -> Result<Vec<Arc<Table>>, SqlError> {
    let ast::Truncate {
        table_names,
        partitions,
        table: _,
        if_exists,
        identity,
        cascade,
        on_cluster,
    } = truncate;
    refuse_if(partitions.is_some(), "TRUNCATE .. PARTITION")?;
    refuse_if(on_cluster.is_some(), "TRUNCATE .. ON CLUSTER")?;
    let restarts = matches!(identity, Some(ast::TruncateIdentityOption::Restart));
    refuse_if(restarts, "TRUNCATE .. RESTART IDENTITY")?;
    let cascades = matches!(cascade, Some(ast::CascadeOption::Cascade));
    refuse_if(cascades, "TRUNCATE .. CASCADE")?;
    let mut tables: Vec<Arc<Table>> = Vec::with_capacity(table_names.len());
    for target in table_names {
        let name = table_name(&target.name)?;
        let table = match database.table(&name) {
            None if *if_exists => continue,
            None => return Err(no_table(&name)),
            Some(table) => table,
        };
        if !tables.iter().any(|other| Arc::ptr_eq(other, &table)) {
            tables.push(table);
        }
    }
    Ok(tables)
}
