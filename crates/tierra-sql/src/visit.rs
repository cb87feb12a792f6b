//! Visits to sqlparser's trees, compiled once.
//!
//! sqlparser's own `visit` is compiled for each visitor and each type of its trees: half a megabyte of code for a visitor of ten
//! lines. Here it is compiled for one visitor, which passes every node on to whichever visitor it was given.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut,
    Visitor, VisitorMut,
};

/// The hooks of a visitor, each written by the macro `each`.
macro_rules! hooks {
    ($each:ident, $($mutable:tt)?) => {
        $each!(pre_visit_query, & $($mutable)? Query);
        $each!(post_visit_query, & $($mutable)? Query);
        $each!(pre_visit_select, & $($mutable)? Select);
        $each!(post_visit_select, & $($mutable)? Select);
        $each!(pre_visit_relation, & $($mutable)? ObjectName);
        $each!(post_visit_relation, & $($mutable)? ObjectName);
        $each!(pre_visit_table_factor, & $($mutable)? TableFactor);
        $each!(post_visit_table_factor, & $($mutable)? TableFactor);
        $each!(pre_visit_expr, & $($mutable)? Expr);
        $each!(post_visit_expr, & $($mutable)? Expr);
        $each!(pre_visit_statement, & $($mutable)? Statement);
        $each!(post_visit_statement, & $($mutable)? Statement);
        $each!(pre_visit_value, & $($mutable)? ValueWithSpan);
        $each!(post_visit_value, & $($mutable)? ValueWithSpan);
    };
}

macro_rules! keep_found {
    ($hook:ident, $node:ty) => {
        fn $hook(&mut self, node: $node) -> ControlFlow<()> {
            let flow = self.visitor.$hook(node);
            flow.map_break(|found| self.found = Some(found))
        }
    };
}

macro_rules! pass_on {
    ($hook:ident, $node:ty) => {
        fn $hook(&mut self, node: $node) -> ControlFlow<()> {
            self.0.$hook(node)
        }
    };
}

macro_rules! compiled_once {
    ($visit:ident, $Visit:ident, $Visitor:ident, $($mutable:tt)?) => {
        /// Visits all nodes of `part`; gives what `visitor` stopped with.
        pub(crate) fn $visit<V: $Visitor>(
            part: & $($mutable)? impl $Visit,
            visitor: &mut V,
        ) -> ControlFlow<V::Break> {
            /// A visitor, and what it stopped with.
            struct Kept<'v, V: $Visitor> {
                visitor: &'v mut V,
                found: Option<V::Break>,
            }

            impl<V: $Visitor> $Visitor for Kept<'_, V> {
                type Break = ();
                hooks!(keep_found, $($mutable)?);
            }

            /// The one visitor that sqlparser sees.
            struct Any<'v>(&'v mut dyn $Visitor<Break = ()>);

            impl $Visitor for Any<'_> {
                type Break = ();
                hooks!(pass_on, $($mutable)?);
            }

            let mut kept = Kept {
                visitor,
                found: None,
            };
            let _ = part.visit(&mut Any(&mut kept));
            match kept.found {
                Some(found) => ControlFlow::Break(found),
                None => ControlFlow::Continue(()),
            }
        }
    };
}

compiled_once!(visit, Visit, Visitor,);
compiled_once!(visit_mut, VisitMut, VisitorMut, mut);

/// What is called with each expression, before those inside it.
struct Expressions<F>(F);

impl<B, F: FnMut(&Expr) -> ControlFlow<B>> Visitor for Expressions<F> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        self.0(expr)
    }
}

/// Calls `with` for each expression of `part`, outer ones first; gives what it stopped with.
pub(crate) fn visit_expressions<B>(
    part: &impl Visit,
    with: impl FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    visit(part, &mut Expressions(with))
}
