//! What it costs to be watched: a server whose page keeps a sample each second, and whose metrics are scraped once a second.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::streams::exchange;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::process::processor_ns;
use crate::progress;
use crate::row::Row;

const APART: Duration = Duration::from_secs(1);
const WHO: &str = "scraping";
/// Server and client.
const PROCESS: &str = "/proc/self";

/// The processor time of this process, in which server and client are, over the time that passed.
pub(super) fn measure(lab: &Lab, address: SocketAddr) -> Result<Row, LabError> {
    let scrapes = lab.size(2, 30);
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let bar = progress::bar("scrapes", scrapes);
    let (start, busy) = (Instant::now(), processor_ns(PROCESS)?);
    let mut bytes = 0;
    for scrape in 1..=scrapes as u32 {
        let mut text = String::new();
        let read = exchange(address, &request).and_then(|mut body| body.read_to_string(&mut text));
        bytes = read.by(WHO, "reading metrics")?;
        if !text.contains("tierra_") {
            return Err(text).by(WHO, "looking for Tierra's metrics");
        }
        std::thread::sleep((start + APART * scrape).saturating_duration_since(Instant::now()));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let busy = processor_ns(PROCESS)? - busy;
    let share = busy as f64 / start.elapsed().as_nanos() as f64;
    Ok(Row::new()
        .text("watched by", "a sample and a scrape each second")
        .count("scrapes", scrapes as u64)
        .count("metrics_bytes", bytes as u64)
        .number("processor_share", share))
}
