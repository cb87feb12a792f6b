//! The thesis's columns, and a database with far tiers that keeps them under policies.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tempfile::TempDir;
use tierra_column::LogicalType;
use tierra_engine::{ColumnSpec, Database, DatabaseOptions, Table, TableSpec};
use tierra_memory::Speed;
use tierra_memory::placement::LineTimes;

use super::policy::Policy;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::random::Random;

/// Rows loaded at a time.
const BATCH_ROWS: usize = 1 << 17;
/// Far tiers beside the first, unless an experiment has others.
const TIERS: [&str; 1] = ["b"];
/// Lines of a tier that is not read if there is another.
const NEVER_READ: LineTimes = LineTimes {
    in_order_ns: 1e9,
    alone_ns: 1e9,
};
/// The column's name.
pub(super) const COLUMN: &str = "v";

/// How the values of a column are distributed; named for what they are to dynamic packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    /// Uniform numbers of 32 bits.
    Dyn32,
    /// Of 8 bits; one in a thousand has 32.
    Dyn8,
}

impl Distribution {
    pub(super) const ALL: [Distribution; 2] = [Distribution::Dyn32, Distribution::Dyn8];

    /// Its name in the thesis.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Distribution::Dyn32 => "DYN32",
            Distribution::Dyn8 => "DYN8",
        }
    }

    /// That many values.
    pub(super) fn values(self, count: usize) -> Vec<i64> {
        let mut random = Random::new(SEED);
        let mut value = || match self {
            Distribution::Dyn8 if random.below(1000) > 0 => random.below(1 << 8),
            Distribution::Dyn32 | Distribution::Dyn8 => random.below(1 << 32),
        };
        (0..count).map(|_| value() as i64).collect()
    }

    /// About a tenth of the values are no greater.
    pub(super) const fn tenth(self) -> i64 {
        match self {
            Distribution::Dyn32 => (1 << 32) / 10,
            Distribution::Dyn8 => 25,
        }
    }
}

/// A database in memory.
pub(super) struct Store {
    database: Arc<Database>,
    // Removed last.
    _folder: TempDir,
}

impl Store {
    /// Without tables. Loads encode with so many threads.
    pub(super) fn create(lab: &Lab, threads: usize) -> Result<Store, LabError> {
        Store::with_tiers(lab, threads, &TIERS)
    }

    /// The same, with these far tiers beside the first.
    pub(super) fn with_tiers(lab: &Lab, threads: usize, tiers: &[&str]) -> Result<Store, LabError> {
        let folder = lab.folder_in_memory()?;
        let options = DatabaseOptions {
            threads: NonZeroUsize::new(threads),
            // The columns say where they lie.
            near_memory_bytes: Some(u64::MAX / 2),
            ..DatabaseOptions::default()
        };
        let database = Database::create(&folder.path().join("db"), &options);
        let database = database.by(Tierra::ENGINE, "creating a database")?;
        for tier in tiers {
            let pool = folder.path().join(tier).with_extension("pool");
            let added = database.add_tier(tier, &pool);
            added.by(Tierra::ENGINE, "adding a tier")?;
        }
        Ok(Store {
            database,
            _folder: folder,
        })
    }

    pub(super) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// An empty table of one column.
    pub(super) fn table(&self, name: &str, policy: &Policy) -> Result<Arc<Table>, LabError> {
        let spec = TableSpec {
            name: name.to_owned(),
            columns: vec![ColumnSpec::new(COLUMN, LogicalType::BigInt).not_null()],
            primary_key: vec![],
        };
        self.create_table(spec, policy, LogicalType::BigInt)
    }

    /// An empty table whose columns lie where a policy says. Those of one type have its encodings, too.
    pub(super) fn create_table(
        &self,
        mut spec: TableSpec,
        policy: &Policy,
        encoded: LogicalType,
    ) -> Result<Arc<Table>, LabError> {
        let asked = policy.asked();
        for column in &mut spec.columns {
            column.near = Some(asked.near);
            column.near_encoding = asked.near_encoding.filter(|_| column.ty == encoded);
        }
        let columns = spec.columns.iter();
        let columns = columns.filter(|column| column.ty == encoded);
        let replicas = policy.replicas(columns.map(|column| column.name.as_str()));
        let table = self.database.create_table_in(spec, replicas);
        table.by(
            Tierra::ENGINE,
            format!("creating a table with copies {policy}"),
        )
    }

    /// The same with these values.
    pub(super) fn filled(
        &self,
        name: &str,
        policy: &Policy,
        values: &ArrayRef,
    ) -> Result<Arc<Table>, LabError> {
        let table = self.table(name, policy)?;
        load(&table, batches(&table, values, BATCH_ROWS)?)?;
        // A few rows would wait in the tail, which has no copies of columns.
        table.seal().by(Tierra::ENGINE, "sealing")?;
        Ok(table)
    }

    /// Waits for near copies.
    pub(super) fn settle(&self) -> Result<(), LabError> {
        let settled = self.database.wait_for_near_copies();
        settled.by(Tierra::ENGINE, "copying rows near")
    }

    /// Has the replicas chosen that are read, for the memory that is emulated now.
    pub(super) fn choose_replicas(&self) -> Result<(), LabError> {
        let chosen = self.database.choose_replicas();
        chosen.by(Tierra::ENGINE, "choosing replicas")?;
        self.settle()
    }

    /// Has the replicas of one far tier read, wherever a column has one there.
    pub(super) fn choose_replicas_in(&self, tier: &str) -> Result<(), LabError> {
        let others = || {
            let all = self.database.tiers_without_page_sizes().into_iter();
            let far = all.filter(|info| info.speed == Speed::Far);
            far.map(|info| info.name).filter(|other| *other != tier)
        };
        let assume = |times| {
            others().try_for_each(|other| {
                let assumed = self.database.assume_line_times(&other, times);
                assumed.by(Tierra::ENGINE, format!("assuming the times of {other}"))
            })
        };
        assume(Some(NEVER_READ))?;
        let chosen = self.choose_replicas();
        assume(None)?;
        chosen
    }

    /// Waits for near copies, and drops a table.
    pub(super) fn drop_table(&self, table: Arc<Table>) -> Result<(), LabError> {
        let name = table.spec().name.clone();
        drop(table);
        self.settle()?;
        let dropped = self.database.drop_table(&name);
        dropped.by(Tierra::ENGINE, "dropping a table")
    }

    /// Bytes written to all far tiers since the database was made.
    pub(super) fn written_bytes(&self) -> u64 {
        let tiers = self.database.tiers_without_page_sizes();
        let written = tiers.iter().filter_map(|tier| tier.written());
        written.map(|written| written.bytes).sum()
    }
}

/// Loads rows: all are durable at once.
pub(super) fn load(table: &Arc<Table>, batches: Vec<RecordBatch>) -> Result<(), LabError> {
    let mut loader = table.loader();
    for batch in batches {
        loader.push(batch).by(Tierra::ENGINE, "loading")?;
    }
    loader.finish().by(Tierra::ENGINE, "loading")?;
    Ok(())
}

/// Values as a column.
pub(super) fn array(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

/// A column as batches of so many rows for a table.
pub(super) fn batches(
    table: &Table,
    values: &ArrayRef,
    rows: usize,
) -> Result<Vec<RecordBatch>, LabError> {
    let batch = |first: usize| {
        let part = values.slice(first, rows.min(values.len() - first));
        RecordBatch::try_new(table.schema(), vec![part]).by("Arrow", "making rows")
    };
    (0..values.len()).step_by(rows).map(batch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_those_of_the_thesis() {
        const COUNT: usize = 100_000;
        for distribution in Distribution::ALL {
            let values = distribution.values(COUNT);
            let share = |is: &dyn Fn(i64) -> bool| {
                values.iter().filter(|value| is(**value)).count() as f64 / COUNT as f64
            };
            assert!((share(&|value| value <= distribution.tenth()) - 0.1).abs() < 0.01);
            let wide = share(&|value| value >= 1 << 8);
            match distribution {
                Distribution::Dyn32 => assert!(wide > 0.999),
                Distribution::Dyn8 => assert!((wide - 0.001).abs() < 0.0005, "{wide}"),
            }
        }
    }
}
