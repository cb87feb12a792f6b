//! SQL semantics beyond DataFusion's own rules: numbers keep their digits, INSERT assigns and does not convert, integer
//! overflow is an error, conditions have three values, and EXCEPT ALL counts.
//!
//! ```text
//! outer aggregates, grouped outside, table keys, rounded, action, drawn, single rows, empty subqueries, computed, set operations, correlated, group keys,
//! assignment, numbers, seconds, ordered windows, computed sets
//!     --> DataFusion's `grouping(x)`, type coercion --> rounded, microseconds, text casts, moment texts, interval lengths, arithmetic, doubles, self-ordered, guarded,
//!         computed keys
//!     --> subqueries --> lists
//!     --> DataFusion's optimiser --> casts
//! ```
//! The first seventeen read a plan as written, before casts are added. The next ten need resolved types and must see sums of
//! constants before the optimiser folds them. Subqueries and lists also need types, and must see conditions before the
//! optimiser takes NULL for false. Sums of shifted values become one ([`shifted_sums`]) before the optimiser moves what they
//! have in common below them. What aggregates keep of groups gets small ([`group_states`]) after all that. Casts are hidden from estimates last, when no other rule reads them. Wrong rules of the
//! optimiser are skipped ([`group_keys`], [`held_conditions`], [`distinct_sums`], [`grouping_sets`], [`known_aggregates`], [`null_keys`],
//! [`filter_columns`], [`equal_parts`], [`nested_limits`], [`offsets`], [`window_orders`], [`unique_keys`], [`window_limits`], [`unnested`]), or corrected afterwards
//! ([`sorted_inputs`], [`compact_strings`], [`guarded`], [`top_groups`], [`unpolled_partitions`], [`window_ranges`]).

mod action;
mod arithmetic;
mod assign_to;
mod assigned;
mod assignment;
mod beside_decimals;
mod casts;
mod compact_strings;
mod computed;
mod computed_keys;
mod computed_sets;
mod correlated;
mod csv_source;
mod distinct_sums;
mod doubles;
mod drawn;
mod empty_subqueries;
mod equal_parts;
mod filter_columns;
mod group_keys;
mod group_states;
mod grouped_outside;
mod grouping_sets;
mod guarded;
mod held_conditions;
mod known_aggregates;
mod lists;
mod moving_doubles;
mod nested_limits;
mod null_keys;
mod number;
mod numbers;
mod offsets;
mod outer_aggregates;
mod plan;
mod repeated_keys;
mod rounded;
mod rounded_casts;
mod rows_in_order;
mod self_ordered;
mod set_operations;
mod shifted_sums;
mod single_rows;
mod sorted_inputs;
mod subquery;
mod table_keys;
mod text_casts;
mod top_groups;
mod unique_keys;
mod unnested;
mod unpolled_partitions;
mod values_of_queries;
mod whole;
mod window_limits;
mod window_orders;
mod window_ranges;

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

use crate::time::{IntervalLengths, Microseconds, MomentTexts, OrderedWindows, Seconds};

pub(crate) use action::{ACTION, action};
pub(crate) use assign_to::assign_to;
pub(crate) use assignment::{argument, shown};
pub(crate) use correlated::is_of_row_outside;
pub(crate) use doubles::{CANONICAL, is_double, one_zero};
pub(crate) use number::{
    LONG_NUMBER, beside, exactly, has_more_digits, is_long, may_be_long, number_in,
};
pub(crate) use numbers::exact;
pub(crate) use plan::{
    EachOperator, guard_physical, map_under_names, schema_below, under_its_name, uses,
};
use plan::{Guard, PhysicalGuard, guard};

/// DataFusion's rule that computes `grouping(x)`. The one that casts operands to a common type comes after it.
const GROUPING: &str = "resolve_grouping_function";
/// DataFusion's rule for comparisons with ANY and ALL, which ours replaces.
const SET_COMPARISONS: &str = "rewrite_set_comparison";
/// DataFusion's rule that joins a LATERAL that it can.
const LATERALS_JOINED: &str = "decorrelate_lateral_join";
/// DataFusion's rule that merges lists.
const SIMPLIFIED: &str = "simplify_expressions";
/// DataFusion's physical rule after which the smaller side and the mode of each join are fixed.
pub(crate) const JOINS_SELECTED: &str = "join_selection";
/// DataFusion's physical rules that push filters of joins, aggregations and TopKs into scans. The last run comes after all that moves
/// operators.
pub(crate) const FILTERS_PUSHED: &str = "FilterPushdown";
/// DataFusion's physical rule before which all operators are placed. After it, filters that become known at run time go to the scans.
pub(crate) const OPERATORS_PLACED: &str = "EnsureCooperative";

/// DataFusion's logical rules that are wrong for some plans, and what is done in place of each.
const GUARDS: [(&str, Guard); 6] = [
    (group_keys::REPEATED, group_keys::of_columns),
    (null_keys::EXTRACTED, null_keys::extracted),
    (null_keys::ORDERED, null_keys::ordered),
    (held_conditions::PUSHED_DOWN, held_conditions::held),
    (distinct_sums::BY_GROUPS, distinct_sums::of_one_type),
    (unnested::JOINS_ELIMINATED, unnested::of_whole_rows),
];

/// Those among its physical rules.
const PHYSICAL_GUARDS: [(&str, PhysicalGuard); 5] = [
    (known_aggregates::KNOWN, known_aggregates::of_columns),
    (window_limits::LIMITS, window_limits::of_earlier_rows),
    (nested_limits::SORTS, nested_limits::with_limits),
    (offsets::SORTS, offsets::with_offsets),
    (
        filter_columns::PROJECTIONS,
        filter_columns::of_whole_filters,
    ),
];

/// Adds the rules of this module to a session.
pub(crate) fn add_to(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut rules = before_coercion();
    rules.extend(Analyzer::new().rules);
    let resolved = rules.iter().position(|rule| rule.name() == GROUPING);
    rules.insert(
        resolved.unwrap_or(rules.len()),
        Arc::new(computed_sets::ComputedSets),
    );
    rules.push(Arc::new(rounded::LastingType));
    rules.push(Arc::new(Microseconds));
    rules.push(Arc::new(text_casts::TextCasts));
    rules.push(Arc::new(MomentTexts));
    rules.push(Arc::new(rounded_casts::RoundedCasts));
    rules.push(Arc::new(moving_doubles::MovingDoubles));
    rules.push(Arc::new(IntervalLengths));
    rules.push(Arc::new(arithmetic::CheckArithmetic));
    rules.push(Arc::new(doubles::OneZero));
    rules.push(Arc::new(self_ordered::OrderThemselves));
    rules.push(Arc::new(guarded::Guarded));
    rules.push(Arc::new(computed_keys::ComputedKeys));
    *builder.analyzer() = Some(Analyzer::with_rules(rules));
    let rules = &mut builder.optimizer().get_or_insert_with(Optimizer::new).rules;
    rules.retain(|rule| rule.name() != SET_COMPARISONS);
    rules.insert(0, Arc::new(subquery::SubqueryPredicates));
    let simplified = rules.iter().position(|rule| rule.name() == SIMPLIFIED);
    rules.insert(simplified.unwrap_or(1), Arc::new(lists::ListsApart));
    let shared = rules
        .iter()
        .position(|rule| rule.name() == shifted_sums::BEFORE);
    rules.insert(shared.unwrap_or(rules.len()), Arc::new(shifted_sums::RULE));
    let joined = rules.iter().position(|rule| rule.name() == LATERALS_JOINED);
    rules.insert(
        joined.map_or(rules.len(), |place| place + 1),
        Arc::new(correlated::PlainInputs),
    );
    rules.push(Arc::new(repeated_keys::RULE));
    rules.push(Arc::new(group_states::RULE));
    rules.push(Arc::new(casts::RULE));
    for (name, guarding) in GUARDS {
        guard(&mut builder, name, guarding);
    }
    for (name, guarding) in PHYSICAL_GUARDS {
        guard_physical(&mut builder, name, guarding);
    }
    sorted_inputs::add_to(&mut builder);
    window_orders::add_to(&mut builder);
    unique_keys::add_to(&mut builder);
    equal_parts::add_to(&mut builder);
    grouping_sets::add_to(&mut builder);
    let optimizer = builder.physical_optimizers();
    let rules = &mut optimizer.get_or_insert_with(PhysicalOptimizer::new).rules;
    rules.push(Arc::new(unpolled_partitions::RULE));
    rules.push(Arc::new(top_groups::RULE));
    rules.push(Arc::new(window_ranges::RULE));
    rules.push(Arc::new(compact_strings::RULE));
    rules.push(Arc::new(guarded::LAST));
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
        Arc::new(outer_aggregates::OuterAggregates),
        Arc::new(grouped_outside::GroupedOutside),
        Arc::new(rows_in_order::RowsInOrder),
        Arc::new(table_keys::TableKeys),
        Arc::new(rounded::ConstantPlaces),
        Arc::new(action::ActionOnce),
        Arc::new(drawn::DrawnOnce),
        Arc::new(single_rows::SingleRows),
        Arc::new(empty_subqueries::EmptySubqueries),
        Arc::new(computed::ComputedBelow),
        Arc::new(set_operations::CountedCopies),
        Arc::new(correlated::Correlated),
        Arc::new(group_keys::GroupKeys),
        Arc::new(assignment::Assignment),
        Arc::new(values_of_queries::ValuesOfQueries),
        Arc::new(numbers::ExactNumbers),
        Arc::new(beside_decimals::BesideDecimals),
        Arc::new(Seconds),
        Arc::new(OrderedWindows),
    ]
}

/// Resolves the types of a plan as far as its parameters' types are known.
pub(crate) fn settle(plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
    before_coercion()
        .iter()
        .try_fold(plan, |plan, rule| rule.analyze(plan, config))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule that has another name in a new version of DataFusion would lose its guard.
    #[test]
    fn named_rules_exist() {
        let logical = Optimizer::new();
        let logical = |name: &str| logical.rules.iter().any(|rule| rule.name() == name);
        let guarded = GUARDS.map(|(name, _)| name);
        for name in guarded.into_iter().chain([
            SET_COMPARISONS,
            LATERALS_JOINED,
            SIMPLIFIED,
            shifted_sums::BEFORE,
        ]) {
            assert!(logical(name), "DataFusion has no logical rule {name}");
        }
        let analyzer = Analyzer::new();
        assert!(analyzer.rules.iter().any(|rule| rule.name() == GROUPING));
        let physical = PhysicalOptimizer::new();
        let physical = |name: &str| {
            physical
                .rules
                .iter()
                .any(|rule| rule.name().starts_with(name))
        };
        let guarded = PHYSICAL_GUARDS.map(|(name, _)| name);
        for name in guarded.into_iter().chain([
            sorted_inputs::CHECK,
            JOINS_SELECTED,
            FILTERS_PUSHED,
            OPERATORS_PLACED,
        ]) {
            assert!(physical(name), "DataFusion has no physical rule {name}");
        }
    }
}
