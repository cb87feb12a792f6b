//! The demo's tables: the five of SSB, `wide` for reading whole rows, `keys` for an IN-predicate.

use tierra::Database;
use tierra_column::Encoding;
use tierra_data::{Scale, Source, ssb, wide::Wide};

use crate::cli::{
    CommandError,
    generate::{begin_table, load, load_batches},
    interrupt::Interrupt,
    produce,
};

/// Near memory per row of `lineorder`: about half of its columns, so that every query reads from both tiers.
const NEAR_BYTES_PER_ROW: u64 = 12;

/// The tables that the demo generates at a scale.
pub(super) struct DemoData {
    /// SSB's scale.
    pub(super) scale: Scale,
    /// 1,000 columns, read a row at a time by key.
    pub(super) wide: Wide,
    /// Two columns; the first has a large dictionary, in which a long IN-list is looked up.
    pub(super) keys: Wide,
}

impl DemoData {
    /// The tables at `scale`. At 0.1 `wide` reaches its largest size.
    pub(super) fn of(scale: Scale) -> Self {
        let wide_rows = (1_000_000.0 * scale.factor()).clamp(1_000.0, 100_000.0) as u32;
        let keys_rows = (20_000_000.0 * scale.factor()).clamp(20_000.0, 50_000_000.0) as u32;
        let keys = Wide::new(keys_rows, 2);
        // Four times as many possible values as rows: most values of an IN-list match nothing.
        let keys_bits = keys_rows.next_power_of_two().trailing_zeros() + 2;
        Self {
            scale,
            wide: Wide::new(wide_rows, 1_000),
            keys: keys.with_value_bits(keys_bits),
        }
    }

    /// A near-memory budget with which columns are in both tiers.
    pub(super) fn near_bytes(&self) -> u64 {
        ssb::Table::Lineorder.rows(self.scale) * NEAR_BYTES_PER_ROW
    }

    /// Creates and fills all tables.
    pub(super) fn load(
        &self,
        database: &Database,
        interrupt: &Interrupt,
    ) -> Result<(), CommandError> {
        for source in ssb::Table::ALL {
            let (name, schema) = (source.name(), source.schema());
            let table = begin_table(database, name, &schema, source.primary_key(), &[])?;
            load(&table, source, self.scale, interrupt)?;
        }
        self.load_wide(database, "keys", self.keys, None, interrupt)?;
        self.load_wide(database, "wide", self.wide, Some("c0"), interrupt)
    }

    fn load_wide(
        &self,
        database: &Database,
        name: &str,
        wide: Wide,
        primary_key: Option<&str>,
        interrupt: &Interrupt,
    ) -> Result<(), CommandError> {
        // About 4 MiB per batch, for any number of columns.
        let batch_rows = ((1 << 20) / wide.columns() as usize).min(65_536);
        let encodings = match primary_key {
            None => &[("c0", Encoding::Dictionary)][..],
            Some(_) => &[],
        };
        let table = begin_table(database, name, &wide.schema(), primary_key, encodings)?;
        let batches = produce::in_order(wide.rows().into(), batch_rows, move |part, rows| {
            wide.generate(part, rows)
        });
        load_batches(&table, wide.rows().into(), batches, interrupt)?;
        Ok(())
    }
}
