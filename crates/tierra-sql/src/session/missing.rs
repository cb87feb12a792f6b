//! What to say of a name that names no table: the one it resembles, or the file that is not there.

use std::path::Path;

use datafusion::common::utils::datafusion_strsim::normalized_levenshtein;

use crate::catalog::{CATALOG, SCHEMA};
use crate::error::SqlError;

/// How alike a name has to be to be suggested, from 0 to 1.
const ALIKE: f64 = 0.6;
/// What the names of files end in that a query reads.
const FILES: [&str; 6] = ["parquet", "csv", "json", "arrow", "avro", "gz"];

/// `error` with a hint, if it says that a table is not there; `tables` are those that are.
pub(super) fn explain(error: SqlError, tables: &[String]) -> SqlError {
    let SqlError::Query { message, .. } = &error else {
        return error;
    };
    let Some(name) = unknown_name(message) else {
        return error;
    };
    let hint = hint(&name, tables);
    SqlError::NoTable { table: name, hint }
}

/// The name that was not found, without what it was looked for in.
fn unknown_name(message: &str) -> Option<String> {
    let name = message
        .strip_prefix("table '")?
        .strip_suffix("' not found")?;
    let name = name.strip_prefix(&format!("{CATALOG}.")).unwrap_or(name);
    let name = name.strip_prefix(&format!("{SCHEMA}.")).unwrap_or(name);
    Some(name.to_string())
}

fn hint(name: &str, tables: &[String]) -> String {
    let path = Path::new(name);
    let extension = path.extension().and_then(|extension| extension.to_str());
    if extension.is_some_and(|extension| FILES.contains(&extension)) {
        return if path.exists() {
            format!(": to read the file, write FROM '{name}'")
        } else {
            ", and there is no file of that name".to_string()
        };
    }
    let alike = tables
        .iter()
        .map(|table| (normalized_levenshtein(name, table), table))
        .filter(|(alike, _)| *alike >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match alike {
        Some((_, table)) => format!(": is it '{table}'?"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(message: &str) -> String {
        let error = SqlError::Query {
            message: message.to_string(),
            source: message.into(),
        };
        explain(error, &["lineorder".to_string(), "part".to_string()]).to_string()
    }

    #[test]
    fn a_name_is_told_as_it_was_written_and_a_likely_one_beside_it() {
        assert_eq!(
            said("table 'tierra.public.linorder' not found"),
            "table 'linorder' not found: is it 'lineorder'?"
        );
        assert_eq!(
            said("table 'tierra.public.u' not found"),
            "table 'u' not found"
        );
        assert_eq!(
            said("table 'tierra.public.nosuch.parquet' not found"),
            "table 'nosuch.parquet' not found, and there is no file of that name"
        );
        assert_eq!(said("division by zero"), "division by zero");
    }
}
