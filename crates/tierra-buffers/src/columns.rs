//! What a buffer is to the engine: a table with a column of positions and one of values.

use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Replicas, TableSpec};

/// The columns, by their places in the table.
pub(crate) const POSITION: usize = 0;
pub(crate) const VALUE: usize = 1;
const NAMES: [&str; 2] = ["position", "value"];

/// The table of a buffer. `near` is about the copy of its values in near memory.
pub(crate) fn spec(name: &str, near: Option<bool>) -> TableSpec {
    let column = |at: usize, near| ColumnSpec {
        near,
        ..ColumnSpec::new(NAMES[at], LogicalType::BigInt).not_null()
    };
    TableSpec {
        name: name.to_owned(),
        // Positions are read once for each segment.
        columns: vec![column(POSITION, Some(false)), column(VALUE, near)],
        primary_key: Vec::new(),
    }
}

/// Whether a table is a buffer.
pub(crate) fn is_buffer(spec: &TableSpec) -> bool {
    let mut columns = spec.columns.iter().zip(NAMES);
    spec.columns.len() == NAMES.len()
        && spec.primary_key.is_empty()
        && columns.all(|(column, name)| {
            column.name == name && column.ty == LogicalType::BigInt && !column.nullable
        })
}

/// Where its table has copies. Each tier of the values' replicas has all that they need.
pub(crate) fn placement(replicas: &[&str]) -> Replicas {
    let mut tiers: Vec<String> = Vec::new();
    for replica in replicas {
        let tier = replica.split('/').next().unwrap_or(replica).to_owned();
        if !tiers.contains(&tier) {
            tiers.push(tier);
        }
    }
    let positions = tiers.iter().map(|tier| format!("{tier}/delta")).collect();
    let values = replicas.iter().map(|it| (*it).to_owned()).collect();
    let columns: [(usize, Vec<String>); 2] = [(POSITION, positions), (VALUE, values)];
    let columns = columns.into_iter().filter(|(_, tiers)| !tiers.is_empty());
    Replicas {
        columns: columns
            .map(|(at, tiers)| (NAMES[at].to_owned(), tiers))
            .collect(),
        table: tiers,
    }
}
