//! DataFusion's settings that a session must not change: Tierra fixes them, or nothing reads them.

use crate::error::DefinitionError;

const ONE_WAY: &str = "Tierra reads SQL in one way";

/// Prefixes of their names, and what to do instead.
const FIXED: &[(&str, &str)] = &[
    (
        "datafusion.execution.batch_size",
        "SET tierra.batch_rows; DataFusion's setting follows it",
    ),
    (
        "datafusion.execution.target_partitions",
        "SET tierra.threads; DataFusion's setting follows it",
    ),
    (
        "datafusion.execution.planning_concurrency",
        "SET tierra.threads; DataFusion's setting follows it",
    ),
    ("datafusion.runtime.memory_limit", "SET tierra.query_memory"),
    (
        "datafusion.execution.time_zone",
        "instants are shown in UTC; write AT TIME ZONE '..' for another zone",
    ),
    (
        "datafusion.execution.enable_ansi_mode",
        "nothing that Tierra runs reads it",
    ),
    (
        "datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown",
        "DataFusion's filter of aggregates leaves rows out, so it stays off",
    ),
    (
        "datafusion.optimizer.skip_failed_rules",
        "a rule that fails is an error",
    ),
    (
        "datafusion.catalog.",
        "a database has one catalog, 'tierra', with one schema, 'public'",
    ),
    ("datafusion.sql_parser.collect_spans", ONE_WAY),
    ("datafusion.sql_parser.dialect", ONE_WAY),
    ("datafusion.sql_parser.enable_ident_normalization", ONE_WAY),
    (
        "datafusion.sql_parser.enable_options_value_normalization",
        ONE_WAY,
    ),
    (
        "datafusion.sql_parser.enable_subquery_sort_elimination",
        ONE_WAY,
    ),
    (
        "datafusion.sql_parser.map_string_types_to_utf8view",
        ONE_WAY,
    ),
    ("datafusion.sql_parser.recursion_limit", ONE_WAY),
    ("datafusion.sql_parser.support_varchar_with_length", ONE_WAY),
    (
        "datafusion.format.",
        "values are printed as the client prints them",
    ),
    ("datafusion.spark.", "nothing that Tierra runs reads it"),
];

/// Refuses to change `setting` if it is one of these.
pub(super) fn refuse(setting: &str) -> Result<(), DefinitionError> {
    let fixed = FIXED.iter().find(|(name, _)| setting.starts_with(name));
    match fixed {
        Some((_, instead)) => Err(DefinitionError::FixedSetting {
            setting: setting.to_string(),
            instead,
        }),
        None => Ok(()),
    }
}
