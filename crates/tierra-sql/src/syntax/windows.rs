//! Named windows: `OVER w`, `OVER (w ..)` and `WINDOW v AS (w ..)` are replaced by their definitions.
//!
//! The planner knows a window's name only alone and in the select list, and ignores it if anything follows. As in PostgreSQL,
//! a window that refines another keeps its PARTITION BY, and its ORDER BY if it has one. The refined window must have no frame.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, VisitMut,
    VisitorMut, WindowSpec, WindowType,
};

use crate::error::SqlError;
use crate::names::identifier;
use crate::visit::visit_mut;

/// Replaces the named windows of a statement by their definitions.
///
/// # Errors
/// If a name is not defined, or a definition does not fit the one it refines.
pub(crate) fn write_out(part: &mut impl VisitMut) -> Result<(), SqlError> {
    match visit_mut(part, &mut Queries) {
        ControlFlow::Break(error) => Err(SqlError::Syntax(error)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Visits every select, and the ORDER BY that sees its windows.
struct Queries;

impl VisitorMut for Queries {
    type Break = String;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<String> {
        let SetExpr::Select(select) = query.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        let mut windows = windows(&select.named_window)?;
        visit_mut(&mut query.order_by, &mut windows)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<String> {
        let mut windows = windows(&select.named_window)?;
        visit_mut(&mut select.distinct, &mut windows)?;
        visit_mut(&mut select.projection, &mut windows)?;
        visit_mut(&mut select.qualify, &mut windows)?;
        visit_mut(&mut select.sort_by, &mut windows)
    }
}

fn windows(definitions: &[NamedWindowDefinition]) -> ControlFlow<String, Windows> {
    match Windows::of(definitions) {
        Ok(windows) => ControlFlow::Continue(windows),
        Err(error) => ControlFlow::Break(error),
    }
}

/// The windows of one select.
#[derive(Default)]
struct Windows {
    /// Each with all references to others resolved.
    known: Vec<(String, WindowSpec)>,
    /// The depth of queries inside the select; they have their own windows.
    depth: usize,
}

impl Windows {
    fn of(definitions: &[NamedWindowDefinition]) -> Result<Self, String> {
        let mut windows = Self::default();
        for NamedWindowDefinition(name, definition) in definitions {
            let window = match definition {
                NamedWindowExpr::NamedWindow(other) => windows.named(other)?.clone(),
                NamedWindowExpr::WindowSpec(window) => windows.refined(window)?,
            };
            let known = identifier(name);
            if windows.known.iter().any(|(other, _)| *other == known) {
                return Err(format!("window {name} is defined twice"));
            }
            windows.known.push((known, window));
        }
        Ok(windows)
    }

    fn named(&self, name: &Ident) -> Result<&WindowSpec, String> {
        let wanted = identifier(name);
        let found = self.known.iter().find(|(known, _)| *known == wanted);
        let (_, window) = found.ok_or_else(|| {
            format!(
                "there is no window {name}: WINDOW {name} AS (..) defines it, before it is used"
            )
        })?;
        Ok(window)
    }

    /// `window` with the parts that it takes from the window it names.
    fn refined(&self, window: &WindowSpec) -> Result<WindowSpec, String> {
        let Some(name) = &window.window_name else {
            return Ok(window.clone());
        };
        let base = self.named(name)?;
        if !window.partition_by.is_empty() {
            return Err(format!(
                "({name} PARTITION BY ..) is not possible: the partition is that of window {name}"
            ));
        }
        if !window.order_by.is_empty() && !base.order_by.is_empty() {
            return Err(format!(
                "({name} ORDER BY ..) is not possible: window {name} has an ORDER BY"
            ));
        }
        if base.window_frame.is_some() {
            return Err(format!(
                "({name} ..) is not possible: window {name} has a frame; OVER {name} takes it as it is"
            ));
        }
        let order_by = match window.order_by.is_empty() {
            true => &base.order_by,
            false => &window.order_by,
        };
        Ok(WindowSpec {
            window_name: None,
            partition_by: base.partition_by.clone(),
            order_by: order_by.clone(),
            window_frame: window.window_frame.clone(),
        })
    }
}

impl VisitorMut for Windows {
    type Break = String;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<String> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<String> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<String> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        let window = match &function.over {
            Some(WindowType::NamedWindow(name)) if self.depth == 0 => self.named(name).cloned(),
            Some(WindowType::WindowSpec(window)) if self.depth == 0 => self.refined(window),
            _ => return ControlFlow::Continue(()),
        };
        match window {
            Ok(window) => function.over = Some(WindowType::WindowSpec(window)),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}
