//! The specification of a table: names, types, key, and the requested encodings and placement.
//!
//! Invariant: a [`TableSpec`] that passed [`TableSpec::check`] can be stored and read back; names and positions are not checked
//! again.

pub(crate) mod index_kind;
pub(crate) mod replicas;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use tierra_column::{Encoding, LogicalType};

use crate::spec::index_kind::IndexKind;

/// The most columns of a table.
pub const MAX_COLUMNS: usize = 16_384;
/// The most bytes of a table's or a column's name.
pub const MAX_NAME_BYTES: usize = 1_024;

/// One column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnSpec {
    /// Unique in its table.
    pub name: String,
    /// SQL type.
    pub ty: LogicalType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// The encoding of every chunk; `None`: chosen for each chunk by its values.
    pub encoding: Option<Encoding>,
    /// `Some(true)`: copied near before others; `Some(false)`: never; `None`: while the budget lasts.
    pub near: Option<bool>,
    /// The encoding of near copies; `None`, and for chunks with codes of a dictionary: the one in which the chunk is stored.
    pub near_encoding: Option<Encoding>,
    /// An index stored beside the chunks. It needs encoding `dictionary`, which is the default then.
    pub index: Option<IndexKind>,
}

impl ColumnSpec {
    /// A nullable column whose encoding and placement Tierra chooses.
    pub fn new(name: impl Into<String>, ty: LogicalType) -> Self {
        Self {
            name: name.into(),
            ty,
            nullable: true,
            encoding: None,
            near: None,
            near_encoding: None,
            index: None,
        }
    }

    /// The same column, NOT NULL.
    #[must_use]
    pub fn not_null(mut self) -> Self {
        self.nullable = false;
        self
    }
}

/// A table: its name, columns and key.
#[derive(Clone, Debug, PartialEq)]
pub struct TableSpec {
    /// Unique in its database.
    pub name: String,
    /// In the order of the schema; at least one.
    pub columns: Vec<ColumnSpec>,
    /// Positions of the key's columns, in the key's order; empty without a key. Key columns are NOT NULL.
    pub primary_key: Vec<usize>,
}

/// An invalid specification.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpecError {
    /// Too few or too many columns.
    #[error("table {table:?} has {columns} columns: between 1 and {MAX_COLUMNS} are possible")]
    ColumnCount {
        /// The table.
        table: String,
        /// Columns specified.
        columns: usize,
    },
    /// A name that is empty or too long.
    #[error("the name {name:?} has {} bytes: between 1 and {MAX_NAME_BYTES} are possible", name.len())]
    Name {
        /// The name.
        name: String,
    },
    /// Two columns of the same name.
    #[error("table {table:?} has two columns named {column:?}: rename one")]
    DuplicateColumn {
        /// The table.
        table: String,
        /// The duplicate name.
        column: String,
    },
    /// The key names a column that does not exist, is named twice, or is nullable.
    #[error("the primary key of table {table:?} cannot use column {column}: {why}")]
    Key {
        /// The table.
        table: String,
        /// The column's name, or its position if it does not exist.
        column: String,
        /// The broken rule.
        why: &'static str,
    },
    /// A DECIMAL type that does not fit into 128 bits.
    #[error(
        "column {column:?}: DECIMAL({precision},{scale}) needs a precision of 1 to 38 and a scale of at most the precision"
    )]
    Decimal {
        /// The column.
        column: String,
        /// Digits specified.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// An index on a column that is not dictionary-encoded.
    #[error(
        "column {column:?}: an {index} index needs encoding dictionary, not {encoding}: leave the encoding out, or the index"
    )]
    Index {
        /// The column.
        column: String,
        /// The specified index.
        index: IndexKind,
        /// The specified encoding.
        encoding: Encoding,
    },
    /// An index on a column whose type has no dictionary.
    #[error(
        "column {column:?}: {ty} cannot have an {index} index, which needs a dictionary: leave the index out"
    )]
    IndexType {
        /// The column.
        column: String,
        /// Its type.
        ty: LogicalType,
        /// The specified index.
        index: IndexKind,
    },
    /// An encoding for the near copies of a column that is stored as codes of a dictionary, or these codes for those of another.
    #[error(
        "column {column:?}: its near copies cannot have encoding {encoding}: chunks with codes of a dictionary are copied as they are, and no others have codes; leave the near encoding out"
    )]
    NearEncoding {
        /// The column.
        column: String,
        /// The encoding specified for near copies.
        encoding: Encoding,
    },
    /// An encoding that the column's type does not have.
    #[error(
        "column {column:?}: {ty} cannot be stored with encoding {encoding}: choose plain, or leave the choice to Tierra"
    )]
    Encoding {
        /// The column.
        column: String,
        /// Its type.
        ty: LogicalType,
        /// The specified encoding.
        encoding: Encoding,
    },
}

impl TableSpec {
    /// Checks the specification.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), SpecError> {
        check_name(&self.name)?;
        if self.columns.is_empty() || self.columns.len() > MAX_COLUMNS {
            return Err(SpecError::ColumnCount {
                table: self.name.clone(),
                columns: self.columns.len(),
            });
        }
        let mut names = HashSet::with_capacity(self.columns.len());
        for column in &self.columns {
            check_name(&column.name)?;
            if !names.insert(column.name.as_str()) {
                return Err(SpecError::DuplicateColumn {
                    table: self.name.clone(),
                    column: column.name.clone(),
                });
            }
            if let LogicalType::Decimal { precision, scale } = column.ty
                && !(1..=38).contains(&precision) | (scale > precision)
            {
                return Err(SpecError::Decimal {
                    column: column.name.clone(),
                    precision,
                    scale,
                });
            }
            let has_codes =
                column.index.is_some() || column.encoding.is_some_and(Encoding::uses_dictionary);
            if let Some(encoding) = column.near_encoding
                && (has_codes || encoding.uses_dictionary())
            {
                return Err(SpecError::NearEncoding {
                    column: column.name.clone(),
                    encoding,
                });
            }
            if let Some(index) = column.index
                && let Some(encoding) = column.encoding
                && !encoding.uses_dictionary()
            {
                return Err(SpecError::Index {
                    column: column.name.clone(),
                    index,
                    encoding,
                });
            }
        }
        for (position, key) in self.primary_key.iter().enumerate() {
            let fault = |column: String, why| SpecError::Key {
                table: self.name.clone(),
                column,
                why,
            };
            let Some(column) = self.columns.get(*key) else {
                return Err(fault(key.to_string(), "the table has no such column"));
            };
            if column.nullable {
                return Err(fault(
                    format!("{:?}", column.name),
                    "a key column is NOT NULL",
                ));
            }
            if self.primary_key[..position].contains(key) {
                return Err(fault(format!("{:?}", column.name), "it comes twice"));
            }
        }
        Ok(())
    }

    /// The same table with implied settings: an index implies a dictionary.
    pub(crate) fn settled(mut self) -> Self {
        for column in &mut self.columns {
            if column.index.is_some() {
                column.encoding.get_or_insert(Encoding::Dictionary);
            }
        }
        self
    }

    /// The columns that have an index.
    pub(crate) fn indexed_columns(&self) -> impl Iterator<Item = usize> {
        let indexed = |(at, column): (usize, &ColumnSpec)| column.index.map(|_| at);
        self.columns.iter().enumerate().filter_map(indexed)
    }

    /// Checks that every column's type has the specified encoding. Only for new tables: older ones may break this rule and can be
    /// read.
    pub(crate) fn check_encodings(&self) -> Result<(), SpecError> {
        for ColumnSpec {
            name,
            ty,
            encoding,
            near_encoding,
            index,
            ..
        } in &self.columns
        {
            if let Some(index) = index.filter(|_| !Encoding::Dictionary.supports(*ty)) {
                return Err(SpecError::IndexType {
                    column: name.clone(),
                    ty: *ty,
                    index,
                });
            }
            let mut encodings = encoding.iter().chain(near_encoding);
            if let Some(&encoding) = encodings.find(|encoding| !encoding.supports(*ty)) {
                return Err(SpecError::Encoding {
                    column: name.clone(),
                    ty: *ty,
                    encoding,
                });
            }
        }
        Ok(())
    }

    /// The schema of the table's batches.
    pub fn schema(&self) -> SchemaRef {
        let field =
            |column: &ColumnSpec| Field::new(&column.name, column.ty.arrow(), column.nullable);
        Arc::new(Schema::new(
            self.columns.iter().map(field).collect::<Vec<_>>(),
        ))
    }
}

fn check_name(name: &str) -> Result<(), SpecError> {
    match name.len() {
        1..=MAX_NAME_BYTES => Ok(()),
        _ => Err(SpecError::Name {
            name: name.chars().take(64).collect(),
        }),
    }
}
