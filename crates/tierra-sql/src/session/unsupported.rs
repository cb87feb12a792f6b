//! Statements of other databases that Tierra does not have, and their replacements.

use datafusion::logical_expr::DdlStatement;
use datafusion::sql::sqlparser::ast::{ObjectType, Statement};

use crate::error::DefinitionError;

/// Any ALTER TABLE except the supported one.
pub(super) const ALTER: DefinitionError = DefinitionError::UnsupportedFor {
    what: "ALTER TABLE .. other than SET ('replicas' = '..')",
    instead: "CREATE TABLE another AS SELECT .., and drop the first",
};

/// Loading rows from a file.
pub(super) const COPY_FROM: DefinitionError = DefinitionError::UnsupportedFor {
    what: "COPY .. FROM",
    instead: "INSERT INTO table SELECT * FROM 'file.csv', or `tierra load TABLE FILE.. --db DIR`",
};

/// EXPLAIN ANALYZE would run the query of the rows and change nothing.
pub(super) const EXPLAIN_ANALYZE: DefinitionError = DefinitionError::UnsupportedFor {
    what: "EXPLAIN ANALYZE of a statement that changes rows",
    instead: "EXPLAIN shows the query for its rows; EXPLAIN ANALYZE a SELECT with the same WHERE",
};

/// Why `statement` is not supported, if it is one of these.
pub(super) fn statement(statement: &Statement) -> Option<DefinitionError> {
    let (what, instead) = match statement {
        Statement::Vacuum { .. } => ("VACUUM", "nothing needs cleaning up by hand; leave it out"),
        Statement::Analyze { .. } => (
            "ANALYZE",
            "statistics are kept as rows are written; leave it out (EXPLAIN ANALYZE shows how a query runs)",
        ),
        Statement::CreateSchema { .. } | Statement::CreateDatabase { .. } => (
            "CREATE SCHEMA or CREATE DATABASE",
            "a database is a directory with one schema; `tierra sql --create --db DIR` makes another",
        ),
        Statement::CreateIndex { .. } => (
            "CREATE INDEX",
            "CREATE TABLE with PRIMARY KEY, or with ('COLUMN.index' = 'inverted')",
        ),
        Statement::ShowCreate { .. } => (
            "SHOW CREATE",
            "DESCRIBE table shows columns and types, .schema in the shell of `tierra sql` the whole statement",
        ),
        Statement::Use(_) | Statement::ShowDatabases { .. } => (
            "USE or SHOW DATABASES",
            "a database is a directory; `tierra sql --db DIR` opens another",
        ),
        Statement::Drop { object_type, .. } if *object_type != ObjectType::Table => (
            "DROP of anything but tables and tiers",
            "there is nothing else",
        ),
        _ => return None,
    };
    Some(DefinitionError::UnsupportedFor { what, instead })
}

/// Why a planned definition is not supported.
pub(super) fn definition(ddl: &DdlStatement) -> DefinitionError {
    let (what, instead) = match ddl {
        DdlStatement::CreateView(_) => ("CREATE VIEW", "use WITH name AS (query)"),
        DdlStatement::CreateExternalTable(_) => (
            "CREATE EXTERNAL TABLE",
            "query FROM 'file.parquet', or CREATE TABLE name AS SELECT * FROM 'file.parquet'",
        ),
        other => return DefinitionError::Unsupported(other.name().to_string()),
    };
    DefinitionError::UnsupportedFor { what, instead }
}
