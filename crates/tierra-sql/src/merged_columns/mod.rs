//! Merged columns: those of `JOIN .. USING (id)` and `NATURAL JOIN`.
//!
//! The planner keeps both columns and takes one of them for `id`, which may be NULL where the other is not. Here the two become one:
//! that of the left side for an inner and a LEFT join, that of the right side for a RIGHT join, and the first that is not NULL for a
//! FULL join. Where the types of the sides differ, it has the one in which both are compared, so it may be neither side's column. The
//! columns that are no longer called `id` get an invisible end to their names:
//!
//! ```text
//! SELECT id, b.id FROM a LEFT JOIN b USING (id)
//!
//! Projection: a.id, b."id~" AS id
//!   Projection: a.id, a.x, b.id AS b."id~", b.y
//!     Left Join: a.id = b.id
//! ```
//! So the planner finds one column `id`, in subqueries as well. Which columns are merged is only known once the tables are
//! planned, and only then can references to `b.id` and `b.*` be written anew ([`references`]). So a statement is planned until
//! planning it finds nothing new: once more for each level of subqueries.

mod joins;
mod numbers;
mod references;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::{TableReference, internal_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;

use self::joins::MergingJoins;
pub(crate) use self::numbers::merges;

/// The columns of the joins, by the number of the join.
type Known = HashMap<usize, Columns>;

/// The columns of a join.
#[derive(Debug, Clone, PartialEq)]
struct Columns {
    /// Those that are no longer found by their names.
    hidden: Vec<Hidden>,
    /// The names of the columns of each table, as they were below the join.
    tables: Vec<(TableReference, Vec<String>)>,
}

/// The column `name` of `table`, which is called `hidden` above the join.
#[derive(Debug, Clone, PartialEq)]
struct Hidden {
    table: TableReference,
    name: String,
    hidden: String,
}

/// The plan of a statement, by DataFusion's planner.
///
/// # Errors
/// If the statement cannot be planned.
pub(crate) async fn planned(state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    let mut numbered = statement;
    let joins = numbers::add(&mut numbered);
    if joins == 0 {
        return state.statement_to_plan(numbered).await;
    }
    let mut known = Known::new();
    // Each time at least the innermost joins among those not known yet are found.
    for _ in 0..joins + 2 {
        let mut written = numbered.clone();
        references::write(&mut written, &known)?;
        let found = Arc::new(MergingJoins::default());
        let mut state = state.clone();
        state.register_relation_planner(Arc::clone(&found) as _)?;
        let planned = state.statement_to_plan(written).await;
        let before = known.clone();
        known.extend(found.take());
        if known == before {
            return planned;
        }
    }
    internal_err!("the columns of JOIN .. USING changed whenever they were found")
}
