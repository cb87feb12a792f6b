//! Throughput from the first request on: what placement by heat loses while it does not know yet what is hot.
//!
//! Two freshly loaded stores serve the same requests, a window of them in turn: one with everything near, one under `dynamic`. Nothing
//! is served before that does not count.

use tierra_data::ycsb::Workload;
use tierra_kv::keyspace::Settings;
use tierra_memory::emulation::{self, FarMemory};

use super::{Store, WHO};
use crate::bar::Bar;
use crate::curve::Curve;
use crate::error::{Context, LabError};
use crate::lab::SEED;
use crate::row::{Row, find};
use crate::view::{Unit, View};

/// Requests of each store.
pub(super) const REQUESTS_PER_RECORD: u64 = 16;
/// Windows of the requests that a record gets on average once.
const WINDOWS_PER_RECORD: u64 = 10;
/// The workloads, as they are called in results.
pub(super) const WORKLOADS: [&str; 2] = ["C", "A"];
const FROM_THE_START: &str = "all 16 requests a record";
/// Stretches of the windows, in requests a record.
const STRETCHES: [(&str, std::ops::Range<u64>); 4] = [
    ("the first request a record", 0..1),
    ("the second", 1..2),
    (FROM_THE_START, 0..REQUESTS_PER_RECORD),
    (
        "the last four",
        REQUESTS_PER_RECORD - 4..REQUESTS_PER_RECORD,
    ),
];

/// Serves a workload by two new stores, whose names and settings these are, the first of them all near. Adds a point for each
/// window, and a row for each stretch.
pub(super) fn measure(
    stores: [(&'static str, Settings); 2],
    records: u64,
    (name, workload): (&str, Workload),
    rows: &mut Vec<Row>,
) -> Result<(), LabError> {
    let window = (records / WINDOWS_PER_RECORD) as usize;
    let mut served: Vec<(&str, Store, _, Vec<u64>)> = Vec::new();
    for (policy, settings) in stores {
        let store = Store::load(settings, records)?;
        served.push((policy, store, workload.requests(records, SEED), Vec::new()));
    }
    emulation::set(Some(FarMemory::OPTANE.whole())).by(WHO, "asking for emulation")?;
    for number in 0..REQUESTS_PER_RECORD * WINDOWS_PER_RECORD {
        // Neither always follows the other.
        for at in [number % 2, 1 - number % 2] {
            let (_, store, requests, times) = &mut served[at as usize];
            store.tick();
            times.push(store.serve(requests, window)?);
        }
    }
    emulation::set(None).by(WHO, "ending emulation")?;
    let times = [0, 1].map(|at: usize| &served[at].3[..]);
    for (policy, _, _, times) in &served {
        let mut at_ns = 0;
        for &time_ns in times {
            let row = Row::new()
                .text("learning", format!("{name}, {policy}"))
                .number("served_s", at_ns as f64 / 1e9)
                .count("requests", window as u64)
                .count("time_ns", time_ns)
                .number("requests_per_s", window as f64 * 1e9 / time_ns as f64);
            rows.push(row);
            at_ns += time_ns;
        }
    }
    rows.extend(stretches(name, times));
    Ok(())
}

/// A row for each stretch, of the times of all near and of the other store.
fn stretches<'t>(workload: &'t str, times: [&'t [u64]; 2]) -> impl Iterator<Item = Row> + 't {
    STRETCHES.into_iter().map(move |(stretch, part)| {
        let windows =
            (part.start * WINDOWS_PER_RECORD) as usize..(part.end * WINDOWS_PER_RECORD) as usize;
        let [near, other] = times.map(|times| times[windows.clone()].iter().sum::<u64>());
        Row::new()
            .text("stretch", stretch)
            .text("learned", workload)
            .number("throughput_over_near", near as f64 / other as f64)
    })
}

/// The bar of a workload: what the learning costs is in it.
pub(super) fn bar(rows: &[Row], workload: &str) -> Bar {
    let row = find(rows, &[("stretch", FROM_THE_START), ("learned", workload)]);
    Bar::at_least(
        format!(
            "25 % near, {workload}, from the first of 16 requests a record on: throughput over all near"
        ),
        0.75,
        row.and_then(|row| row.value("throughput_over_near")),
    )
}

pub(super) const CURVE: Curve = Curve {
    title: "throughput from the first request on, 25 % near",
    at: "served_s",
    series: "learning",
    value: "requests_per_s",
    unit: Unit::PerSecond,
};

pub(super) const VIEW: View = View {
    title: "throughput over all near, 25 % near, from the first request on",
    category: "stretch",
    series: "learned",
    value: "throughput_over_near",
    per: None,
    unit: Unit::Ratio,
    mean: false,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_beginning_is_in_the_bar() {
        let near = vec![100; (REQUESTS_PER_RECORD * WINDOWS_PER_RECORD) as usize];
        let mut learning = near.clone();
        let mut rows: Vec<Row> = stretches("C", [&near, &learning]).collect();
        assert_eq!(bar(&rows, "C").measured, Some(1.0));
        // Every window of the first four requests a record takes three times as long.
        learning[..40].fill(300);
        rows = stretches("C", [&near, &learning]).collect();
        let over = |stretch| {
            let row = find(&rows, &[("stretch", stretch)]).unwrap();
            row.value("throughput_over_near").unwrap()
        };
        assert_eq!(
            (over(STRETCHES[0].0), over(STRETCHES[3].0)),
            (1.0 / 3.0, 1.0)
        );
        assert!(!bar(&rows, "C").met);
        assert_eq!(bar(&rows, "A").measured, None);
    }
}
