//! Lists that DataFusion's simplifier must not merge.
//!
//! It merges two lists on the same value: `x IN (1) AND x IN (2)` becomes false, but is NULL if x is NULL.
//! `x NOT IN (1, 2) OR x NOT IN (3, 4)` becomes true. `x IN (1, 2) AND x NOT IN (3, NULL)` loses the NULL. Lists of columns
//! are compared by name. Here lists that would be merged wrongly become calls of [`InSet`], which a scan reads as lists.
//! Lists with items other than literals become single comparisons. Correct merges stay: IN with IN by OR, NOT IN with
//! NOT IN by AND, and lists on values that are never NULL.

// Expressions are keys here. Caches inside their functions are not part of the hash.
#![allow(clippy::mutable_key_type)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, Volatility, not,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::plan::schema_below;
use crate::list::{InSet, List};
use crate::tree::{TreeNode, apply_expressions, map_expressions};

/// The number of sets made of lists.
static SETS: AtomicU64 = AtomicU64::new(0);

/// Keeps lists apart that would be merged wrongly.
#[derive(Debug)]
pub(super) struct ListsApart;

impl OptimizerRule for ListsApart {
    fn name(&self) -> &str {
        "lists_apart"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let mut has_lists = false;
        apply_expressions(&plan, |expr| {
            has_lists = has_lists || has_lists_to_merge(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !has_lists {
            return Ok(Transformed::no(plan));
        }
        let schema = schema_below(&plan)?;
        let context = SimplifyContext::builder().with_config_options(config.options());
        let sets = Sets {
            schema: &schema,
            simplifier: ExprSimplifier::new(context.build()),
        };
        let names = NamePreserver::new(&plan);
        map_expressions(plan, |expr| {
            let apart = Apart::of(&expr, &schema);
            if apart.values.is_empty() {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let expr = apart.rewrite(expr, &sets)?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    }
}

/// Whether two lists, or a list and comparisons that may become one, can meet. A cheap test before all others.
fn has_lists_to_merge(expr: &Expr) -> Result<bool> {
    let mut lists = 0;
    let mut equalities = 0;
    expr.apply(|expr| {
        lists += usize::from(matches!(expr, Expr::InList(_)));
        equalities += usize::from(equality(expr).is_some());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(lists + equalities / 2 >= 2)
}

/// The lists on one value in a condition.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// `x = constant`. Two of these become a list beside an OR.
    equality: bool,
    in_list: bool,
    not_in_list: bool,
    /// Whether one of them can be NULL, or has an item that is not a literal.
    may_be_unknown: bool,
}

/// The values whose lists are kept apart.
#[derive(Default)]
struct Apart {
    values: HashSet<Expr>,
}

impl Apart {
    fn of(expr: &Expr, schema: &DFSchema) -> Self {
        let mut apart = Self::default();
        apart.look(expr, schema);
        apart
    }

    /// The lists in `expr`. It first notes those of its parts that meet.
    fn look<'a>(&mut self, expr: &'a Expr, schema: &DFSchema) -> HashMap<&'a Expr, Found> {
        if let Some((value, constant)) = equality(expr) {
            let found = Found {
                equality: true,
                may_be_unknown: !is_known(constant) || value.nullable(schema).unwrap_or(true),
                ..Found::default()
            };
            return HashMap::from([(bare(value), found)]);
        }
        match expr {
            Expr::InList(list) => {
                let found = Found {
                    in_list: !list.negated,
                    not_in_list: list.negated,
                    may_be_unknown: may_be_unknown(list, schema),
                    ..Found::default()
                };
                HashMap::from([(bare(&list.expr), found)])
            }
            Expr::Not(inner) => {
                let mut found = self.look(inner, schema);
                for found in found.values_mut() {
                    *found = Found {
                        equality: false,
                        in_list: found.not_in_list,
                        not_in_list: found.in_list,
                        ..*found
                    };
                }
                found
            }
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if matches!(op, Operator::And | Operator::Or) =>
            {
                let left = self.look(left, schema);
                let right = self.look(right, schema);
                self.meet(left, right, *op == Operator::And)
            }
            other => {
                // Separate conditions: arguments, the branches of CASE.
                let _ = other.apply_children(|part| {
                    self.look(part, schema);
                    Ok(TreeNodeRecursion::Continue)
                });
                HashMap::new()
            }
        }
    }

    fn meet<'a>(
        &mut self,
        left: HashMap<&'a Expr, Found>,
        right: HashMap<&'a Expr, Found>,
        by_and: bool,
    ) -> HashMap<&'a Expr, Found> {
        let (mut all, few) = match left.len() < right.len() {
            true => (right, left),
            false => (left, right),
        };
        for (value, found) in few {
            let known = all.entry(value).or_default();
            let lists = |found: Found| found.in_list || found.not_in_list;
            let both_in = !known.not_in_list && !found.not_in_list;
            let both_not_in = !known.in_list && !found.in_list;
            let is_right = if by_and { both_not_in } else { both_in };
            let may_be_unknown = known.may_be_unknown || found.may_be_unknown;
            if lists(*known) && lists(found) && !is_right && may_be_unknown {
                self.values.insert(value.clone());
            }
            let becomes_list = !by_and && known.equality && found.equality;
            *known = Found {
                equality: known.equality || found.equality,
                in_list: known.in_list || found.in_list || becomes_list,
                not_in_list: known.not_in_list || found.not_in_list,
                may_be_unknown,
            };
        }
        if by_and {
            all.values_mut().for_each(|found| found.equality = false);
        }
        all
    }

    fn is_apart(&self, value: &Expr) -> bool {
        self.values.contains(bare(value))
    }

    fn rewrite(&self, expr: Expr, sets: &Sets<'_>) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| match expr {
            Expr::InList(list) if self.is_apart(&list.expr) => Ok(match sets.apart(&list) {
                Some(apart) => Transformed::yes(apart),
                None => Transformed::no(Expr::InList(list)),
            }),
            // `x = 1 OR x = 2` would become a list.
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Or,
                right,
            }) => {
                let left = self.without_equality(*left, sets);
                let right = self.without_equality(*right, sets);
                let is_changed = left.transformed || right.transformed;
                let either = Expr::BinaryExpr(BinaryExpr::new(
                    Box::new(left.data),
                    Operator::Or,
                    Box::new(right.data),
                ));
                Ok(match is_changed {
                    true => Transformed::yes(either),
                    false => Transformed::no(either),
                })
            }
            other => Ok(Transformed::no(other)),
        })
    }

    fn without_equality(&self, expr: Expr, sets: &Sets<'_>) -> Transformed<Expr> {
        let set = match equality(&expr) {
            Some((value, constant)) if self.is_apart(value) => sets.set(value, &[constant]),
            _ => None,
        };
        match set {
            Some(set) => Transformed::yes(set),
            None => Transformed::no(expr),
        }
    }
}

/// The value and the constant of `x = constant`.
fn equality(expr: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = expr
    else {
        return None;
    };
    let (left, right) = (left.as_ref(), right.as_ref());
    match (is_constant(left), is_constant(right)) {
        (false, true) => Some((left, right)),
        (true, false) => Some((right, left)),
        _ => None,
    }
}

/// Whether the simplifier turns `expr` into a literal: for example `DATE '2000-01-01'`, which is a cast.
fn is_constant(expr: &Expr) -> bool {
    let varies = expr.exists(|part| {
        Ok(match part {
            Expr::Literal(_, _) | Expr::Cast(_) | Expr::TryCast(_) | Expr::Negative(_) => false,
            Expr::BinaryExpr(_) => false,
            Expr::ScalarFunction(function) => {
                function.func.signature().volatility != Volatility::Immutable
            }
            _ => true,
        })
    });
    !varies.unwrap_or(true)
}

/// A value without casts, because the simplifier may remove them.
fn bare(value: &Expr) -> &Expr {
    match value {
        Expr::Cast(cast) => bare(&cast.expr),
        Expr::TryCast(cast) => bare(&cast.expr),
        other => other,
    }
}

/// Whether a list can be NULL, or has items that are not constant.
fn may_be_unknown(list: &InList, schema: &DFSchema) -> bool {
    list.expr.nullable(schema).unwrap_or(true) || !list.list.iter().all(is_known)
}

fn is_known(item: &Expr) -> bool {
    matches!(item, Expr::Literal(item, _) if !item.is_null())
}

/// Turns lists into sets.
struct Sets<'a> {
    schema: &'a DFSchema,
    simplifier: ExprSimplifier,
}

impl Sets<'_> {
    /// A list in a form that is never merged; `None` if types are not resolved yet.
    fn apart(&self, list: &InList) -> Option<Expr> {
        let (constants, others): (Vec<_>, Vec<_>) =
            list.list.iter().partition(|item| is_constant(item));
        let mut equal = Vec::with_capacity(others.len() + 1);
        if !constants.is_empty() {
            equal.push(self.set(&list.expr, &constants)?);
        }
        let value = list.expr.as_ref();
        equal.extend(
            others
                .into_iter()
                .map(|item| value.clone().eq(item.clone())),
        );
        match list.negated {
            true => conjunction(equal.into_iter().map(not)),
            false => disjunction(equal),
        }
    }

    fn literal(&self, constant: &Expr) -> Option<ScalarValue> {
        if let Expr::Literal(literal, _) = constant {
            return Some(literal.clone());
        }
        match self.simplifier.simplify(constant.clone()) {
            Ok(Expr::Literal(literal, _)) => Some(literal),
            _ => None,
        }
    }

    /// `value IN (constants)`. Functions are compared by name, so no two sets of a process have the same name.
    fn set(&self, value: &Expr, constants: &[&Expr]) -> Option<Expr> {
        let literals = constants.iter().map(|constant| self.literal(constant));
        let literals = literals.collect::<Option<Vec<_>>>()?;
        let items = List::typed(ScalarValue::iter_to_array(literals).ok()?);
        if !items.is_comparable(&value.get_type(self.schema).ok()?) {
            return None;
        }
        let number = SETS.fetch_add(1, Ordering::Relaxed);
        let set = InSet::new(format!("tierra_in_list_{number}"), Arc::new(items));
        let function = Arc::new(ScalarUDF::from(set));
        let call = ScalarFunction::new_udf(function, vec![value.clone()]);
        Some(Expr::ScalarFunction(call))
    }
}
