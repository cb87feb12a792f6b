//! Refuses a WITH query that draws values, as with `random()`, and is read twice: the planner computes it wherever it is named, and
//! each time it would draw others.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Cte, Expr, ObjectName, Query, Visit, Visitor};

use crate::error::DefinitionError;
use crate::names::{identifier, single_name};
use crate::visit::visit;

/// Refuses `statement` if it has such a query; `draws` says whether a function of that name gives another value at each call.
pub(crate) fn refuse(
    statement: &Statement,
    draws: &dyn Fn(&str) -> bool,
) -> Result<(), DefinitionError> {
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

fn refuse_in(part: &impl Visit, draws: &dyn Fn(&str) -> bool) -> Result<(), DefinitionError> {
    if !Uses::of(part, draws, &[]).draws {
        return Ok(());
    }
    match visit(part, &mut DrawnTwice { draws }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct DrawnTwice<'a> {
    draws: &'a dyn Fn(&str) -> bool,
}

impl Visitor for DrawnTwice<'_> {
    type Break = DefinitionError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<DefinitionError> {
        let mut drawing = Vec::new();
        for Cte {
            alias,
            query: drawn,
            ..
        } in query.with.iter().flat_map(|with| &with.cte_tables)
        {
            if !Uses::of(drawn, self.draws, &drawing).draws {
                continue;
            }
            drawing.push(identifier(&alias.name));
            let named = &drawing[drawing.len() - 1..];
            // A recursive query reads what it has drawn itself.
            let own = Uses::of(drawn, self.draws, named).references;
            if Uses::of(query, self.draws, named).references - own > 1 {
                return ControlFlow::Break(DefinitionError::UnsupportedFor {
                    what: "reading a WITH query twice that draws values, as with random(),",
                    instead: "store its rows with CREATE TABLE .. AS and read these",
                });
            }
        }
        ControlFlow::Continue(())
    }
}

/// What a part of a statement uses.
struct Uses<'a> {
    is_drawing: &'a dyn Fn(&str) -> bool,
    names: &'a [String],
    /// Whether it calls a function that draws, or reads a table of one of the names.
    draws: bool,
    /// How often it reads a table of one of the names.
    references: usize,
}

impl<'a> Uses<'a> {
    fn of(part: &impl Visit, is_drawing: &'a dyn Fn(&str) -> bool, names: &'a [String]) -> Self {
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
            self.draws |= (self.is_drawing)(&call.name.to_string().to_lowercase());
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
