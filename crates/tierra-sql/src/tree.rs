//! DataFusion's walks over plans and expressions, compiled once.
//!
//! DataFusion's own are compiled once for each closure. These call the closure through a pointer. Names and meanings are DataFusion's.

use datafusion::common::tree_node::{self, Transformed, TreeNodeRecursion, TreeNodeRewriter};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What changes a node.
type Change<'f, N> = &'f mut dyn FnMut(N) -> Result<Transformed<N>>;
/// What looks at a node.
type Look<'f, 'n, N> = &'f mut dyn FnMut(&'n N) -> Result<TreeNodeRecursion>;

/// [`tree_node::TreeNode`].
pub(crate) trait TreeNode: tree_node::TreeNode {
    fn apply<'n>(
        &'n self,
        mut look: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        tree_node::TreeNode::apply(self, &mut look as Look<'_, 'n, Self>)
    }

    fn apply_children<'n>(
        &'n self,
        mut look: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        tree_node::TreeNode::apply_children(self, &mut look as Look<'_, 'n, Self>)
    }

    fn exists(&self, mut is: impl FnMut(&Self) -> Result<bool>) -> Result<bool> {
        let is: &mut dyn FnMut(&Self) -> Result<bool> = &mut is;
        tree_node::TreeNode::exists(self, is)
    }

    fn map_children(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        tree_node::TreeNode::map_children(self, &mut change as Change<'_, Self>)
    }

    fn transform_down(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        tree_node::TreeNode::transform_down(self, &mut change as Change<'_, Self>)
    }

    fn transform_up(
        self,
        mut change: impl FnMut(Self) -> Result<Transformed<Self>>,
    ) -> Result<Transformed<Self>> {
        tree_node::TreeNode::transform_up(self, &mut change as Change<'_, Self>)
    }

    /// Compiled for each rewriter.
    fn rewrite(
        self,
        rewriter: &mut impl TreeNodeRewriter<Node = Self>,
    ) -> Result<Transformed<Self>> {
        tree_node::TreeNode::rewrite(self, rewriter)
    }
}

impl<N: tree_node::TreeNode> TreeNode for N {}

/// [`LogicalPlan::apply_expressions`].
pub(crate) fn apply_expressions(
    plan: &LogicalPlan,
    mut look: impl FnMut(&Expr) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    let look: &mut dyn FnMut(&Expr) -> Result<TreeNodeRecursion> = &mut look;
    plan.apply_expressions(look)
}

/// [`LogicalPlan::map_expressions`].
pub(crate) fn map_expressions(
    plan: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    plan.map_expressions(&mut change as Change<'_, Expr>)
}

/// [`LogicalPlan::apply_with_subqueries`].
pub(crate) fn apply_with_subqueries(
    plan: &LogicalPlan,
    mut look: impl FnMut(&LogicalPlan) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    let look: &mut dyn FnMut(&LogicalPlan) -> Result<TreeNodeRecursion> = &mut look;
    plan.apply_with_subqueries(look)
}

/// [`LogicalPlan::transform_down_with_subqueries`].
pub(crate) fn transform_down_with_subqueries(
    plan: LogicalPlan,
    mut change: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(&mut change as Change<'_, LogicalPlan>)
}

/// [`LogicalPlan::transform_up_with_subqueries`].
pub(crate) fn transform_up_with_subqueries(
    plan: LogicalPlan,
    mut change: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up_with_subqueries(&mut change as Change<'_, LogicalPlan>)
}
