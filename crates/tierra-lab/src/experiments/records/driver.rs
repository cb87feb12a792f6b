//! The driver of YCSB's requests: it sends windows of them to any target, and records each window's time.
//!
//! A request takes as long as its window: all requests of a window arrive together, and their replies leave together.

use std::time::Instant;

use tierra_data::ycsb::{Operation, Requests};

use crate::error::LabError;
use crate::histogram::Histogram;
use crate::row::Row;

/// Something that serves requests.
pub(super) trait Target {
    /// The number of requests that arrive together.
    fn window(&self) -> usize;

    /// Serves requests that have arrived together, and checks every answer.
    fn serve_window(&mut self, window: &[Operation]) -> Result<(), LabError>;
}

/// The times of a run.
pub(super) struct Run {
    /// The time of the whole run.
    pub(super) time_ns: u64,
    /// The time of each request.
    pub(super) latencies: Histogram,
}

/// Sends that many requests to a target.
pub(super) fn drive(
    target: &mut impl Target,
    requests: &mut Requests,
    operations: usize,
) -> Result<Run, LabError> {
    let mut latencies = Histogram::new();
    let most = target.window();
    let mut window = Vec::with_capacity(most);
    let mut left = operations;
    let start = Instant::now();
    let mut began_ns = 0;
    while left > 0 {
        window.clear();
        requests.next_together(most.min(left), &mut window);
        left -= window.len();
        target.serve_window(&window)?;
        let ended_ns = start.elapsed().as_nanos() as u64;
        latencies.add(ended_ns - began_ns, window.len() as u64);
        began_ns = ended_ns;
    }
    Ok(Run {
        time_ns: began_ns,
        latencies,
    })
}

/// Samples of several runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    time_ns: Vec<u64>,
    p50_ns: Vec<u64>,
    p99_ns: Vec<u64>,
}

impl Samples {
    pub(super) fn add(&mut self, run: &Run) {
        self.time_ns.push(run.time_ns);
        let quantile = |part| run.latencies.quantile(part).unwrap_or_default();
        self.p50_ns.push(quantile(0.5));
        self.p99_ns.push(quantile(0.99));
    }

    /// Adds them to a row, under names with this suffix: `time_ns`, `latency_p50_ns`, `latency_p99_ns`.
    pub(super) fn onto(self, row: Row, of: &str) -> Row {
        row.samples(&format!("time{of}"), "ns", self.time_ns)
            .samples(&format!("latency_p50{of}"), "ns", self.p50_ns)
            .samples(&format!("latency_p99{of}"), "ns", self.p99_ns)
    }
}
