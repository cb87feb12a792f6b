//! The values outside that a subquery depends on, and the subquery for all of them at once.
//!
//! ```text
//! SELECT a.id, (S) FROM a          S refers to a.k
//! domain     SELECT DISTINCT a.k AS d FROM a
//! for all    the rows of S for each d, with a column d: joined with the tables of S, and then
//!              a filter, a projection   keep d
//!              GROUP BY g               groups by d and g
//!              an aggregate of all rows groups by d; a d without rows has the aggregate of none
//!              DISTINCT, DISTINCT ON    by d too
//!              a window                 is partitioned by d too
//!              LIMIT                    counts the rows of each d
//!              a join                   is of rows with equal d, if both sides depend on it
//!              the elements of lists    keep d
//! ```
//! Source: Neumann and Kemper, Unnesting Arbitrary Queries, BTW 2015.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, NullEquality, not_impl_err};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{
    Aggregate, Distinct, DistinctOn, Filter, Join, Limit, Projection, Sort, SubqueryAlias, Union,
    Unnest, Values, Window,
};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Operator, SortExpr, binary_expr, cast,
    lit,
};

use super::first_rows;
use super::references::{bound, refers};
use crate::rules::empty_subqueries::maybe_null;
use crate::rules::plan::schema_below;

/// Numbers, of which each is given once.
#[derive(Debug, Default)]
pub(super) struct Numbers(usize);

impl Numbers {
    pub(super) fn next(&mut self) -> usize {
        self.0 += 1;
        self.0
    }
}

/// The values of columns outside.
pub(super) struct Domain<'a> {
    /// Has a row with each combination that is asked for, perhaps others too.
    pub(super) outside: &'a LogicalPlan,
    pub(super) columns: &'a [Column],
    pub(super) numbers: &'a mut Numbers,
}

/// A plan for all values of the domain, and the number by which its columns of them are named.
pub(super) struct ForAll {
    pub(super) plan: LogicalPlan,
    pub(super) number: usize,
}

/// How the names of columns with values of the domain begin.
const VALUES: &str = "tierra_outer_";

/// The column of the value at a place, in a plan with this number.
pub(super) fn value(number: usize, place: usize) -> Column {
    Column::new_unqualified(format!("{VALUES}{number}_{place}"))
}

/// Whether a column of this name has values of the domain.
pub(crate) fn is_of_row_outside(column: &str) -> bool {
    column.starts_with(VALUES)
}

/// `one IS NOT DISTINCT FROM other`. A column may be NULL even if it does not say so: that of a subquery for one value without rows.
pub(super) fn same(one: Expr, other: Expr) -> Expr {
    binary_expr(one, Operator::IsNotDistinctFrom, other)
}

impl Domain<'_> {
    fn values(&self, number: usize) -> impl Iterator<Item = Expr> + use<> {
        (0..self.columns.len()).map(move |place| Expr::Column(value(number, place)))
    }

    /// The distinct values. The planner must not know that they are: it takes what determines them for a key of the rows that they
    /// are joined with, and groups by nothing else. Nor that none is NULL, if a subquery without rows may be one.
    fn rows(&mut self) -> Result<ForAll> {
        let number = self.numbers.next();
        let columns = self.columns.iter().enumerate();
        let columns = columns
            .map(|(place, column)| Expr::Column(column.clone()).alias(value(number, place).name));
        let values = self.values(number).enumerate();
        let values = values.map(|(place, it)| maybe_null(it).alias(value(number, place).name));
        let plan = LogicalPlanBuilder::from(self.outside.clone())
            .project(columns)?
            .distinct()?
            .project(values)?
            .build()?;
        Ok(ForAll { plan, number })
    }

    /// The values of one plan equal those of another.
    fn equal(&self, one: usize, other: usize) -> Vec<Expr> {
        let pairs = self.values(one).zip(self.values(other));
        pairs.map(|(one, other)| same(one, other)).collect()
    }

    fn bound(&self, expr: Expr, below: &DFSchema, number: usize) -> Result<Expr> {
        bound(expr, below, self.columns, &|place| value(number, place))
    }

    /// The expressions of `node`, bound, under their names.
    fn all_bound(&self, exprs: &[Expr], node: &LogicalPlan, number: usize) -> Result<Vec<Expr>> {
        let below = schema_below(node)?;
        let names = NamePreserver::new_for_projection();
        let exprs = exprs.iter().map(|expr| {
            let name = names.save(expr);
            Ok(name.restore(self.bound(expr.clone(), &below, number)?))
        });
        exprs.collect()
    }

    fn sorts_bound(
        &self,
        keys: &[SortExpr],
        node: &LogicalPlan,
        number: usize,
    ) -> Result<Vec<SortExpr>> {
        let below = schema_below(node)?;
        let keys = keys.iter().map(|key| {
            let expr = self.bound(key.expr.clone(), &below, number)?;
            Ok(SortExpr {
                expr,
                ..key.clone()
            })
        });
        keys.collect()
    }

    /// `plan` with the values, and `columns` under the names of `schema`.
    fn named(
        &self,
        plan: LogicalPlan,
        number: usize,
        columns: impl IntoIterator<Item = Expr>,
        schema: &DFSchema,
    ) -> Result<ForAll> {
        let named = columns.into_iter().zip(schema.iter());
        let named = named.map(|(column, (table, field))| {
            let has_its_name = matches!(&column, Expr::Column(it)
                if it.relation.as_ref() == table && it.name == *field.name());
            match has_its_name {
                true => column,
                false => column.alias_qualified(table.cloned(), field.name()),
            }
        });
        let columns: Vec<Expr> = self.values(number).chain(named).collect();
        let plan = Projection::try_new(columns, Arc::new(plan))?;
        Ok(ForAll {
            plan: LogicalPlan::Projection(plan),
            number,
        })
    }

    /// The rows of `plan` for all values.
    pub(super) fn for_all(&mut self, plan: &LogicalPlan) -> Result<ForAll> {
        if !refers(plan, self.columns)? {
            let rows = self.rows()?;
            let plan = LogicalPlanBuilder::from(rows.plan)
                .cross_join(plan.clone())?
                .build()?;
            return Ok(ForAll { plan, ..rows });
        }
        match plan {
            LogicalPlan::Projection(projection) => self.projection(projection, plan),
            LogicalPlan::Filter(filter) => self.filter(filter, plan),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, plan),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let ForAll { plan, number } = self.for_all(input)?;
                let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(plan)));
                Ok(ForAll { plan, number })
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct, plan),
            LogicalPlan::Window(window) => self.window(window, plan),
            LogicalPlan::Sort(Sort {
                expr,
                input,
                fetch: None,
            }) => {
                let input = self.for_all(input)?;
                let expr = self.sorts_bound(expr, plan, input.number)?;
                let plan = LogicalPlan::Sort(Sort {
                    expr,
                    input: Arc::new(input.plan),
                    fetch: None,
                });
                Ok(ForAll { plan, ..input })
            }
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Join(join) => self.join(join, plan),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            // LATERAL before which nothing stands.
            LogicalPlan::Subquery(subquery) => self.for_all(&subquery.subquery),
            LogicalPlan::Values(values) => self.for_all(&rows_apart(values)?),
            other => {
                let what = other.display().to_string();
                let what = what.split(':').next().unwrap_or_default();
                not_impl_err!(
                    "a subquery that refers to the row outside below {what}: write a join"
                )
            }
        }
    }

    fn projection(&mut self, projection: &Projection, plan: &LogicalPlan) -> Result<ForAll> {
        let input = self.for_all(&projection.input)?;
        let exprs = self.all_bound(&projection.expr, plan, input.number)?;
        let exprs = self.values(input.number).chain(exprs).collect();
        let plan = Projection::try_new(exprs, Arc::new(input.plan))?;
        Ok(ForAll {
            plan: LogicalPlan::Projection(plan),
            number: input.number,
        })
    }

    fn filter(&mut self, filter: &Filter, plan: &LogicalPlan) -> Result<ForAll> {
        let input = self.for_all(&filter.input)?;
        let below = schema_below(plan)?;
        let predicate = self.bound(filter.predicate.clone(), &below, input.number)?;
        let plan = Filter::try_new(predicate, Arc::new(input.plan))?;
        Ok(ForAll {
            plan: LogicalPlan::Filter(plan),
            number: input.number,
        })
    }

    fn alias(&mut self, alias: &SubqueryAlias) -> Result<ForAll> {
        let input = self.for_all(&alias.input)?;
        let columns = alias.input.schema().columns().into_iter().map(Expr::from);
        self.named(input.plan, input.number, columns, &alias.schema)
    }

    fn aggregate(&mut self, aggregate: &Aggregate, plan: &LogicalPlan) -> Result<ForAll> {
        let groups = &aggregate.group_expr;
        if matches!(groups.as_slice(), [Expr::GroupingSet(_)]) {
            return not_impl_err!(
                "a subquery that refers to the row outside below GROUPING SETS, CUBE or ROLLUP"
            );
        }
        let input = self.for_all(&aggregate.input)?;
        let number = input.number;
        let by = self.all_bound(groups, plan, number)?;
        let by = self.values(number).chain(by).collect();
        let aggregates = self.all_bound(&aggregate.aggr_expr, plan, number)?;
        let grouped = Aggregate::try_new(Arc::new(input.plan), by, aggregates)?;
        let columns = grouped.schema.columns().into_iter();
        let columns = columns.skip(self.columns.len()).map(Expr::from);
        let columns: Vec<Expr> = columns.collect();
        let plan = LogicalPlan::Aggregate(grouped);
        if !groups.is_empty() {
            return self.named(plan, number, columns, &aggregate.schema);
        }
        let grouped = self.named(plan, number, columns, &aggregate.schema)?;
        let all = self.rows()?;
        let equal = self.equal(all.number, grouped.number);
        let joined = LogicalPlanBuilder::from(all.plan)
            .join_on(grouped.plan, JoinType::Left, equal)?
            .build()?;
        let columns = aggregate.schema.columns().into_iter();
        let columns = columns.zip(&aggregate.aggr_expr).map(|(column, call)| {
            let ty = aggregate.schema.field_from_column(&column)?.data_type();
            let of_none = match call.clone().unalias() {
                Expr::AggregateFunction(call) => call.func.default_value(ty)?,
                _ => return not_impl_err!("the value of {call} for no rows"),
            };
            let column = Expr::Column(column);
            Ok(match of_none.is_null() {
                true => column,
                false => coalesce(vec![column, lit(of_none)]),
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.named(joined, all.number, columns, &aggregate.schema)
    }

    fn distinct_on(&mut self, distinct: &DistinctOn, plan: &LogicalPlan) -> Result<ForAll> {
        let input = self.for_all(&distinct.input)?;
        let number = input.number;
        let values = || self.values(number);
        let on = self.all_bound(&distinct.on_expr, plan, number)?;
        let on = values().chain(on).collect();
        let select = self.all_bound(&distinct.select_expr, plan, number)?;
        let select = values().chain(select).collect();
        let sort = match &distinct.sort_expr {
            Some(keys) => {
                let first = values().map(|it| it.sort(true, false));
                let keys = self.sorts_bound(keys, plan, number)?;
                Some(first.chain(keys).collect())
            }
            None => None,
        };
        let plan = DistinctOn::try_new(on, select, sort, Arc::new(input.plan))?;
        let columns = plan.schema.columns().into_iter().map(Expr::from);
        let columns: Vec<Expr> = columns.skip(self.columns.len()).collect();
        let plan = LogicalPlan::Distinct(Distinct::On(plan));
        self.named(plan, number, columns, &distinct.schema)
    }

    fn window(&mut self, window: &Window, plan: &LogicalPlan) -> Result<ForAll> {
        let input = self.for_all(&window.input)?;
        let number = input.number;
        let functions = self.all_bound(&window.window_expr, plan, number)?;
        let functions = functions
            .into_iter()
            .map(|function| match function.unalias() {
                Expr::WindowFunction(mut function) => {
                    let by = &mut function.params.partition_by;
                    *by = self.values(number).chain(std::mem::take(by)).collect();
                    Ok(Expr::WindowFunction(function))
                }
                other => not_impl_err!("{other} is no window function"),
            });
        let functions = functions.collect::<Result<Vec<_>>>()?;
        let count = window.window_expr.len();
        let computed = Window::try_new(functions, Arc::new(input.plan))?;
        let columns = computed.schema.columns();
        let computed_columns = columns[columns.len() - count..].iter().cloned();
        let kept = window.input.schema().columns().into_iter();
        let columns: Vec<Expr> = kept.chain(computed_columns).map(Expr::from).collect();
        self.named(
            LogicalPlan::Window(computed),
            number,
            columns,
            &window.schema,
        )
    }

    /// The first rows of each value. Where the rows are sorted, they are numbered in that order.
    fn limit(&mut self, limit: &Limit) -> Result<ForAll> {
        if let Some(plan) = first_rows::below_columns(limit)? {
            return self.for_all(&plan);
        }
        let (input, keys) = match limit.input.as_ref() {
            sort @ LogicalPlan::Sort(Sort {
                expr,
                input,
                fetch: None,
            }) => {
                let input = self.for_all(input)?;
                let keys = self.sorts_bound(expr, sort, input.number)?;
                (input, keys)
            }
            other => (self.for_all(other)?, Vec::new()),
        };
        let number = input.number;
        let function = row_number().partition_by(self.values(number).collect());
        let function = match keys.is_empty() {
            true => function.build()?,
            false => function.order_by(keys).build()?,
        };
        let row = Column::new_unqualified(function.schema_name().to_string());
        let kept = limit.input.schema().columns().into_iter().map(Expr::from);
        let kept: Vec<Expr> = self.values(number).chain(kept).collect();
        let plan = LogicalPlanBuilder::from(input.plan)
            .window([function])?
            .filter(first_rows::may_keep(limit, row.clone(), row))?
            .project(kept)?
            .build()?;
        Ok(ForAll { plan, number })
    }

    fn join(&mut self, join: &Join, plan: &LogicalPlan) -> Result<ForAll> {
        use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right, RightAnti, RightSemi};
        let [on_left, on_right] = [
            refers(&join.left, self.columns)?,
            refers(&join.right, self.columns)?,
        ];
        let below = schema_below(plan)?;
        let mut in_condition = false;
        let pairs = join.on.iter().flat_map(|(left, right)| [left, right]);
        for expr in pairs.chain(&join.filter) {
            in_condition |= self.bound(expr.clone(), &below, 0)? != *expr;
        }
        let keeps_left = matches!(join.join_type, Inner | Left | LeftSemi | LeftAnti);
        let keeps_right = matches!(join.join_type, Right | RightSemi | RightAnti);
        if !keeps_left && !keeps_right {
            return not_impl_err!(
                "a subquery that refers to the row outside below a {} JOIN",
                join.join_type
            );
        }
        // The side whose rows are kept has the values; the other one too, if it or the condition depends on them.
        let both = match join.join_type {
            Inner => on_left && on_right,
            _ if keeps_left => on_right || in_condition,
            _ => on_left || in_condition,
        };
        let has_left = both || keeps_left && (join.join_type != Inner || !on_right);
        let has_right = both || !has_left;
        let unchanged = |plan: &Arc<LogicalPlan>| plan.as_ref().clone();
        let (mut left, mut right) = (None, None);
        if has_left {
            left = Some(self.for_all(&join.left)?);
        }
        if has_right {
            right = Some(self.for_all(&join.right)?);
        }
        let mut terms = match (&left, &right) {
            (Some(left), Some(right)) => self.equal(left.number, right.number),
            _ => Vec::new(),
        };
        let kept = if keeps_right { &right } else { &left };
        let Some(number) = kept.as_ref().or(right.as_ref()).map(|side| side.number) else {
            return not_impl_err!("a join without the values outside");
        };
        let on = join.on.iter().map(|(one, other)| {
            let one = self.bound(one.clone(), &below, number)?;
            let other = self.bound(other.clone(), &below, number)?;
            Ok((one, other))
        });
        let mut on: Vec<(Expr, Expr)> = on.collect::<Result<_>>()?;
        if in_condition {
            // A key is of one side.
            let op = match join.null_equality {
                NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
                NullEquality::NullEqualsNothing => Operator::Eq,
            };
            let keys = std::mem::take(&mut on).into_iter();
            terms.extend(keys.map(|(one, other)| binary_expr(one, op, other)));
        }
        if let Some(condition) = &join.filter {
            terms.push(self.bound(condition.clone(), &below, number)?);
        }
        let left = left.map_or_else(|| unchanged(&join.left), |side| side.plan);
        let right = right.map_or_else(|| unchanged(&join.right), |side| side.plan);
        let joined = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(terms),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        let columns = join.schema.columns().into_iter().map(Expr::from);
        self.named(LogicalPlan::Join(joined), number, columns, &join.schema)
    }

    fn unnest(&mut self, unnest: &Unnest) -> Result<ForAll> {
        let input = self.for_all(&unnest.input)?;
        let lists = unnest.exec_columns.clone();
        let plan = LogicalPlanBuilder::from(input.plan)
            .unnest_columns_with_options(lists, unnest.options.clone())?
            .build()?;
        let columns = unnest.schema.columns().into_iter().map(Expr::from);
        self.named(plan, input.number, columns, &unnest.schema)
    }

    fn union(&mut self, union: &Union) -> Result<ForAll> {
        let number = self.numbers.next();
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let rows = self.for_all(input)?;
            let values = self.values(rows.number).enumerate();
            let values = values.map(|(place, it)| it.alias(value(number, place).name));
            let columns = input.schema().columns().into_iter().map(Expr::from);
            let columns: Vec<Expr> = values.chain(columns).collect();
            let plan = Projection::try_new(columns, Arc::new(rows.plan))?;
            inputs.push(Arc::new(LogicalPlan::Projection(plan)));
        }
        let all = Union::try_new_with_loose_types(inputs)?;
        let columns = all.schema.columns().into_iter().map(Expr::from);
        let columns: Vec<Expr> = columns.skip(self.columns.len()).collect();
        self.named(LogicalPlan::Union(all), number, columns, &union.schema)
    }
}

/// The rows of VALUES as the rows of one projection each.
fn rows_apart(values: &Values) -> Result<LogicalPlan> {
    let row = |row: &Vec<Expr>| {
        let columns = row.iter().zip(values.schema.fields());
        let columns = columns.map(|(expr, field)| {
            let typed = cast(expr.clone(), field.data_type().clone());
            typed.alias(field.name())
        });
        LogicalPlanBuilder::empty(true).project(columns)?.build()
    };
    let rows = values.values.iter().map(row).collect::<Result<Vec<_>>>()?;
    Ok(match <[LogicalPlan; 1]>::try_from(rows) {
        Ok([row]) => row,
        Err(rows) => {
            let rows = rows.into_iter().map(Arc::new).collect();
            LogicalPlan::Union(Union::try_new_with_loose_types(rows)?)
        }
    })
}
