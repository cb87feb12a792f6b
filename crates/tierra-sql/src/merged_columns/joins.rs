//! Plans joins with merged columns.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::DataType;
use datafusion::common::{
    Column, DFSchema, ExprSchema, JoinType, TableReference, internal_err, plan_err,
};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::sql::sqlparser::ast::{
    Expr as Written, JoinConstraint, ObjectName, TableFactor, TableWithJoins, Value,
};
use tierra_column::LogicalType;

use super::numbers::{Merging, constraint_of, merging};
use super::{Columns, Hidden, Known};
use crate::duplicate_names::invisible::{self, HIDDEN};
use crate::time::settled;
use crate::types::from_arrow;

/// The planner of joins that have a number, which notes their columns.
#[derive(Debug, Default)]
pub(super) struct MergingJoins(Mutex<Known>);

impl MergingJoins {
    /// The columns of the joins planned so far.
    pub(super) fn take(&self) -> Known {
        // Only whole entries are inserted.
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RelationPlanner for MergingJoins {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::NestedJoin {
            table_with_joins,
            alias,
        } = relation
        else {
            return original(relation);
        };
        let nested = |table_with_joins| TableFactor::NestedJoin {
            table_with_joins,
            alias: None,
        };
        if alias.is_some() {
            let plan = visible(context.plan(nested(table_with_joins))?)?;
            return planned(PlannedRelation::new(plan, alias));
        }
        let mut joined = *table_with_joins;
        let number = joined.joins.len();
        let last = joined.joins.iter_mut().enumerate().rev();
        let mut last = last.filter_map(|(place, join)| {
            let constraint = constraint_of(&mut join.join_operator)?;
            Some((place, merging(constraint)?, constraint))
        });
        let last = last.next();
        let Some((place, merging, constraint)) = last else {
            return original(nested(Box::new(joined)));
        };
        if place + 1 < number {
            let above = TableWithJoins {
                joins: joined.joins.split_off(place + 1),
                relation: nested(Box::new(joined)),
            };
            return original(nested(Box::new(above)));
        }
        *constraint = JoinConstraint::On(Written::Value(Value::Boolean(true).into()));
        let sides = context.plan(nested(Box::new(joined)))?;
        let LogicalPlan::Join(sides) = sides else {
            return internal_err!("a join is planned as {}", sides.display());
        };
        let plan = self.merged(sides, merging, context)?;
        planned(PlannedRelation::new(plan, None))
    }
}

fn original(relation: TableFactor) -> Result<RelationPlanning> {
    Ok(RelationPlanning::Original(Box::new(relation)))
}

fn planned(relation: PlannedRelation) -> Result<RelationPlanning> {
    Ok(RelationPlanning::Planned(Box::new(relation)))
}

impl MergingJoins {
    /// The join of two sides with merged columns.
    fn merged(
        &self,
        sides: Join,
        merging: Merging,
        context: &dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let (left, right) = (sides.left.schema().clone(), sides.right.schema().clone());
        let names: Vec<String> = match merging.names {
            Some(names) => {
                let name = |name: &_| name_in_using(name, context);
                names.iter().map(name).collect::<Result<_>>()?
            }
            None => {
                let names = left.fields().iter().map(|field| field.name());
                let shared = names.filter(|name| right.has_column_with_unqualified_name(name));
                let mut seen = HashSet::new();
                let first = shared.filter(|name| seen.insert(name.as_str()));
                first.cloned().collect()
            }
        };
        let mut pairs = Vec::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                return plan_err!("column '{name}' appears twice in USING");
            }
            pairs.push([
                only_column(name, &left, "left")?,
                only_column(name, &right, "right")?,
            ]);
        }
        if pairs.is_empty() {
            self.note(merging.number, Vec::new(), [&left, &right]);
            return Ok(LogicalPlan::Join(sides));
        }
        let join_type = sides.join_type;
        let equal = pairs.iter().cloned();
        let equal = equal.map(|[left, right]| Expr::Column(left).eq(Expr::Column(right)));
        let join = LogicalPlanBuilder::new_from_arc(sides.left)
            .join_on(Arc::unwrap_or_clone(sides.right), join_type, equal)?
            .build()?;

        if join.schema().fields().len() < left.fields().len() + right.fields().len() {
            // A semi-join or an anti-join has the columns of one side.
            self.note(merging.number, Vec::new(), [&left, &right]);
            return Ok(join);
        }
        let mark = |side| {
            let number = invisible::digits(2 * merging.number + side);
            format!("{HIDDEN}{number}{HIDDEN}")
        };
        let mut output = Vec::with_capacity(join.schema().fields().len());
        for (pair, name) in pairs.iter().zip(&names) {
            let types = [left.data_type(&pair[0])?, right.data_type(&pair[1])?];
            let [left, right] = in_common_type(pair, types);
            let merged = match join_type {
                JoinType::Inner | JoinType::Left => left,
                JoinType::Right => right,
                JoinType::Full => coalesce(vec![left, right]),
                other => return internal_err!("a {other} join has no merged columns"),
            };
            output.push(match merged {
                Expr::Column(_) => merged,
                // It belongs to no table that a reference may name.
                computed => {
                    let table = TableReference::bare(mark(0));
                    computed.alias_qualified(Some(table), name)
                }
            });
        }
        let merged = output.clone();
        let mut hidden = Vec::new();
        for (side, schema) in [&left, &right].into_iter().enumerate() {
            for column in schema.columns() {
                let is_merged = pairs.iter().any(|pair| pair[side] == column);
                match column.relation.clone() {
                    _ if !is_merged => output.push(Expr::Column(column)),
                    Some(table)
                        if !table.table().starts_with(HIDDEN)
                            && !merged.contains(&Expr::Column(column.clone())) =>
                    {
                        let name = format!("{}{}", column.name, mark(side));
                        hidden.push(Hidden {
                            table: table.clone(),
                            name: column.name.clone(),
                            hidden: name.clone(),
                        });
                        output.push(Expr::Column(column).alias_qualified(Some(table), name));
                    }
                    // It is the merged column, or nothing can refer to it.
                    _ => {}
                }
            }
        }
        self.note(merging.number, hidden, [&left, &right]);
        LogicalPlanBuilder::from(join).project(output)?.build()
    }

    fn note(&self, number: usize, hidden: Vec<Hidden>, sides: [&DFSchema; 2]) {
        let mut tables: Vec<(TableReference, Vec<String>)> = Vec::new();
        for (table, field) in sides.into_iter().flat_map(DFSchema::iter) {
            let Some(table) = table else { continue };
            match tables.iter_mut().find(|(known, _)| known == table) {
                Some((_, names)) => names.push(field.name().clone()),
                None => tables.push((table.clone(), vec![field.name().clone()])),
            }
        }
        let columns = Columns { hidden, tables };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(number, columns);
    }
}

/// The name of a column in USING.
fn name_in_using(name: &ObjectName, context: &dyn RelationPlannerContext) -> Result<String> {
    let ident = match name.0.as_slice() {
        [part] => part.as_ident(),
        _ => None,
    };
    match ident {
        Some(ident) => Ok(context.normalize_ident(ident.clone())),
        None => plan_err!("'{name}' in USING is not the name of a column"),
    }
}

/// The one column `name` of a side.
fn only_column(name: &str, schema: &DFSchema, side: &str) -> Result<Column> {
    let mut found = schema.columns_with_unqualified_name(name);
    match (found.pop(), found.is_empty()) {
        (Some(column), true) => Ok(column),
        (Some(_), false) => plan_err!(
            "column '{name}', by which a join merges, is there more than once on its {side} side: write ON {side}_table.{name} = .."
        ),
        (None, _) => {
            plan_err!("column '{name}' in USING is not a column of the {side} side of the join")
        }
    }
}

/// The columns of a pair, cast to the type that both have in common, if it is not their own.
fn in_common_type(pair: &[Column; 2], types: [&DataType; 2]) -> [Expr; 2] {
    let columns = pair.clone().map(Expr::Column);
    let Some((types, common)) = common_type(types) else {
        return columns;
    };
    let [left, right] = types;
    let [left_column, right_column] = columns;
    [(left_column, left), (right_column, right)].map(|(column, ty)| match ty == common {
        true => column,
        false => cast(column, common.clone()),
    })
}

/// The types of a column of a table for each of `types`, and the type in which such columns are compared. `None` if both are one,
/// if they cannot be compared, or if one is no type of a column, such as that of a parameter.
fn common_type(types: [&DataType; 2]) -> Option<([DataType; 2], DataType)> {
    use LogicalType::{Decimal, Double};
    let [left, right] = types.map(|ty| from_arrow("", ty).ok());
    let (left, right) = (left?, right?);
    if left == right {
        return None;
    }
    let types = [left.arrow(), right.arrow()];
    let common = match (left, right) {
        // DataFusion compares them as DECIMALs, which lose digits of the DOUBLE.
        (Double, Decimal { .. }) | (Decimal { .. }, Double) => DataType::Float64,
        _ => comparison_coercion(&types[0], &types[1])?,
    };
    // A DATE is compared with a TIMESTAMP in nanoseconds, until a rule makes them microseconds.
    let common = settled(&common).unwrap_or(common);
    Some((types, common))
}

/// `plan` with the columns that have a visible name.
fn visible(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns();
    if !columns.iter().any(|column| column.name.ends_with(HIDDEN)) {
        return Ok(plan);
    }
    let visible = columns.into_iter();
    let visible = visible.filter(|column| !column.name.ends_with(HIDDEN));
    LogicalPlanBuilder::from(plan)
        .project(visible.map(Expr::Column))?
        .build()
}
