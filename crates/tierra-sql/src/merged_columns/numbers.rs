//! Numbers for the joins with merged columns, by which they are told apart while a statement is planned.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, Join, JoinConstraint, JoinOperator, ObjectName, Select, TableFactor, TableWithJoins,
    VisitorMut,
};

use crate::duplicate_names::invisible::{self, HIDDEN};
use crate::visit::visit_mut;

/// The end of the number of a NATURAL JOIN.
const NATURAL: &str = "natural";

/// A numbered join's condition.
pub(super) struct Merging {
    pub(super) number: usize,
    /// The names in USING; `None` for NATURAL.
    pub(super) names: Option<Vec<ObjectName>>,
}

/// Numbers the joins of `statement` that have merged columns, from 1. Returns how many there are. The number comes first in the
/// list of USING. A FROM item with such a join is put in parentheses, as what [`super::joins`] plans.
pub(super) fn add(statement: &mut Statement) -> usize {
    let mut numbers = Numbers { last: 0 };
    // The visitor never breaks.
    match statement {
        Statement::Statement(inner) => drop(visit_mut(inner, &mut numbers)),
        Statement::Explain(explain) => return add(&mut explain.statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                let _ = visit_mut(query, &mut numbers);
            }
        }
        _ => {}
    }
    numbers.last
}

struct Numbers {
    last: usize,
}

impl VisitorMut for Numbers {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.from {
            if self.number(item) {
                let relation = item.relation.clone();
                let joins = std::mem::take(&mut item.joins);
                item.relation = TableFactor::NestedJoin {
                    table_with_joins: Box::new(TableWithJoins { relation, joins }),
                    alias: None,
                };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin {
            table_with_joins, ..
        } = factor
        {
            self.number(table_with_joins);
        }
        ControlFlow::Continue(())
    }
}

impl Numbers {
    /// Numbers the joins of `item`, and returns whether there are any.
    fn number(&mut self, item: &mut TableWithJoins) -> bool {
        let mut any = false;
        let operators = item.joins.iter_mut().map(|join| &mut join.join_operator);
        for constraint in operators.filter_map(constraint_of) {
            if merging(constraint).is_some() {
                any = true;
                continue;
            }
            let (end, names) = match constraint {
                JoinConstraint::Using(names) => ("", std::mem::take(names)),
                JoinConstraint::Natural => (NATURAL, Vec::new()),
                _ => continue,
            };
            any = true;
            self.last += 1;
            let number = format!("{HIDDEN}{}{end}", invisible::digits(self.last));
            let number = ObjectName::from(vec![Ident::with_quote('"', number)]);
            *constraint = JoinConstraint::Using(std::iter::once(number).chain(names).collect());
        }
        any
    }
}

/// Whether a join in `item` has merged columns.
pub(crate) fn merges(item: &TableWithJoins) -> bool {
    let is_merging = |join: &Join| {
        let mut operator = join.join_operator.clone();
        matches!(
            constraint_of(&mut operator),
            Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
        )
    };
    let is_nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => merges(table_with_joins),
        _ => false,
    };
    let mut joins = item.joins.iter();
    is_nested(&item.relation) || joins.any(|join| is_merging(join) || is_nested(&join.relation))
}

/// The condition of a join that the planner knows.
pub(super) fn constraint_of(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator::{
        FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, Right, RightAnti, RightOuter,
        RightSemi,
    };
    match operator {
        Join(constraint)
        | Inner(constraint)
        | Left(constraint)
        | LeftOuter(constraint)
        | Right(constraint)
        | RightOuter(constraint)
        | FullOuter(constraint)
        | LeftSemi(constraint)
        | RightSemi(constraint)
        | LeftAnti(constraint)
        | RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

/// The number of a join and its names, if `constraint` has a number.
pub(super) fn merging(constraint: &JoinConstraint) -> Option<Merging> {
    let JoinConstraint::Using(names) = constraint else {
        return None;
    };
    let (first, names) = names.split_first()?;
    let number = first.0.first()?.as_ident()?.value.strip_prefix(HIDDEN)?;
    let (number, names) = match number.strip_suffix(NATURAL) {
        Some(number) => (number, None),
        None => (number, Some(names.to_vec())),
    };
    Some(Merging {
        number: invisible::number(number)?,
        names,
    })
}
