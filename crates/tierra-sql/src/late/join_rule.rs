//! Decides when a join of few rows with a table on its primary key looks rows up instead of scanning the table.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use tierra_column::LogicalType;

use super::lookup_join::{LookedUp, LookupJoinExec, LookupJoinKind};
use super::origin::Origin;
use crate::scan::TierraScanExec;
use crate::settings;
use crate::tree::TreeNode;

/// Rows of the table per looked-up row from which lookups pay: then a lookup is 1.7 to 3.3 times as fast as a hash join
/// whose filter goes to the scan (`examples/late_rows.rs`, 1 M rows, two threads). The margin allows for low estimates.
const SCANNED_PER_LOOKUP: usize = 64;

/// Replaces a hash join by a [`LookupJoinExec`].
#[derive(Debug)]
pub(super) struct LookUpJoins;

impl PhysicalOptimizerRule for LookUpJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !settings::of(config).late_rows {
            return Ok(plan);
        }
        let joined = plan.transform_up(|node| {
            let join = node.downcast_ref::<HashJoinExec>();
            let looked_up = join.map(look_up).transpose()?.flatten();
            Ok(match looked_up {
                Some(looked_up) => Transformed::yes(Arc::new(looked_up) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        Ok(joined.data)
    }

    fn name(&self) -> &str {
        "look_up_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The join as a lookup of either side, if that costs less.
fn look_up(join: &HashJoinExec) -> Result<Option<LookupJoinExec>> {
    let refused = join.null_aware
        || join.null_equality() != NullEquality::NullEqualsNothing
        || join.filter().is_some()
        || join.fetch().is_some();
    if refused {
        return Ok(None);
    }
    let mut best: Option<(usize, Candidate<'_>)> = None;
    for side in [JoinSide::Right, JoinSide::Left] {
        let Some(candidate) = candidate(join, side)? else {
            continue;
        };
        let Some(Asking { rows: asking, .. }) = asking(candidate.input)? else {
            continue;
        };
        let table = candidate.scan.source().snapshot.rows();
        let pays = asking.saturating_mul(SCANNED_PER_LOOKUP) as u64 <= table;
        if pays && best.as_ref().is_none_or(|(fewest, _)| asking < *fewest) {
            best = Some((asking, candidate));
        }
    }
    best.map(|(_, candidate)| candidate.join(join)).transpose()
}

/// The number of rows that a plan yields.
struct Asking {
    rows: usize,
    /// Whether the plan contains a join.
    joins: bool,
}

/// The rows that `plan` yields, if known. The planner's estimates of joins are too inaccurate to rely on (too low for
/// SSB's query 4.2), so a join is assumed to yield all rows of its larger side.
fn asking(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Asking>> {
    let statistics = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    let Some(mut rows) = statistics.num_rows.get_value().copied() else {
        return Ok(None);
    };
    let children = plan.children();
    let mut joins = children.len() > 1;
    let mut most = 0;
    for child in children {
        let Some(below) = asking(child)? else {
            return Ok(None);
        };
        joins |= below.joins;
        most = most.max(below.rows);
    }
    if joins {
        rows = rows.max(most);
    }
    let rows = rows.min(plan.fetch().unwrap_or(usize::MAX));
    Ok(Some(Asking { rows, joins }))
}

/// A side of a join whose rows can be looked up.
struct Candidate<'a> {
    side: JoinSide,
    input: &'a Arc<dyn ExecutionPlan>,
    scan: &'a TierraScanExec,
    /// Expressions on the input, one per key column.
    keys: Vec<Arc<dyn PhysicalExpr>>,
    kind: LookupJoinKind,
}

/// The candidate for `side`, if the table is joined on its whole key and the join's type is supported.
fn candidate(join: &HashJoinExec, side: JoinSide) -> Result<Option<Candidate<'_>>> {
    let (table, input) = match side {
        JoinSide::Left => (join.left(), join.right()),
        _ => (join.right(), join.left()),
    };
    let kind = match (join.join_type(), side) {
        (JoinType::Inner, _) => LookupJoinKind::Inner,
        (JoinType::Left, JoinSide::Right) | (JoinType::Right, JoinSide::Left) => {
            LookupJoinKind::Left
        }
        (JoinType::LeftSemi, JoinSide::Right) | (JoinType::RightSemi, JoinSide::Left) => {
            LookupJoinKind::Semi
        }
        (JoinType::LeftAnti, JoinSide::Right) | (JoinType::RightAnti, JoinSide::Left) => {
            LookupJoinKind::Anti
        }
        (JoinType::LeftSemi, JoinSide::Left) | (JoinType::RightSemi, JoinSide::Right) => {
            LookupJoinKind::TableSemi
        }
        _ => return Ok(None),
    };
    let Some(scan) = table
        .downcast_ref::<TierraScanExec>()
        .filter(|scan| scan.yields_all_rows())
    else {
        return Ok(None);
    };
    let source = scan.source();
    let spec = source.snapshot.table().spec();
    let mut keys = vec![None; spec.primary_key.len()];
    for (left, right) in join.on() {
        let (of_table, of_input) = match side {
            JoinSide::Left => (left, right),
            _ => (right, left),
        };
        let column = of_table.downcast_ref::<Column>();
        // Row ids are behind the columns.
        let column = column.and_then(|column| scan.projection().get(column.index()));
        let part = column.and_then(|column| spec.primary_key.iter().position(|key| key == column));
        let Some(part) = part else {
            return Ok(None);
        };
        let ty = of_input.data_type(&input.schema())?;
        let same = LogicalType::of_arrow(&ty) == Some(spec.columns[spec.primary_key[part]].ty);
        // A lookup cannot express two conditions on one key column.
        if !same || keys[part].replace(Arc::clone(of_input)).is_some() {
            return Ok(None);
        }
    }
    let keys: Option<Vec<_>> = keys.into_iter().collect();
    let keys = keys.filter(|keys| !keys.is_empty());
    Ok(keys.map(|keys| Candidate {
        side,
        input,
        scan,
        keys,
        kind,
    }))
}

impl Candidate<'_> {
    fn join(self, join: &HashJoinExec) -> Result<LookupJoinExec> {
        let row_id = self.scan.source().snapshot.table().spec().columns.len();
        let row_id = self.scan.tells_row_ids().then_some(row_id);
        let columns = self.scan.projection().iter().copied().chain(row_id);
        let of_table = columns.map(|column| Origin::Table { table: 0, column });
        let of_table: Vec<Origin> = of_table.collect();
        let of_input = (0..self.input.schema().fields().len()).map(Origin::Input);
        let of_input: Vec<Origin> = of_input.collect();
        let mut output = match (self.kind, self.side) {
            (LookupJoinKind::Semi | LookupJoinKind::Anti, _) => of_input,
            (LookupJoinKind::TableSemi, _) => of_table,
            (_, JoinSide::Left) => [of_table, of_input].concat(),
            _ => [of_input, of_table].concat(),
        };
        if let Some(projection) = &join.projection {
            output = projection.iter().map(|column| output[*column]).collect();
        }
        let looked_up = LookedUp {
            source: self.scan.source(),
            keys: self.keys,
            predicates: self.scan.predicates().to_vec(),
            kind: self.kind,
        };
        LookupJoinExec::new(Arc::clone(self.input), looked_up, &output, join.schema())
    }
}
