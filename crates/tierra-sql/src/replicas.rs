//! Which replicas an operator reads, for EXPLAIN.

use std::fmt;

use tierra_engine::{ReadPattern, ReplicaSource, Snapshot};

/// Writes `, replicas=[column=tier/encoding, ..]` of those of the columns that have several replicas, as they are read now. Where not all
/// rows are read from the same, the share of each follows in percent. A near copy is in the tier `near`.
pub(crate) fn write_read(
    f: &mut fmt::Formatter<'_>,
    snapshot: &Snapshot,
    columns: impl IntoIterator<Item = usize>,
    pattern: ReadPattern,
) -> fmt::Result {
    let spec = snapshot.table().spec();
    let of_column = |column: usize| {
        let sources = snapshot.sources(column, pattern);
        let all: u64 = sources.iter().map(|source| source.rows).sum();
        let shown = |source: &ReplicaSource| {
            let tier = source.tier.as_deref().unwrap_or("near");
            let share = match source.rows == all {
                true => String::new(),
                false => format!(" {:.0} %", source.rows as f64 / all as f64 * 100.0),
            };
            format!("{tier}/{}{share}", source.encoding)
        };
        let sources: Vec<String> = sources.iter().map(shown).collect();
        format!("{}={}", spec.columns[column].name, sources.join(" + "))
    };
    let chosen = columns.into_iter();
    let chosen = chosen.filter(|column| snapshot.has_choice(*column));
    let chosen: Vec<String> = chosen.map(of_column).collect();
    match chosen.is_empty() {
        true => Ok(()),
        false => write!(f, ", replicas=[{}]", chosen.join(", ")),
    }
}
