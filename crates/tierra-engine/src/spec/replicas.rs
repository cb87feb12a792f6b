//! Replica placement: the tiers with copies of a table, by name for users, and by number in manifests.

use std::collections::BTreeMap;

/// The most tiers of a database.
pub(crate) const TIERS_MOST: usize = 64;
/// The most copies of an extent: as many as a replica set writes.
pub(crate) const COPIES_MOST: usize = 1 + tierra_memory::replication::MAX_REPLICAS;

/// The number of a tier in its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TierId(pub(crate) u32);

impl TierId {
    /// The first tier of a database.
    pub(crate) const FIRST: TierId = TierId(0);
}

/// The tiers in which a table's extents should have copies; the first is written first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaPlacement {
    pub(crate) table: Vec<TierId>,
    /// Of columns with a placement of their own, by position.
    pub(crate) columns: BTreeMap<usize, Vec<TierId>>,
}

impl Default for ReplicaPlacement {
    fn default() -> ReplicaPlacement {
        ReplicaPlacement {
            table: vec![TierId::FIRST],
            columns: BTreeMap::new(),
        }
    }
}

impl ReplicaPlacement {
    /// Of a column's chunks.
    pub(crate) fn of_column(&self, column: usize) -> &[TierId] {
        self.columns.get(&column).unwrap_or(&self.table)
    }

    /// For data that all columns need: the tiers of all columns, up to the most copies.
    pub(crate) fn everywhere(&self) -> Vec<TierId> {
        let mut all = self.table.clone();
        for tier in self.columns.values().flatten() {
            if !all.contains(tier) && all.len() < COPIES_MOST {
                all.push(*tier);
            }
        }
        all
    }
}

/// The tiers in which a table has copies, by name.
///
/// The first tier holds the master, which is written first, and read unless it is faulty. A tier that is missing when rows are
/// written gets its copies when it is back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replicas {
    /// Of the whole table; empty: the database's first tier.
    pub table: Vec<String>,
    /// Of the chunks of single columns, by column name, instead of the table's.
    pub columns: BTreeMap<String, Vec<String>>,
}

/// Tiers that cannot hold a table's copies.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplicasError {
    /// No tier of that name.
    #[error("there is no tier {tier:?}: the tiers are {known}; add it first")]
    Tier {
        /// The name.
        tier: String,
        /// The known tiers.
        known: String,
    },
    /// A missing tier.
    #[error("tier {tier:?} is missing ({why}): bring it back, or choose another")]
    Missing {
        /// The name.
        tier: String,
        /// What was found instead.
        why: String,
    },
    /// The same tier twice.
    #[error("tier {tier:?} is named twice: each copy needs a tier of its own")]
    Twice {
        /// The name.
        tier: String,
    },
    /// More copies than a replica set has.
    #[error("{copies} copies were asked for: at most {COPIES_MOST} are possible")]
    Copies {
        /// The number of copies.
        copies: usize,
    },
    /// No column of that name.
    #[error("table {table:?} has no column {column:?} that could have copies of its own")]
    Column {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// A column without any tier.
    #[error("column {column:?} is to have copies in no tier: name at least one")]
    None {
        /// The column.
        column: String,
    },
}

impl Replicas {
    /// Copies of the whole table in these tiers, the master's first.
    pub fn of_table<N: Into<String>>(tiers: impl IntoIterator<Item = N>) -> Replicas {
        Replicas {
            table: tiers.into_iter().map(Into::into).collect(),
            columns: BTreeMap::new(),
        }
    }
}
