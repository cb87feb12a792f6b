//! ROLLUP and CUBE of several columns at once: `CUBE ((a, b), c)`, which DataFusion knows only in GROUPING SETS.

use std::ops::ControlFlow;

use crate::visit::visit_mut;
use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select, VisitMut, VisitorMut};

/// The most elements of a CUBE with tuples, as in PostgreSQL: it has 2 to their number sets.
const ELEMENTS_MOST: usize = 12;

/// Writes the ROLLUPs and CUBEs of `statement` that have tuples as GROUPING SETS.
pub(crate) fn write_out(statement: &mut impl VisitMut) {
    // The visitor never breaks.
    let _ = visit_mut(statement, &mut GroupingTuples);
}

struct GroupingTuples;

impl VisitorMut for GroupingTuples {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            for group in groups {
                if let Some(sets) = sets_of(group) {
                    *group = Expr::GroupingSets(sets);
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// The sets of a ROLLUP or CUBE with tuples.
fn sets_of(group: &Expr) -> Option<Vec<Vec<Expr>>> {
    let (Expr::Rollup(elements) | Expr::Cube(elements)) = group else {
        return None;
    };
    if elements.iter().all(|element| element.len() == 1) || elements.len() > ELEMENTS_MOST {
        return None;
    }
    let all = 1_usize << elements.len();
    let chosen: Vec<usize> = match group {
        // The first n elements.
        Expr::Rollup(_) => (0..=elements.len()).map(|n| (1 << n) - 1).collect(),
        _ => (0..all).collect(),
    };
    let sets = chosen.into_iter().rev().map(|chosen| {
        let elements = elements.iter().enumerate();
        let elements = elements.filter(|(place, _)| chosen >> place & 1 == 1);
        let mut set: Vec<Expr> = Vec::new();
        for expr in elements.flat_map(|(_, element)| element) {
            if !set.contains(expr) {
                set.push(expr.clone());
            }
        }
        set
    });
    Some(sets.collect())
}
