//! SQL semantics beyond DataFusion's own rules: numbers keep their digits, INSERT assigns and does not convert, integer
//! overflow is an error, conditions have three values, and EXCEPT ALL counts.
//!
//! ```text
//! table keys, rounded, action, drawn, group keys, single rows, computed, outer values, set operations, assignment, numbers,
//! seconds
//!     --> DataFusion's type coercion --> rounded, double texts, microseconds, arithmetic, doubles --> subqueries --> lists
//!     --> DataFusion's optimiser --> casts
//! ```
//! The first twelve read a plan as written, before casts are added. The next five need resolved types and must see sums of
//! constants before the optimiser folds them. Subqueries and lists also need types, and must see conditions before the
//! optimiser takes NULL for false. Sums of shifted values become one ([`shifted_sums`]) before the optimiser moves what they
//! have in common below them. Casts are hidden from estimates last, when no other rule reads them. Wrong rules of the
//! optimiser are skipped ([`held_conditions`], [`distinct_sums`], [`grouping_sets`], [`known_aggregates`], [`null_keys`],
//! [`filter_columns`], [`equal_parts`], [`nested_limits`], [`offsets`], [`window_orders`], [`window_limits`], [`unnested`]), or corrected afterwards
//! ([`sorted_inputs`], [`compact_strings`], [`top_groups`], [`unpolled_partitions`]).

mod action;
mod arithmetic;
mod assign_to;
mod assigned;
mod assignment;
mod casts;
mod compact_strings;
mod computed;
mod csv_source;
mod distinct_sums;
mod double_texts;
mod doubles;
mod drawn;
mod equal_parts;
mod filter_columns;
mod group_keys;
mod grouping_sets;
mod held_conditions;
mod known_aggregates;
mod lists;
mod nested_limits;
mod null_keys;
mod number;
mod numbers;
mod offsets;
mod outer_values;
mod plan;
mod repeated_keys;
mod rounded;
mod set_operations;
mod shifted_sums;
mod single_rows;
mod sorted_inputs;
mod subquery;
mod table_keys;
mod top_groups;
mod unnested;
mod unpolled_partitions;
mod whole;
mod window_limits;
mod window_orders;

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use crate::time::{Microseconds, Seconds};

pub(crate) use action::{ACTION, action};
pub(crate) use assign_to::assign_to;
pub(crate) use assignment::{argument, shown};
pub(crate) use doubles::{CANONICAL, is_double, one_zero};
pub(crate) use number::{
    LONG_NUMBER, beside, exactly, has_more_digits, is_long, may_be_long, number_in,
};
pub(crate) use numbers::exact;
use plan::wrap;
pub(crate) use plan::{
    EachOperator, PhysicalRule, map_under_names, schema_below, under_its_name, uses, wrap_physical,
};

/// DataFusion's rule for comparisons with ANY and ALL, which ours replaces.
const SET_COMPARISONS: &str = "rewrite_set_comparison";
/// DataFusion's rule that merges lists.
const SIMPLIFIED: &str = "simplify_expressions";

/// Adds the rules of this module to a session.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = before_coercion();
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(rounded::LastingType));
    rules.push(Arc::new(double_texts::DoubleTexts));
    rules.push(Arc::new(Microseconds));
    rules.push(Arc::new(arithmetic::CheckArithmetic));
    rules.push(Arc::new(doubles::OneZero));
    *builder.analyzer() = Some(Analyzer::with_rules(rules));
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    rules.retain(|rule| rule.name() != SET_COMPARISONS);
    rules.insert(0, Arc::new(subquery::SubqueryPredicates));
    let simplified = rules.iter().position(|rule| rule.name() == SIMPLIFIED);
    rules.insert(simplified.unwrap_or(1), Arc::new(lists::ListsApart));
    let shared = rules
        .iter()
        .position(|rule| rule.name() == shifted_sums::BEFORE);
    rules.insert(
        shared.unwrap_or(rules.len()),
        Arc::new(shifted_sums::ShiftedSums),
    );
    rules.push(Arc::new(repeated_keys::RepeatedKeys));
    rules.push(Arc::new(casts::LossyCasts));
    wrap(&mut builder, null_keys::EXTRACTED, |rule| {
        Arc::new(null_keys::Extracted(rule))
    });
    wrap(&mut builder, null_keys::ORDERED, |rule| {
        Arc::new(null_keys::Ordered(rule))
    });
    wrap(&mut builder, held_conditions::PUSHED_DOWN, |rule| {
        Arc::new(held_conditions::Held(rule))
    });
    wrap(&mut builder, distinct_sums::BY_GROUPS, |rule| {
        Arc::new(distinct_sums::OfOneType(rule))
    });
    for rule in unnested::BY_KEYS {
        wrap(&mut builder, rule, |rule| {
            Arc::new(unnested::OfWholeRows(rule))
        });
    }
    wrap_physical(&mut builder, known_aggregates::KNOWN, |rule| {
        Arc::new(known_aggregates::ColumnsOnly(rule))
    });
    wrap_physical(&mut builder, window_limits::LIMITS, |rule| {
        Arc::new(window_limits::OfEarlierRows(rule))
    });
    wrap_physical(&mut builder, nested_limits::SORTS, |rule| {
        Arc::new(nested_limits::KeptLimits(rule))
    });
    wrap_physical(&mut builder, offsets::SORTS, |rule| {
        Arc::new(offsets::KeptOffsets(rule))
    });
    wrap_physical(&mut builder, filter_columns::PROJECTIONS, |rule| {
        Arc::new(filter_columns::OfWholeFilters(rule))
    });
    sorted_inputs::add_to(&mut builder);
    window_orders::add_to(&mut builder);
    equal_parts::add_to(&mut builder);
    grouping_sets::add_to(&mut builder);
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    rules.push(Arc::new(unpolled_partitions::RULE));
    rules.push(Arc::new(top_groups::RULE));
    rules.push(Arc::new(compact_strings::RULE));
    builder
        .expr_planners()
        .get_or_insert_with(Vec::new)
        .insert(0, Arc::new(numbers::ExactNumbers));
    builder
        .scalar_functions()
        .get_or_insert_with(Vec::new)
        .push(Arc::new(ScalarUDF::from(number::LongNumber::new())));
    let functions = builder.scalar_functions().get_or_insert_with(Vec::new);
    functions.extend(whole::functions());
    builder
}

fn before_coercion() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        Arc::new(table_keys::TableKeys),
        Arc::new(rounded::ConstantPlaces),
        Arc::new(action::ActionOnce),
        Arc::new(drawn::DrawnOnce),
        Arc::new(group_keys::GroupKeys),
        Arc::new(single_rows::SingleRows),
        Arc::new(computed::ComputedBelow),
        Arc::new(outer_values::OuterValues),
        Arc::new(set_operations::CountedCopies),
        Arc::new(assignment::Assignment),
        Arc::new(numbers::ExactNumbers),
        Arc::new(Seconds),
    ]
}

/// Resolves the types of a plan as far as its parameters' types are known.
pub(crate) fn settle(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    before_coercion()
        .iter()
        .try_fold(plan, |plan, rule| rule.analyze(plan, config))
}
