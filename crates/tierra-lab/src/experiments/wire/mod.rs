//! What clients see of a server: prepared lookups beside PostgreSQL, rows streamed and copied in, how soon a statement is stopped, and what
//! being watched costs.
//!
//! Lookups, the streamed rows' memory, statements that are stopped and COPY are of a server in a process of its own. Arrow streams and scraping are of a server of
//! HTTP in this process, so that the same database is read by a session of the library, turn by turn: an Arrow stream's time is that
//! of the server and of the client who decodes it, and a scrape's that of both.

mod copies;
mod lookups;
mod stops;
mod streams;
mod watching;

use self::copies::{COPIED, LOADED};
use self::stops::STOPPED;
use self::streams::{ARROW_STREAM, IN_PROCESS};
use self::watching::{ALONE, SCANNED, WATCHED};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::contender::Tierra;
use crate::error::LabError;
use crate::lab::Lab;
use crate::peers::Peer;
use crate::peers::postgres::Postgres;
use crate::results::Tier;
use crate::row::{Cell, Row, find};
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
        // Samples of the same rounds: what drifts is in both.
        let over = |identity: [(&str, &str); 2], other: [(&str, &str); 2]| {
            find(rows, &identity)?.over(find(rows, &other)?, "time_ns")
        };
        let point = of_connections(SESSIONS[1]);
        let looked_up = |engine| [("lookups by", &*point), ("engine", engine)];
        let of_tierra = |key, way| [(key, way), ("engine", Tierra::ENGINE)];
        let number = |key: &str| rows.iter().find_map(|row| row.value(key));
        vec![
            Bar::at_least(
                "prepared lookups of a row of 10 columns, 16 connections: a second over PostgreSQL's",
                1.0,
                over(looked_up(Postgres::ENGINE), looked_up(Served::ENGINE)),
            ),
            Bar::at_most(
                "10 million rows streamed over PostgreSQL's protocol: the server's memory, MiB more",
                64.0,
                number("more_bytes").map(|bytes| bytes / MIB),
            ),
            Bar::at_most(
                "10 million rows as an Arrow stream over HTTP: time over the library's",
                1.5,
                over(
                    of_tierra("streamed as", ARROW_STREAM),
                    of_tierra("streamed as", IN_PROCESS),
                ),
            ),
            Bar::at_least(
                "COPY FROM STDIN of 6 million rows: speed over that of loading the file",
                0.5,
                over(
                    of_tierra("rows in by", LOADED),
                    of_tierra("rows in by", COPIED),
                ),
            ),
            Bar::at_most(
                "scraped and sampled once a second: share of a processor",
                0.005,
                number("processor_share"),
            ),
            Bar::at_most(
                "scraped and sampled once a second: time of scans over that without a server",
                1.005,
                over(of_tierra(SCANNED, WATCHED), of_tierra(SCANNED, ALONE)),
            ),
            Bar::at_most(
                "a cancel in a sort, a hash join, an aggregation, COPY and INSERT .. SELECT, 20 each: the statement ends after, at most, s",
                1.0,
                latest_end(rows, stops::WAYS[0]),
            ),
            Bar::at_most(
                "the client killed in these, 20 each: the statement ends after, at most, s",
                1.0,
                latest_end(rows, stops::WAYS[1]),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

/// The longest time, in seconds, until a statement ended that was stopped so; `None` if one was not stopped as often as it should be.
fn latest_end(rows: &[Row], way: &str) -> Option<f64> {
    let latest = |(name, _): (&str, String)| {
        let row = find(rows, &[(STOPPED, name), ("by", way)])?;
        let Cell::Samples(ends_ns) = row.get("end_ns")? else {
            return None;
        };
        let latest_ns = *ends_ns.iter().max()?;
        (ends_ns.len() >= stops::TIMES).then_some(latest_ns as f64 / 1e9)
    };
    let all: Option<Vec<f64>> = stops::statements().into_iter().map(latest).collect();
    all?.into_iter().reduce(f64::max)
}

const VIEWS: [View; 5] = [
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
    View {
        title: "time of a scan of ten columns",
        category: SCANNED,
        series: "engine",
        value: "time_ns",
        per: Some("scans"),
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "time until a statement has ended that is stopped",
        category: STOPPED,
        series: "by",
        value: "end_ns",
        per: None,
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
        let timed = |key: &str, way: &str, engine: &str, time_ns| {
            let row = Row::new().text(key, way).text("engine", engine);
            row.samples("time", "ns", vec![time_ns, 2 * time_ns])
        };
        let looked_up =
            |engine: &str, time_ns| timed("lookups by", "16 connections", engine, time_ns);
        let own = |key: &str, way: &str, time_ns| timed(key, way, Tierra::ENGINE, time_ns);
        let mut rows = vec![
            looked_up(Served::ENGINE, ours),
            looked_up(Postgres::ENGINE, 100),
            Row::new().count("more_bytes", ours * 64 * (1 << 20) / 100),
            own("streamed as", ARROW_STREAM, ours * 3),
            own("streamed as", IN_PROCESS, 200),
            own("rows in by", COPIED, ours * 2),
            own("rows in by", LOADED, 100),
            Row::new().number("processor_share", ours as f64 * 0.00005),
            own(SCANNED, WATCHED, ours * 10 + 5),
            own(SCANNED, ALONE, 1_000),
        ];
        for (name, _) in stops::statements() {
            for way in stops::WAYS {
                let row = Row::new().text(STOPPED, name).text("by", way);
                let mut ends = vec![1; stops::TIMES];
                ends[7] = ours * 10_000_000;
                rows.push(row.samples("end", "ns", ends));
            }
        }
        rows
    }

    #[test]
    fn every_bar_can_be_missed() {
        let met = |ours| {
            let bars = Wire.bars(&rows(ours));
            bars.iter().filter(|bar| bar.met).count()
        };
        assert_eq!((met(100), met(102)), (8, 0));
        let without = Wire.bars(&rows(100)[2..]);
        assert_eq!(without[0].measured, None);
    }

    #[test]
    fn a_statement_that_was_not_stopped_has_no_end() {
        let all = rows(100);
        let measured = |rows: &[Row]| latest_end(rows, stops::WAYS[1]);
        assert_eq!(measured(&all), Some(1.0));
        assert_eq!(measured(&all[..all.len() - 1]), None);
    }

    #[test]
    fn what_scatters_meets_no_bar() {
        let mut all = rows(100);
        let last = all.remove(0).refused();
        all.insert(0, last);
        assert_eq!(Wire.bars(&all)[0].measured, None);
    }
}
