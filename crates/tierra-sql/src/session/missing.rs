//! Hints for a name without a table: the most similar name, or the missing file.

use std::path::Path;

use datafusion::common::utils::datafusion_strsim::normalized_levenshtein;

use super::files::{JSON, PACKED, has_ending};
use crate::error::SqlError;
use crate::names::{CATALOG, SCHEMA};

/// The similarity from which a name is suggested, from 0 to 1.
const ALIKE: f64 = 0.6;
/// File extensions other than those of JSON and of compressed files.
const FILES: [&str; 7] = ["parquet", "csv", "tsv", "arrow", "arrows", "ipc", "feather"];

/// `error` with a hint, if it says that a table does not exist; `tables` are the existing ones. Nothing is told of files to a session
/// that `refuses_files`.
pub(super) fn explain(error: SqlError, tables: &[String], refuses_files: bool) -> SqlError {
    let SqlError::Query { message, .. } = &error else {
        return error;
    };
    let Some(name) = unknown_name(message) else {
        return error;
    };
    let hint = match refuses_files {
        true => suggestion(&name, tables),
        false => hint(&name, tables),
    };
    SqlError::NoTable { table: name, hint }
}

/// The name that was not found, without its catalog and schema.
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
    let is_readable = has_ending(path, &FILES) || has_ending(path, &JSON);
    let is_packed = has_ending(path, &PACKED);
    match path.is_file() {
        true if is_readable => return format!(": to read the file, write FROM '{name}'"),
        true if is_packed => {
            return ": the file of that name is compressed; unpack it first".to_string();
        }
        true => {
            return ": the file of that name is neither Parquet nor Arrow IPC, and its name does not end in .csv, .tsv \
                    or .json; convert or rename it"
                .to_string();
        }
        false if is_readable || is_packed => {
            return ", and there is no file of that name".to_string();
        }
        false => {}
    }
    suggestion(name, tables)
}

/// The most similar name of a table.
fn suggestion(name: &str, tables: &[String]) -> String {
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
        explain(error, &["lineorder".to_string(), "part".to_string()], false).to_string()
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
