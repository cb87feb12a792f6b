//! What it costs to be watched: a server whose page keeps a sample each second, and whose metrics are scraped once a second. It is told
//! as a share of a processor while nothing else is done, and as the time of scans beside it over that of scans without a server.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::streams::{Http, exchange};
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::Lab;
use crate::process::processor_ns;
use crate::progress;
use crate::row::Row;
use crate::steady;

/// The key of scans in rows.
pub(super) const SCANNED: &str = "scanned";
pub(super) const WATCHED: &str = "beside a sample and a scrape each second";
pub(super) const ALONE: &str = "alone";
/// Columns of the table that is scanned.
const COLUMNS: u64 = 10;
const APART: Duration = Duration::from_secs(1);
const WHO: &str = "scraping";
/// Server and client.
const PROCESS: &str = "/proc/self";

/// The processor time of this process, in which server and client are, over the time that passed.
pub(super) fn measure(lab: &Lab, address: SocketAddr) -> Result<Row, LabError> {
    let scrapes = lab.size(2, 30);
    let bar = progress::bar("scrapes", scrapes);
    let (start, busy) = (Instant::now(), processor_ns(PROCESS)?);
    let mut bytes = 0;
    for scrape in 1..=scrapes as u32 {
        bytes = scrape_once(address)?;
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

/// Reads the metrics; returns their bytes.
fn scrape_once(address: SocketAddr) -> Result<usize, LabError> {
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let mut text = String::new();
    let read = exchange(address, &request).and_then(|mut body| body.read_to_string(&mut text));
    let bytes = read.by(WHO, "reading metrics")?;
    match text.contains("tierra_") {
        true => Ok(bytes),
        false => Err(text).by(WHO, "looking for Tierra's metrics"),
    }
}

/// Scans of a table of many columns: with no server, and with one that is scraped, in turn. A sample is as many scans as take some
/// seconds.
pub(super) fn beside_scans(lab: &Lab, tierra: &Tierra) -> Result<Vec<Row>, LabError> {
    let column = |number| format!("n % {} AS c{number}", 1_000 + number);
    let columns: Vec<String> = (0..COLUMNS).map(column).collect();
    let sums: Vec<String> = (0..COLUMNS)
        .map(|number| format!("sum(c{number})"))
        .collect();
    let made = format!(
        "CREATE TABLE watched AS SELECT {} FROM streamed",
        columns.join(", ")
    );
    let made = lab.runtime().block_on(tierra.session().execute(&made));
    made.by(Tierra::ENGINE, "making a table")?;
    tierra.settle()?;
    let scan = format!("SELECT {} FROM watched", sums.join(", "));
    // The first finds cold caches.
    lab.runtime().block_on(tierra.query(&scan))?;
    let start = Instant::now();
    lab.runtime().block_on(tierra.query(&scan))?;
    let sample = lab.size(Duration::from_millis(20), Duration::from_secs(3));
    let scans = (sample.as_secs_f64() / start.elapsed().as_secs_f64()).ceil() as u64;
    let run = || {
        let start = Instant::now();
        for _ in 0..scans {
            lab.runtime().block_on(tierra.query(&scan))?;
        }
        Ok::<u64, LabError>(start.elapsed().as_nanos() as u64)
    };
    let ways = [ALONE, WATCHED];
    let rounds = lab.size(1, 15);
    let bar = progress::bar("scans", ways.len() * (rounds + 1));
    let sampled = steady::in_turns(
        ways.len(),
        rounds,
        |contender| {
            bar.set_message(ways[contender]);
            let time_ns = match ways[contender] {
                WATCHED => beside_scrapes(lab, tierra, run)?,
                _ => run()?,
            };
            bar.inc(1);
            Ok(time_ns)
        },
        |time_ns| *time_ns,
    )?;
    bar.finish_and_clear();
    let rows = ways.into_iter().zip(sampled).map(|(way, sampled)| {
        let row = Row::new().text(SCANNED, way).text("engine", Tierra::ENGINE);
        let row = row.count("scans", scans);
        sampled.mark(row.samples("time", "ns", sampled.samples.clone()))
    });
    Ok(rows.collect())
}

/// Does something while a server is scraped.
fn beside_scrapes(
    lab: &Lab,
    tierra: &Tierra,
    work: impl FnOnce() -> Result<u64, LabError>,
) -> Result<u64, LabError> {
    let http = Http::start(lab, tierra)?;
    let (address, stop) = (http.address, AtomicBool::new(false));
    let done = std::thread::scope(|scope| {
        let scraping = scope.spawn(|| {
            let mut next = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                scrape_once(address)?;
                next += APART;
                while !stop.load(Ordering::Relaxed) && Instant::now() < next {
                    std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
                }
            }
            Ok::<(), LabError>(())
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        scraping.thread().unpark();
        scraping.join().expect("it returns its errors")?;
        done
    });
    http.stop(lab)?;
    done
}
