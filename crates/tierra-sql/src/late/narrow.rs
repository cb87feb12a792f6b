//! Narrowing: a plan carries row ids instead of columns that no operator below its root reads. The operator that takes
//! a few of its rows reads these columns later.
//!
//! ```text
//! TopK [price]                    TopK [price]
//!   HashJoin [customer]             HashJoin [customer]
//!     Scan c [customer, name, ..]     Scan c [customer, row id]
//!     Scan o [customer, price, ..]    Scan o [customer, price, row id]
//! ```
//! Invariant: the narrowed plan yields the rows of the original plan, in its order. A column is either among its columns
//! or belongs to a row whose id is. Where an outer join makes NULLs of columns, it makes NULLs of ids.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinSide, JoinType, internal_err};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use super::RowSource;
use crate::scan::TierraScanExec;
use crate::tree::TreeNode;

/// Where a column of the original plan comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnSource {
    /// A column of the narrowed plan.
    Early(usize),
    /// The column `column` of the rows of `sources[source]`.
    Late { source: usize, column: usize },
}

/// A table some of whose columns are read later.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) source: RowSource,
    /// The narrowed plan's column of row ids.
    pub(super) ids: usize,
}

/// A plan that carries row ids.
#[derive(Debug)]
pub(super) struct Narrowed {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// One for each column of the original plan.
    pub(super) columns: Vec<ColumnSource>,
    /// Empty if the plan is unchanged.
    pub(super) sources: Vec<Carried>,
}

impl Narrowed {
    fn unchanged(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self {
            plan: Arc::clone(plan),
            columns: (0..width(plan)).map(ColumnSource::Early).collect(),
            sources: Vec::new(),
        }
    }

    fn is_unchanged(&self) -> bool {
        self.sources.is_empty()
    }

    /// The narrowed plan's index of the original column `column`, which must have been wanted.
    fn early(&self, column: usize) -> Result<usize> {
        match self.columns[column] {
            ColumnSource::Early(at) => Ok(at),
            ColumnSource::Late { .. } => {
                internal_err!("column {column} is read before it is fetched")
            }
        }
    }

    /// `expr`, which refers to the original plan, for the narrowed plan.
    fn rewrite(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = self.plan.schema();
        let rewritten = Arc::clone(expr).transform_down(|expr| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            let at = self.early(column.index())?;
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(at).name(), at));
            Ok(Transformed::yes(column))
        });
        Ok(rewritten?.data)
    }
}

/// Replaces columns of `plan` by row ids if they are not `wanted` (one flag per column) and no operator below reads them.
/// A scan does so if `agrees` returns `true` for it and these columns of its table.
pub(super) fn narrow(
    plan: &Arc<dyn ExecutionPlan>,
    wanted: &[bool],
    agrees: &dyn Fn(&TierraScanExec, &[usize]) -> Result<bool>,
) -> Result<Narrowed> {
    if let Some(scan) = plan.downcast_ref::<TierraScanExec>() {
        narrow_scan(plan, scan, wanted, agrees)
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        narrow_filter(plan, filter, wanted, agrees)
    } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        narrow_projection(plan, projection, wanted, agrees)
    } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        narrow_join(plan, join, wanted, agrees)
    } else if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let child = narrow(sort.input(), &with_ordering(wanted, sort.expr()), agrees)?;
        let order = |child: &Narrowed| {
            let sorted = SortExec::new(ordering(child, sort.expr())?, Arc::clone(&child.plan))
                .with_preserve_partitioning(sort.preserve_partitioning())
                .with_fetch(sort.fetch());
            Ok(Arc::new(sorted) as Arc<dyn ExecutionPlan>)
        };
        same_columns(plan, child, order)
    } else if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        let child = narrow(merge.input(), &with_ordering(wanted, merge.expr()), agrees)?;
        // Its input may be sorted only by an equality that a filter below implies. Not every rewritten plan keeps that.
        let is_sorted = |order: LexOrdering| {
            let known = child.plan.properties().equivalence_properties();
            known.ordering_satisfy(order)
        };
        if !is_sorted(ordering(&child, merge.expr())?)? {
            return Ok(Narrowed::unchanged(plan));
        }
        let order = |child: &Narrowed| {
            let order = ordering(child, merge.expr())?;
            let merged = SortPreservingMergeExec::new(order, Arc::clone(&child.plan));
            Ok(Arc::new(merged.with_fetch(merge.fetch())) as Arc<dyn ExecutionPlan>)
        };
        same_columns(plan, child, order)
    } else if let Some((repartition, keys)) = hashed(plan) {
        let mut below = wanted.to_vec();
        keys.iter().for_each(|key| want_columns_of(key, &mut below));
        let child = narrow(repartition.input(), &below, agrees)?;
        same_columns(plan, child, |child| {
            let keys = keys.iter().map(|key| child.rewrite(key));
            let partitions = repartition.partitioning().partition_count();
            let partitioning = Partitioning::Hash(keys.collect::<Result<_>>()?, partitions);
            let input = Arc::clone(&child.plan);
            Ok(Arc::new(RepartitionExec::try_new(input, partitioning)?))
        })
    } else if reads_no_column(plan) {
        let child = narrow(plan.children()[0], wanted, agrees)?;
        same_columns(plan, child, |child| {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(plan).replace_children(vec![Arc::clone(&child.plan)], options)
        })
    } else {
        Ok(Narrowed::unchanged(plan))
    }
}

fn width(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.schema().fields().len()
}

/// An operator that distributes rows by the hash of these keys.
fn hashed(plan: &Arc<dyn ExecutionPlan>) -> Option<(&RepartitionExec, &[Arc<dyn PhysicalExpr>])> {
    let repartition = plan.downcast_ref::<RepartitionExec>()?;
    match repartition.partitioning() {
        Partitioning::Hash(keys, _) if !repartition.preserve_order() => Some((repartition, keys)),
        _ => None,
    }
}

/// Operators that pass on the rows of their only input and read none of their columns.
fn reads_no_column(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        return matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_))
            && !repartition.preserve_order();
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        return limit.required_ordering().is_none();
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return limit.required_ordering().is_none();
    }
    plan.is::<CoalescePartitionsExec>()
}

/// For an operator whose columns are those of its input.
fn same_columns(
    plan: &Arc<dyn ExecutionPlan>,
    child: Narrowed,
    rebuild: impl FnOnce(&Narrowed) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Narrowed> {
    if child.is_unchanged() {
        return Ok(Narrowed::unchanged(plan));
    }
    let plan = rebuild(&child)?;
    Ok(Narrowed { plan, ..child })
}

fn with_ordering(wanted: &[bool], order: &LexOrdering) -> Vec<bool> {
    let mut wanted = wanted.to_vec();
    for sort in order.iter() {
        want_columns_of(&sort.expr, &mut wanted);
    }
    wanted
}

fn want_columns_of(expr: &Arc<dyn PhysicalExpr>, wanted: &mut [bool]) {
    for column in collect_columns(expr) {
        wanted[column.index()] = true;
    }
}

fn ordering(child: &Narrowed, order: &LexOrdering) -> Result<LexOrdering> {
    let sorts = order.iter().map(|sort| {
        Ok(PhysicalSortExpr::new(
            child.rewrite(&sort.expr)?,
            sort.options,
        ))
    });
    match LexOrdering::new(sorts.collect::<Result<Vec<_>>>()?) {
        Some(order) => Ok(order),
        None => internal_err!("an ordering by nothing"),
    }
}

fn narrow_scan(
    plan: &Arc<dyn ExecutionPlan>,
    scan: &TierraScanExec,
    wanted: &[bool],
    agrees: &dyn Fn(&TierraScanExec, &[usize]) -> Result<bool>,
) -> Result<Narrowed> {
    if scan.tells_row_ids() {
        return Ok(Narrowed::unchanged(plan));
    }
    let projection = scan.projection();
    let late: Vec<usize> = (0..wanted.len())
        .filter(|column| !wanted[*column])
        .map(|column| projection[column])
        .collect();
    if late.is_empty() || !agrees(scan, &late)? {
        return Ok(Narrowed::unchanged(plan));
    }
    let mut kept = Vec::new();
    let mut columns = Vec::with_capacity(wanted.len());
    for (column, wanted) in projection.iter().zip(wanted) {
        columns.push(if *wanted {
            kept.push(*column);
            ColumnSource::Early(kept.len() - 1)
        } else {
            ColumnSource::Late {
                source: 0,
                column: *column,
            }
        });
    }
    let ids = kept.len();
    Ok(Narrowed {
        plan: Arc::new(scan.with_row_ids(kept)?),
        columns,
        sources: vec![Carried {
            source: scan.source(),
            ids,
        }],
    })
}

fn narrow_filter(
    plan: &Arc<dyn ExecutionPlan>,
    filter: &FilterExec,
    wanted: &[bool],
    agrees: &dyn Fn(&TierraScanExec, &[usize]) -> Result<bool>,
) -> Result<Narrowed> {
    let output: Vec<usize> = match filter.projection() {
        Some(projection) => projection.to_vec(),
        None => (0..width(filter.input())).collect(),
    };
    let mut below = vec![false; width(filter.input())];
    for (column, wanted) in output.iter().zip(wanted) {
        below[*column] |= *wanted;
    }
    want_columns_of(filter.predicate(), &mut below);
    let child = narrow(filter.input(), &below, agrees)?;
    if child.is_unchanged() {
        return Ok(Narrowed::unchanged(plan));
    }
    let mut yielded = Yielded::default();
    for column in &output {
        yielded.push(child.columns[*column], 0, 0);
    }
    yielded.push_sources(&child.sources, 0);
    // A projection would lose the equalities that the filter implies.
    let is_all = yielded.projection.iter().copied().eq(0..width(&child.plan));
    let projection = (!is_all).then_some(yielded.projection);
    let narrowed = FilterExecBuilder::new(child.rewrite(filter.predicate())?, child.plan)
        .apply_projection(projection)?
        .with_default_selectivity(filter.default_selectivity())
        .with_batch_size(filter.batch_size())
        .with_fetch(filter.fetch())
        .build()?;
    Ok(Narrowed {
        plan: Arc::new(narrowed),
        columns: yielded.columns,
        sources: yielded.sources,
    })
}

fn narrow_projection(
    plan: &Arc<dyn ExecutionPlan>,
    projection: &ProjectionExec,
    wanted: &[bool],
    agrees: &dyn Fn(&TierraScanExec, &[usize]) -> Result<bool>,
) -> Result<Narrowed> {
    let input = projection.input();
    let mut below = vec![false; width(input)];
    for (computed, wanted) in projection.expr().iter().zip(wanted) {
        match computed.expr.downcast_ref::<Column>() {
            Some(column) => below[column.index()] |= *wanted,
            None => want_columns_of(&computed.expr, &mut below),
        }
    }
    let mut child = narrow(input, &below, agrees)?;
    if child.is_unchanged() {
        return Ok(Narrowed::unchanged(plan));
    }
    let mut exprs = Vec::new();
    let mut columns = Vec::with_capacity(wanted.len());
    for computed in projection.expr() {
        if let Some(column) = computed.expr.downcast_ref::<Column>()
            && let late @ ColumnSource::Late { .. } = child.columns[column.index()]
        {
            columns.push(late);
            continue;
        }
        columns.push(ColumnSource::Early(exprs.len()));
        exprs.push(ProjectionExpr {
            expr: child.rewrite(&computed.expr)?,
            alias: computed.alias.clone(),
        });
    }
    let schema = child.plan.schema();
    for carried in &mut child.sources {
        let name = schema.field(carried.ids).name();
        let ids: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, carried.ids));
        carried.ids = exprs.len();
        exprs.push(ProjectionExpr {
            expr: ids,
            alias: name.clone(),
        });
    }
    Ok(Narrowed {
        plan: Arc::new(ProjectionExec::try_new(exprs, child.plan)?),
        columns,
        sources: child.sources,
    })
}

fn narrow_join(
    plan: &Arc<dyn ExecutionPlan>,
    join: &HashJoinExec,
    wanted: &[bool],
    agrees: &dyn Fn(&TierraScanExec, &[usize]) -> Result<bool>,
) -> Result<Narrowed> {
    let widths = [width(join.left()), width(join.right())];
    // The sides whose columns the join yields, in its order.
    let sides: &[usize] = match join.join_type() {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => &[0, 1],
        JoinType::LeftSemi | JoinType::LeftAnti => &[0],
        JoinType::RightSemi | JoinType::RightAnti => &[1],
        JoinType::LeftMark | JoinType::RightMark => return Ok(Narrowed::unchanged(plan)),
    };
    let yielded = sides
        .iter()
        .flat_map(|side| (0..widths[*side]).map(|column| (*side, column)));
    let mut output: Vec<(usize, usize)> = yielded.collect();
    if let Some(projection) = &join.projection {
        output = projection.iter().map(|column| output[*column]).collect();
    }
    let mut below = widths.map(|width| vec![false; width]);
    for ((side, column), wanted) in output.iter().zip(wanted) {
        below[*side][*column] |= *wanted;
    }
    for (left, right) in join.on() {
        want_columns_of(left, &mut below[0]);
        want_columns_of(right, &mut below[1]);
    }
    for column in join
        .filter()
        .into_iter()
        .flat_map(JoinFilter::column_indices)
    {
        match side_of(column) {
            Some(side) => below[side][column.index] = true,
            None => return Ok(Narrowed::unchanged(plan)),
        }
    }
    let narrow_side = |side: usize, input: &Arc<dyn ExecutionPlan>| match sides.contains(&side) {
        true => narrow(input, &below[side], agrees),
        false => Ok(Narrowed::unchanged(input)),
    };
    let children = [narrow_side(0, join.left())?, narrow_side(1, join.right())?];
    if children.iter().all(Narrowed::is_unchanged) {
        return Ok(Narrowed::unchanged(plan));
    }
    // The first index of a side's columns and sources among those of the narrowed join.
    let before = match sides {
        [0, 1] => [
            (0, 0),
            (width(&children[0].plan), children[0].sources.len()),
        ],
        _ => [(0, 0), (0, 0)],
    };
    let mut yielded = Yielded::default();
    for (side, column) in output {
        let (columns, sources) = before[side];
        yielded.push(children[side].columns[column], columns, sources);
    }
    for side in sides {
        yielded.push_sources(&children[*side].sources, before[*side].0);
    }
    let on = join
        .on()
        .iter()
        .map(|(left, right)| Ok((children[0].rewrite(left)?, children[1].rewrite(right)?)));
    let on = on.collect::<Result<Vec<_>>>()?;
    let filter = join
        .filter()
        .map(|filter| rewrite_filter(filter, &children))
        .transpose()?;
    let [left, right] = children.map(|child| child.plan);
    let narrowed = join
        .builder()
        .with_new_children(vec![left, right])?
        .with_on(on)
        .with_filter(filter)
        .with_projection(Some(yielded.projection))
        .recompute_properties()
        .reset_state()
        .build_exec()?;
    Ok(Narrowed {
        plan: narrowed,
        columns: yielded.columns,
        sources: yielded.sources,
    })
}

fn side_of(column: &ColumnIndex) -> Option<usize> {
    match column.side {
        JoinSide::Left => Some(0),
        JoinSide::Right => Some(1),
        JoinSide::None => None,
    }
}

fn rewrite_filter(filter: &JoinFilter, children: &[Narrowed; 2]) -> Result<JoinFilter> {
    let columns = filter.column_indices().iter().map(|column| {
        let index = match side_of(column) {
            Some(side) => children[side].early(column.index)?,
            None => column.index,
        };
        let side = column.side;
        Ok(ColumnIndex { index, side })
    });
    Ok(JoinFilter::new(
        Arc::clone(filter.expression()),
        columns.collect::<Result<_>>()?,
        Arc::clone(filter.schema()),
    ))
}

/// The columns of an operator that yields some of its inputs' columns.
#[derive(Default)]
struct Yielded {
    /// Of all columns of the narrowed inputs, concatenated, those that are passed on.
    projection: Vec<usize>,
    columns: Vec<ColumnSource>,
    sources: Vec<Carried>,
}

impl Yielded {
    /// Adds the next column. Its input follows inputs with this many columns and sources.
    fn push(&mut self, place: ColumnSource, columns_before: usize, sources_before: usize) {
        self.columns.push(match place {
            ColumnSource::Early(at) => {
                self.projection.push(columns_before + at);
                ColumnSource::Early(self.projection.len() - 1)
            }
            ColumnSource::Late { source, column } => ColumnSource::Late {
                source: sources_before + source,
                column,
            },
        });
    }

    /// Adds the row ids of an input, after all columns.
    fn push_sources(&mut self, sources: &[Carried], columns_before: usize) {
        for carried in sources {
            self.projection.push(columns_before + carried.ids);
            self.sources.push(Carried {
                source: carried.source.clone(),
                ids: self.projection.len() - 1,
            });
        }
    }
}
