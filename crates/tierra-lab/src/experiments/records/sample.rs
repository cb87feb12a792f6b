//! One sample of a store in this process: the time of a run of requests, and the page faults during it.
//!
//! Invariant: a sample of inserts alone leaves the store as it was. Every sample inserts as many records into memory that has been
//! touched before, and no store grows.

use tierra_data::ycsb::{Requests, Workload};

use super::driver::{Run, Samples};
use super::store::Store;
use crate::bar::Bar;
use crate::error::LabError;
use crate::page_faults;
use crate::row::Row;
use crate::steady::Sampled;

/// Page faults of a thousand inserts: half of those of pages of 2 MiB that are touched for the first time.
const FAULTS_MAX: f64 = 0.3;

/// A run and its page faults.
pub(super) struct Sample {
    run: Run,
    /// `None` if the kernel does not count them.
    page_faults: Option<u64>,
}

/// Makes room for samples of a workload of inserts.
pub(super) fn prepare(
    store: &mut Store,
    workload: Workload,
    operations: usize,
) -> Result<(), LabError> {
    match is_inserts(workload) {
        true => store.make_room(operations as u64),
        false => Ok(()),
    }
}

fn is_inserts(workload: Workload) -> bool {
    workload.percent == Workload::I.percent
}

impl Sample {
    /// Serves that many requests of a workload.
    pub(super) fn take(
        store: &mut Store,
        requests: &mut Requests,
        operations: usize,
        workload: Workload,
    ) -> Result<Sample, LabError> {
        let first = requests.records();
        let before = page_faults::so_far();
        let run = store.run(requests, operations)?;
        let after = page_faults::so_far();
        if is_inserts(workload) {
            store.remove(first..requests.records());
        }
        Ok(Sample {
            run,
            page_faults: after.zip(before).map(|(after, before)| after - before),
        })
    }

    /// The time of the run.
    pub(super) fn time_ns(&self) -> u64 {
        self.run.time_ns
    }
}

/// Adds samples to a row, under names with this suffix.
pub(super) fn onto(sampled: &Sampled<Sample>, row: Row, of: &str) -> Row {
    let mut times = Samples::default();
    sampled
        .samples
        .iter()
        .for_each(|sample| times.add(&sample.run));
    let faults: Option<Vec<u64>> = sampled.samples.iter().map(|one| one.page_faults).collect();
    let row = times.onto(row, of);
    match faults {
        Some(faults) => row.samples(&format!("page_faults{of}"), "count", faults),
        None => row,
    }
}

/// The bar on page faults, over the rows of workload I: those of the worst store.
pub(super) fn faults_bar(rows: &[Row]) -> Bar {
    let inserts = rows
        .iter()
        .filter(|row| row.is(&[("workload", Workload::I.name)]));
    let most = inserts
        .map(|row| Some(row.value("page_faults_count")? * 1_000.0 / row.value("operations")?))
        .reduce(|most, next| Some(most?.max(next?)))
        .flatten();
    Bar::at_most(
        "I: page faults of a thousand inserts, the median of the worst store",
        FAULTS_MAX,
        most,
    )
}

#[cfg(test)]
mod tests {
    use tierra_kv::keyspace::Settings;

    use super::*;
    use crate::lab::SEED;

    #[test]
    fn inserts_leave_the_store_as_it_was() {
        const RECORDS: u64 = 2_000;
        let mut store = Store::load(Settings::default(), RECORDS).unwrap();
        prepare(&mut store, Workload::I, 1_000).unwrap();
        let mut requests = Workload::I.requests(RECORDS, SEED);
        let objects = store.report().near.objects;
        for _ in 0..3 {
            let sample = Sample::take(&mut store, &mut requests, 1_000, Workload::I).unwrap();
            assert!(sample.time_ns() > 0);
            assert_eq!(store.report().near.objects, objects);
        }
        assert_eq!(requests.records(), RECORDS + 3_000);
        // Others leave what they insert, which later requests read.
        let mut requests = Workload::D.requests(RECORDS, SEED);
        Sample::take(&mut store, &mut requests, 1_000, Workload::D).unwrap();
        assert!(store.report().near.objects > objects);
    }

    #[test]
    fn the_bar_is_about_the_worst_store() {
        let row = |workload: &str, faults| {
            Row::new()
                .text("workload", workload)
                .count("operations", 1_000)
                .samples("page_faults", "count", vec![faults])
        };
        let rows = [row("R", 90), row("I", 0), row("I", 3)];
        let bar = faults_bar(&rows);
        assert!(!bar.met && bar.measured == Some(3.0), "{bar:?}");
        assert!(faults_bar(&rows[..2]).met);
        assert_eq!(faults_bar(&rows[..1]).measured, None);
    }
}
