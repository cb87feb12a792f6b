//! Why a table cannot have the definition that a statement or a file asks for.

use tierra_column::Encoding;

/// Why a table cannot be created, altered or dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A type without a column type in Tierra.
    #[error(
        "column '{column}': type {ty} is not supported; use BOOLEAN, INTEGER, BIGINT, DECIMAL(p, s), \
         DOUBLE, DATE, TIMESTAMP or VARCHAR"
    )]
    UnsupportedType {
        /// The column.
        column: String,
        /// Its type as written.
        ty: String,
    },
    /// A type with a limit that is not enforced.
    #[error("column '{column}': {ty} is not enforced; use {instead}")]
    UnenforcedType {
        /// The column.
        column: String,
        /// Its type as written.
        ty: String,
        /// The type without the limit.
        instead: tierra_column::LogicalType,
    },
    /// `DECIMAL(p, s)` outside what 16 bytes hold.
    #[error(
        "column '{column}': DECIMAL({precision}, {scale}) needs 1 <= precision <= 38 and 0 <= scale <= precision"
    )]
    DecimalBounds {
        /// The column.
        column: String,
        /// Digits in all.
        precision: i64,
        /// Digits after the point.
        scale: i64,
    },
    /// A key or option that names no column.
    #[error(
        "{what} names column '{column}', which table '{table}' does not have; its columns are {columns}"
    )]
    UnknownColumn {
        /// The primary key or the option that names it.
        what: String,
        /// The unknown name.
        column: String,
        /// The table.
        table: String,
        /// The names of the table's columns.
        columns: String,
    },
    /// `WITH (..)` with something unknown.
    #[error(
        "option '{option}' is unknown; write 'COLUMN.encoding' = '{}', 'COLUMN.tier' = 'near|far', 'COLUMN.near_encoding' = 'ENCODING', 'COLUMN.index' = 'inverted', 'replicas' = 'TIER, ..' or 'COLUMN.replicas' = 'TIER, ..'",
        Encoding::ALL.map(Encoding::name).join("|")
    )]
    UnknownOption {
        /// The option as written.
        option: String,
    },
    /// A known option with a wrong value.
    #[error("option '{option}' cannot be '{value}'; valid are {valid}")]
    OptionValue {
        /// The option as written.
        option: String,
        /// Its value as written.
        value: String,
        /// The valid values.
        valid: &'static str,
    },
    /// ALTER TABLE of an option that is fixed when the table is created.
    #[error(
        "option '{option}' of a table cannot be changed; 'replicas' and 'COLUMN.replicas' can be"
    )]
    Fixed {
        /// The option as written.
        option: String,
    },
    /// A clause that Tierra does not have.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// A statement that Tierra does not have, and its replacement.
    #[error("{what} is not supported: {instead}")]
    UnsupportedFor {
        /// The statement.
        what: &'static str,
        /// What to write instead.
        instead: &'static str,
    },
    /// A setting of DataFusion's that Tierra fixes.
    #[error("setting {setting} cannot be changed: {instead}")]
    FixedSetting {
        /// The setting.
        setting: String,
        /// The reason, or the setting to use instead.
        instead: &'static str,
    },
    /// More than one PRIMARY KEY.
    #[error("table '{0}' has more than one PRIMARY KEY")]
    TwoKeys(String),
    /// CREATE TABLE AS with timestamps with a time zone; no column keeps the zone.
    #[error(
        "column '{0}': TIMESTAMP WITH TIME ZONE has no column; CAST(.. AS TIMESTAMP) keeps it in UTC"
    )]
    Zone(String),
    /// CREATE TABLE without columns.
    #[error("table '{0}' needs at least one column")]
    NoColumns(String),
    /// A name reserved for the tables that describe the database.
    #[error("table '{0}': names that begin with 'tierra_' are the database's own; choose another")]
    Reserved(String),
    /// A table to register has the name of one of the database's.
    #[error("the database has a table '{0}': register under another name")]
    Exists(String),
    /// There is no such table.
    #[error("table '{0}' does not exist")]
    NoSuchTable(String),
}
