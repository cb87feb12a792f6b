//! MERGE, and INSERT .. ON CONFLICT, which is a MERGE of the inserted rows.
//!
//! ```text
//! SELECT t.row id, CASE WHEN clause 1 THEN 1 WHEN clause 2 THEN 2 .. END AS action,
//!        CASE action WHEN 1 THEN value .. END, ..             -- one for each column of t
//! FROM source LEFT JOIN t ON condition
//! ```
//! A clause is its predicate and whether t has a row. The first one that is true decides, and only its values are computed.
//!
//! Invariant: a row's action is decided once (`rules/action.rs`), be it by `random()`.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CaseWhen, ConflictTarget, DoUpdate, Expr, Ident, Join, JoinConstraint,
    JoinOperator, MergeAction, MergeClauseKind, MergeInsertKind, OnConflictAction, OnInsert,
    TableWithJoins, Visit, With,
};
use tierra_engine::Database;

use super::statement::{Change, ChangeStatement, Effect};
use super::target::{Target, named, null, or_default, plan_error, query, refuse_if, unsupported};
use super::{HELD, ROWS};
use crate::error::{DefinitionError, SqlError};
use crate::list::call;
use crate::names::identifier;
use crate::rules::{ACTION, action};
use crate::visit::visit_expressions;

/// What becomes of a row that a clause of MERGE is true for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowAction {
    Update,
    Delete,
    Insert,
}

/// What ON CONFLICT makes of the rows of an INSERT.
#[derive(Clone)]
pub(crate) struct Upsert {
    /// The query for row ids, actions and values, of the rows that the statement holds.
    pub(crate) query: ast::Statement,
    /// The plan of the query, of a prepared statement with parameters there, whose arguments it contains.
    pub(crate) plan: Option<LogicalPlan>,
    /// The functions that it calls, beside the session's.
    pub(crate) functions: Vec<Arc<ScalarUDF>>,
    pub(crate) actions: Vec<RowAction>,
    /// Whether rows with equal keys are an error: one would change a row that the other has just changed.
    pub(crate) updates: bool,
}

/// A clause of MERGE.
struct Clause {
    condition: Expr,
    action: RowAction,
    /// One per column of the table; empty for DELETE.
    values: Vec<Expr>,
}

/// A MERGE.
pub(super) fn of_merge(
    merge: &ast::Merge,
    with: Option<With>,
    database: &Database,
) -> Result<ChangeStatement, SqlError> {
    let ast::Merge {
        merge_token: _,
        optimizer_hints,
        into: _,
        table,
        source,
        on,
        clauses,
        output,
    } = merge;
    refuse_if(!optimizer_hints.is_empty(), "a hint /*+ .. */")?;
    refuse_if(output.is_some(), "RETURNING or OUTPUT of MERGE")?;
    let target = Target::of(
        &TableWithJoins {
            relation: table.clone(),
            joins: Vec::new(),
        },
        database,
    )?;
    let mut functions = vec![Arc::new(action())];
    let clauses = clauses.iter();
    let clauses = clauses.map(|clause| of_clause(clause, &target, &mut functions));
    let clauses = clauses.collect::<Result<Vec<Clause>, _>>()?;
    let actions = clauses.iter().map(|clause| clause.action).collect();
    let statement = merged(with, source.clone(), on.as_ref().clone(), &target, clauses)?;
    Ok(ChangeStatement {
        statement,
        functions,
        change: Change {
            table: target.table,
            effect: Effect::Merge,
            actions,
            upsert: None,
            returning: None,
        },
    })
}

fn of_clause(
    clause: &ast::MergeClause,
    target: &Target,
    functions: &mut Vec<Arc<ScalarUDF>>,
) -> Result<Clause, SqlError> {
    let is_matched = match clause.clause_kind {
        MergeClauseKind::Matched => true,
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => false,
        MergeClauseKind::NotMatchedBySource => {
            return Err(unsupported("WHEN NOT MATCHED BY SOURCE"));
        }
    };
    if !is_matched {
        let mut refers = clause
            .predicate
            .as_ref()
            .is_some_and(|condition| refers_to(target, condition));
        if let MergeAction::Insert(insert) = &clause.action {
            refers |= refers_to(target, insert);
        }
        if refers {
            return Err(plan_error(format!(
                "WHEN NOT MATCHED refers to table '{}', of which there is no row",
                identifier(&target.alias)
            )));
        }
    }
    let (action, values) = match (&clause.action, is_matched) {
        (MergeAction::Update(update), true) => {
            let refused = update.update_predicate.is_some() || update.delete_predicate.is_some();
            refuse_if(refused, "WHERE in a clause of MERGE")?;
            let values = updated(target, &update.assignments, functions)?;
            (RowAction::Update, values)
        }
        (MergeAction::Delete { .. }, true) => (RowAction::Delete, Vec::new()),
        (MergeAction::Insert(insert), false) => {
            refuse_if(
                insert.insert_predicate.is_some(),
                "WHERE in a clause of MERGE",
            )?;
            (RowAction::Insert, inserted(target, insert, functions)?)
        }
        (MergeAction::Insert(_), true) => {
            return Err(unsupported("INSERT for a row that is MATCHED"));
        }
        (_, false) => {
            return Err(unsupported(
                "UPDATE or DELETE for a row that is NOT MATCHED",
            ));
        }
    };
    Ok(Clause {
        condition: when(target, is_matched, clause.predicate.clone()),
        action,
        values,
    })
}

/// Whether a part of a statement names a column by the name of the target. In a subquery another table may have that name.
fn refers_to(target: &Target, part: &impl Visit) -> bool {
    let name = identifier(&target.alias);
    let (mut refers, mut has_query) = (false, false);
    let _ = visit_expressions(part, |expr| {
        match expr {
            Expr::CompoundIdentifier(parts) if parts.len() > 1 => {
                refers |= identifier(&parts[0]) == name;
            }
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => has_query = true,
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    refers && !has_query
}

/// The new values of a row.
fn updated(
    target: &Target,
    assignments: &[ast::Assignment],
    functions: &mut Vec<Arc<ScalarUDF>>,
) -> Result<Vec<Expr>, SqlError> {
    let assigned = target.assigned(assignments)?.into_iter().enumerate();
    let values = assigned.map(|(place, value)| match value {
        Some(value) => target.marked(value, place, functions),
        None => target.column(target.schema.field(place).name()),
    });
    Ok(values.collect())
}

/// The values of a new row.
fn inserted(
    target: &Target,
    insert: &ast::MergeInsertExpr,
    functions: &mut Vec<Arc<ScalarUDF>>,
) -> Result<Vec<Expr>, SqlError> {
    let MergeInsertKind::Values(values) = &insert.kind else {
        return Err(unsupported("INSERT ROW"));
    };
    let [row] = values.rows.as_slice() else {
        return Err(unsupported("several rows in INSERT of MERGE"));
    };
    let width = target.schema.fields().len();
    let places: Vec<usize> = match insert.columns.as_slice() {
        [] => (0..width).collect(),
        columns => {
            let places = columns.iter().map(|column| target.place_of(column));
            places.collect::<Result<_, _>>()?
        }
    };
    if row.content.len() != places.len() {
        return Err(plan_error(format!(
            "INSERT of MERGE names {} columns, but {} values",
            places.len(),
            row.content.len()
        )));
    }
    let mut all: Vec<Option<Expr>> = vec![None; width];
    for (place, value) in places.into_iter().zip(&row.content) {
        if all[place].replace(or_default(value)).is_some() {
            let column = target.schema.field(place).name();
            return Err(plan_error(format!("column {column} is assigned twice")));
        }
    }
    let values = all.into_iter().enumerate();
    let values =
        values.map(|(place, value)| target.marked(value.unwrap_or_else(null), place, functions));
    Ok(values.collect())
}

/// What ON CONFLICT makes of inserted rows; `None` if no key of the table can be taken.
pub(super) fn of_on_conflict(on: &OnInsert, target: &Target) -> Result<Option<Upsert>, SqlError> {
    let OnInsert::OnConflict(on) = on else {
        return Err(DefinitionError::UnsupportedFor {
            what: "ON DUPLICATE KEY UPDATE",
            instead: "ON CONFLICT DO UPDATE SET column = excluded.column",
        }
        .into());
    };
    let key = &target.table.spec().primary_key;
    match &on.conflict_target {
        None => {}
        Some(ConflictTarget::OnConstraint(_)) => return Err(unsupported("ON CONSTRAINT")),
        Some(ConflictTarget::Columns(columns)) => {
            let columns = columns.iter();
            let columns = columns.map(|column| target.place_of(&vec![column.clone()].into()));
            let mut columns = columns.collect::<Result<Vec<usize>, _>>()?;
            let mut key = key.clone();
            columns.sort_unstable();
            key.sort_unstable();
            if columns != key {
                return Err(plan_error(format!(
                    "ON CONFLICT names columns that are not the primary key of table '{}'",
                    target.name()
                )));
            }
        }
    }
    if key.is_empty() {
        return match on.action {
            OnConflictAction::DoNothing => Ok(None),
            OnConflictAction::DoUpdate(_) => Err(plan_error(format!(
                "ON CONFLICT DO UPDATE needs a primary key, which table '{}' does not have",
                target.name()
            ))),
        };
    }
    let excluded = Ident::new("excluded");
    let of_excluded =
        |name: &str| Expr::CompoundIdentifier(vec![excluded.clone(), Ident::with_quote('"', name)]);
    let fields = target.schema.fields();
    let mut functions = vec![Arc::new(action())];
    let mut clauses = Vec::new();
    let mut updates = false;
    if let OnConflictAction::DoUpdate(DoUpdate {
        assignments,
        selection,
    }) = &on.action
    {
        updates = true;
        clauses.push(Clause {
            condition: when(target, true, selection.clone()),
            action: RowAction::Update,
            values: updated(target, assignments, &mut functions)?,
        });
    }
    clauses.push(Clause {
        condition: when(target, false, None),
        action: RowAction::Insert,
        values: fields
            .iter()
            .map(|field| of_excluded(field.name()))
            .collect(),
    });
    let same_key = key.iter().map(|column| {
        let name = fields[*column].name();
        equal(of_excluded(name), target.column(name))
    });
    let Some(same_key) = same_key.reduce(both) else {
        return Ok(None);
    };
    let actions = clauses.iter().map(|clause| clause.action).collect();
    let source = target.factor(HELD, excluded.clone());
    Ok(Some(Upsert {
        query: merged(None, source, same_key, target, clauses)?,
        plan: None,
        functions,
        actions,
        updates,
    }))
}

/// The query for what becomes of the rows of `source` and of the target's rows that are joined with them.
fn merged(
    with: Option<With>,
    source: ast::TableFactor,
    on: Expr,
    target: &Target,
    clauses: Vec<Clause>,
) -> Result<ast::Statement, SqlError> {
    let inserts = clauses
        .iter()
        .any(|clause| clause.action == RowAction::Insert);
    let constraint = JoinConstraint::On(on);
    let from = TableWithJoins {
        relation: source,
        joins: vec![Join {
            relation: target.factor(ROWS, target.alias.clone()),
            global: false,
            join_operator: match inserts {
                true => JoinOperator::LeftOuter(constraint),
                false => JoinOperator::Inner(constraint),
            },
        }],
    };
    let number = |n: usize| Expr::Value(ast::Value::Number((n + 1).to_string(), false).into());
    let actions = clauses.iter().enumerate();
    let actions = actions.map(|(n, clause)| (clause.condition.clone(), number(n)));
    let action = case(None, actions.collect());
    let mut projection = vec![named(target.row_id(), "row"), named(action, "action")];
    if clauses.iter().any(|clause| !clause.values.is_empty()) {
        for place in 0..target.schema.fields().len() {
            let values = clauses.iter().enumerate().map(|(n, clause)| {
                let value = clause.values.get(place).cloned();
                (number(n), value.unwrap_or_else(null))
            });
            let value = case(Some(call(ACTION.to_string(), [])), values.collect());
            projection.push(named(value, &format!("value {place}")));
        }
    }
    query(with, projection, vec![from], None)
}

/// The condition of a clause.
fn when(target: &Target, is_matched: bool, predicate: Option<Expr>) -> Expr {
    let row_id = Box::new(target.row_id());
    let exists = match is_matched {
        true => Expr::IsNotNull(row_id),
        false => Expr::IsNull(row_id),
    };
    match predicate {
        Some(predicate) => both(exists, Expr::Nested(Box::new(predicate))),
        None => exists,
    }
}

fn case(operand: Option<Expr>, branches: Vec<(Expr, Expr)>) -> Expr {
    let branches = branches.into_iter();
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: operand.map(Box::new),
        conditions: branches
            .map(|(condition, result)| CaseWhen { condition, result })
            .collect(),
        else_result: None,
    }
}

fn both(left: Expr, right: Expr) -> Expr {
    binary(left, BinaryOperator::And, right)
}

fn equal(left: Expr, right: Expr) -> Expr {
    binary(left, BinaryOperator::Eq, right)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}
