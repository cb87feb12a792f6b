//! Refuses a WITH query that draws values, as with `random()`, and is read twice: the planner computes it wherever it is named, and
//! each time it would draw others.
//!
//! References are counted by name: an inner WITH query of the same name counts as one.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Cte, Expr, ObjectName, Query, Visit, Visitor};

use crate::error::DefinitionError;
use crate::names::{identifier, last_name, single_name};
use crate::visit::visit;

/// Whether a function of that name gives another value at each call.
type Draws<'a> = &'a dyn Fn(&str) -> bool;

/// Refuses `statement` if it has such a query.
pub(crate) fn refuse(statement: &Statement, draws: Draws<'_>) -> Result<(), DefinitionError> {
    match statement {
        Statement::Statement(statement) => refuse_in(statement.as_ref(), draws),
        Statement::Explain(explain) => refuse(&explain.statement, draws),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => refuse_in(query.as_ref(), draws),
            CopyToSource::Relation(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

fn refuse_in(part: &impl Visit, draws: Draws<'_>) -> Result<(), DefinitionError> {
    if !Uses::of(part, draws, &[]).draws {
        return Ok(());
    }
    let mut visitor = DrawnTwice {
        draws,
        drawing: Vec::new(),
        outside: Vec::new(),
    };
    match visit(part, &mut visitor) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct DrawnTwice<'a> {
    draws: Draws<'a>,
    /// The WITH queries seen here that draw, those of outer queries first.
    drawing: Vec<String>,
    /// For each query that is visited, how many of them are outside.
    outside: Vec<usize>,
}

impl DrawnTwice<'_> {
    /// How often `query` reads its WITH query `drawn`, the last of `drawing`. A recursive query reads it at every step.
    fn reads(&self, query: &Query, drawn: &Query) -> usize {
        let named = &self.drawing[self.drawing.len() - 1..];
        let of = |part: &Query| Uses::of(part, self.draws, named).references;
        let with = query.with.iter().filter(|with| with.recursive);
        let others = with.flat_map(|with| &with.cte_tables).filter(|cte| {
            let own = [identifier(&cte.alias.name)];
            !std::ptr::eq(cte.query.as_ref(), drawn)
                && Uses::of(cte.query.as_ref(), self.draws, &own).references > 0
        });
        // What it has drawn itself a recursive query reads without drawing.
        of(query) - of(drawn) + others.map(|cte| of(&cte.query)).sum::<usize>()
    }
}

impl Visitor for DrawnTwice<'_> {
    type Break = DefinitionError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<DefinitionError> {
        self.outside.push(self.drawing.len());
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let Cte {
                alias,
                query: drawn,
                ..
            } = cte;
            if !Uses::of(drawn, self.draws, &self.drawing).draws {
                continue;
            }
            self.drawing.push(identifier(&alias.name));
            if self.reads(query, drawn) > 1 {
                return ControlFlow::Break(DefinitionError::UnsupportedFor {
                    what: "reading a WITH query twice that draws values, as with random(),",
                    instead: "store its rows with CREATE TABLE .. AS and read these",
                });
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<DefinitionError> {
        let outside = self.outside.pop().unwrap_or_default();
        self.drawing.truncate(outside);
        ControlFlow::Continue(())
    }
}

/// What a part of a statement uses.
struct Uses<'a> {
    is_drawing: Draws<'a>,
    names: &'a [String],
    /// Whether it calls a function that draws, or reads a table of one of the names.
    draws: bool,
    /// How often it reads a table of one of the names.
    references: usize,
}

impl<'a> Uses<'a> {
    fn of(part: &impl Visit, is_drawing: Draws<'a>, names: &'a [String]) -> Self {
        let mut uses = Self {
            is_drawing,
            names,
            draws: false,
            references: 0,
        };
        // It never breaks.
        let _ = visit(part, &mut uses);
        uses
    }
}

impl Visitor for Uses<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr {
            self.draws |= (self.is_drawing)(&last_name(&call.name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if single_name(relation).is_some_and(|name| self.names.contains(&name)) {
            self.draws = true;
            self.references += 1;
        }
        ControlFlow::Continue(())
    }
}
