//! What clients see of a server: prepared lookups beside PostgreSQL, rows streamed and copied in, and what being watched costs.
//!
//! Lookups, the streamed rows' memory and COPY are of a server in a process of its own. Arrow streams and scraping are of a server of
//! HTTP in this process, so that the same database is read by a session of the library, turn by turn: an Arrow stream's time is that
//! of the server and of the client who decodes it, and a scrape's that of both.

mod copies;
mod lookups;
mod streams;
mod watching;

use self::copies::{COPIED, LOADED};
use self::streams::{ARROW_STREAM, IN_PROCESS};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::LabError;
use crate::lab::Lab;
use crate::peers::Peer;
use crate::peers::postgres::Postgres;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::served::Served;
use crate::view::{Unit, View};

/// Connections that look up at the same time.
const SESSIONS: [usize; 2] = [1, 16];
const MIB: f64 = (1 << 20) as f64;

/// The experiment.
pub(super) struct Wire;

impl Experiment for Wire {
    fn name(&self) -> &'static str {
        "wire"
    }

    fn about(&self) -> &'static str {
        "how fast are prepared lookups, streams and COPY of a server, beside PostgreSQL and the library, and what does scraping cost?"
    }

    fn peers(&self) -> &'static [Peer] {
        &[Postgres::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let mut rows = lookups::measure(lab)?;
        rows.extend(streams::measure(lab)?);
        rows.extend(copies::measure(lab)?);
        let is_there = find(&rows, &[("engine", Postgres::ENGINE)]).is_some();
        let version = Postgres::version().filter(|_| is_there);
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new().text("postgres", version.unwrap_or_else(|| "absent".to_owned())),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let per_s = |engine: &str| {
            let point = of_connections(SESSIONS[1]);
            let row = find(rows, &[("lookups by", &point), ("engine", engine)])?;
            Some(row.value("lookups")? / row.value("time_ns")?)
        };
        let time = |key: &str, way: &str| find(rows, &[(key, way)])?.value("time_ns");
        let over = |key: &str, one: &str, other: &str| Some(time(key, one)? / time(key, other)?);
        let number = |key: &str| rows.iter().find_map(|row| row.value(key));
        vec![
            Bar::at_least(
                "prepared lookups of a row of 10 columns, 16 connections: a second over PostgreSQL's",
                1.0,
                per_s(Served::ENGINE)
                    .zip(per_s(Postgres::ENGINE))
                    .map(|(ours, theirs)| ours / theirs),
            ),
            Bar::at_most(
                "10 million rows streamed over PostgreSQL's protocol: the server's memory, MiB more",
                64.0,
                number("more_bytes").map(|bytes| bytes / MIB),
            ),
            Bar::at_most(
                "10 million rows as an Arrow stream over HTTP: time over the library's",
                1.5,
                over("streamed as", ARROW_STREAM, IN_PROCESS),
            ),
            Bar::at_least(
                "COPY FROM STDIN of 6 million rows: speed over that of loading the file",
                0.5,
                over("rows in by", LOADED, COPIED),
            ),
            Bar::at_most(
                "scraped and sampled once a second: share of a processor",
                0.005,
                number("processor_share"),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 3] = [
    View {
        title: "time of a prepared lookup of a row of 10 columns, over all connections",
        category: "lookups by",
        series: "engine",
        value: "time_ns",
        per: Some("lookups"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "time of a row streamed out",
        category: "streamed as",
        series: "engine",
        value: "time_ns",
        per: Some("rows"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "time of a row of lineorder taken in from CSV",
        category: "rows in by",
        series: "engine",
        value: "time_ns",
        per: Some("rows"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
];

fn of_connections(sessions: usize) -> String {
    match sessions {
        1 => "1 connection".to_owned(),
        many => format!("{many} connections"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ours: u64) -> Vec<Row> {
        let timed = |key: &str, way: &str, time_ns| {
            let row = Row::new().text(key, way);
            row.count("lookups", 10)
                .samples("time", "ns", vec![time_ns])
        };
        let looked_up = |engine: &str, time_ns| {
            timed("lookups by", "16 connections", time_ns).text("engine", engine)
        };
        vec![
            looked_up(Served::ENGINE, ours),
            looked_up(Postgres::ENGINE, 100),
            Row::new().count("more_bytes", ours * 64 * (1 << 20) / 100),
            timed("streamed as", ARROW_STREAM, ours * 3),
            timed("streamed as", IN_PROCESS, 200),
            timed("rows in by", COPIED, ours * 2),
            timed("rows in by", LOADED, 100),
            Row::new().number("processor_share", ours as f64 * 0.00005),
        ]
    }

    #[test]
    fn every_bar_can_be_missed() {
        let met = |ours| {
            let bars = Wire.bars(&rows(ours));
            bars.iter().filter(|bar| bar.met).count()
        };
        assert_eq!((met(100), met(102)), (5, 0));
        let without = Wire.bars(&rows(100)[2..]);
        assert_eq!(without[0].measured, None);
    }
}
