//! A mix of transactions like TPC-C's, beside PostgreSQL: new orders, payments, order status, delivery, stock level.
//!
//! Eight sessions over PostgreSQL's protocol send both sides the same statements, prepared, one at a time. Transactions have a snapshot:
//! in PostgreSQL they are REPEATABLE READ. One that loses to another (SQLSTATE 40001) runs again. Unlike in TPC-C no client thinks or
//! types, and a session draws any warehouse, so that sessions meet. At the end, and for Tierra also after its server was killed, the
//! specification's twelve conditions must hold, and the tables have what was acknowledged.

mod conditions;
mod random;
mod statements;
mod tables;
mod transactions;

use std::time::{Duration, Instant};

use self::conditions::Acknowledged;
use self::tables::Size;
use self::transactions::{Done, Kind, Transaction};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::histogram::Histogram;
use crate::lab::{Lab, SEED};
use crate::peers::Peer;
use crate::peers::postgres::{Client, ClientError, Postgres, retried};
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::served::Served;
use crate::steady::{self, Sampled};
use crate::view::{Unit, View};

const SESSIONS: usize = 8;
const ALL: &str = "all";

/// The experiment.
pub(super) struct Tpcc;

impl Experiment for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn about(&self) -> &'static str {
        "how many transactions of a mix like TPC-C's are done a second, beside PostgreSQL, and are its conditions kept?"
    }

    fn peers(&self) -> &'static [Peer] {
        &[Postgres::PEER]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let size = lab.size(Size::QUICK, Size::FULL);
        let rounds = lab.size(1, 5);
        let time = lab.size(Duration::from_millis(300), Duration::from_secs(10));
        let folder = lab.passing_folder()?;
        let served = Served::start(&folder.path().join("db"))?;
        let postgres = Postgres::start(folder.path());
        let mut sides = vec![Side::new(Served::ENGINE, served.connect(), size)?];
        if let Some(postgres) = &postgres {
            sides.push(Side::new(Postgres::ENGINE, postgres.connect(), size)?);
        }
        let mut sessions: Vec<Vec<Client>> = Vec::new();
        for side in &sides {
            let connect = |_| {
                let client = match (side.who, &postgres) {
                    (Postgres::ENGINE, Some(postgres)) => postgres.connect(),
                    _ => served.connect(),
                };
                let mut client = client.by(side.who, "logging in")?;
                if side.who == Postgres::ENGINE {
                    let level = "SET default_transaction_isolation = 'repeatable read'";
                    client.query(level).by(side.who, level)?;
                }
                statements::prepare(&mut client).by(side.who, "preparing statements")?;
                Ok::<Client, LabError>(client)
            };
            sessions.push((0..SESSIONS).map(connect).collect::<Result<_, _>>()?);
        }
        let bar = progress::bar("samples", sides.len() * (rounds + 1));
        let mut number = 0;
        let sampled = steady::in_turns(
            sides.len(),
            rounds,
            |contender| {
                let (side, sessions) = (&mut sides[contender], &mut sessions[contender]);
                bar.set_message(side.who);
                let sample = side.sample(sessions, size, time, number)?;
                number += 1;
                bar.inc(1);
                Ok(sample)
            },
            |sample: &Sample| sample.per_s,
        )?;
        bar.finish_and_clear();
        drop(sessions);
        for side in &mut sides {
            side.check(size, "")?;
        }
        // Its session is gone with the server.
        let served = served.kill_and_start()?;
        sides[0].client = served.connect().by(Served::ENGINE, "logging in")?;
        sides[0].check(size, " after a kill")?;
        let rows = sides.into_iter().zip(sampled);
        let rows = rows.flat_map(|(side, sampled)| side.rows(&sampled));
        let rows = rows.collect();
        let version = Postgres::version().filter(|_| postgres.is_some());
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .count("warehouses", size.warehouses)
                .count("sessions", SESSIONS as u64)
                .count("rounds", rounds as u64)
                .text("postgres", version.unwrap_or_else(|| "absent".to_owned())),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let of = |engine: &str| find(rows, &[("transactions", ALL), ("engine", engine)]);
        let both = of(Served::ENGINE).zip(of(Postgres::ENGINE));
        let violations: Vec<f64> = rows
            .iter()
            .filter(|row| row.is(&[("engine", Served::ENGINE)]))
            .filter_map(|row| row.value("violations_count"))
            .collect();
        let checked = (!violations.is_empty()).then(|| violations.iter().sum());
        vec![
            Bar::at_most(
                "TPC-C-like mix: rows that violate a condition of the specification, or were not acknowledged",
                0.0,
                checked,
            ),
            Bar::at_least(
                "TPC-C-like mix, 8 sessions over PostgreSQL's protocol: transactions a second over PostgreSQL's",
                0.5,
                both.and_then(|(ours, theirs)| ours.over(theirs, "done_per_s")),
            ),
        ]
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const VIEWS: [View; 4] = [
    View {
        title: "transactions done in a second",
        category: "transactions",
        series: "engine",
        value: "done_per_s",
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    },
    View {
        title: "90 % of the transactions take at most, from the first attempt on",
        category: "transactions",
        series: "engine",
        value: "latency_p90_ns",
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    },
    View {
        title: "attempts that lost to another transaction, of one that was done",
        category: "transactions",
        series: "engine",
        value: "lost_share",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "rows that violate a condition of the specification",
        category: "condition",
        series: "engine",
        value: "violations_count",
        per: None,
        unit: Unit::Count,
        mean: false,
    },
];

/// What all sessions did in a sample.
struct Sample {
    /// Of each kind latencies and lost attempts.
    of_kinds: [(Histogram, u64); 5],
    elapsed_s: f64,
    /// Transactions in a second, of all kinds.
    per_s: u64,
}

impl Sample {
    /// Transactions of a kind in a second.
    fn per_s_of(&self, kind: usize) -> u64 {
        per_s(self.of_kinds[kind].0.count(), self.elapsed_s)
    }
}

fn per_s(count: u64, elapsed_s: f64) -> u64 {
    (count as f64 / elapsed_s).round() as u64
}

/// A contender.
struct Side {
    who: &'static str,
    client: Client,
    done: Acknowledged,
    conditions: Vec<(String, u64)>,
}

/// What a session did in a sample: of each kind latencies and lost attempts.
type Session = ([(Histogram, u64); 5], Acknowledged);

impl Side {
    /// With filled tables.
    fn new(
        who: &'static str,
        client: Result<Client, ClientError>,
        size: Size,
    ) -> Result<Side, LabError> {
        let mut client = client.by(who, "logging in")?;
        client.query(tables::TABLES).by(who, "creating tables")?;
        tables::fill(&mut client, who, size, SEED)?;
        if who == Postgres::ENGINE {
            client.query(tables::INDEXES).by(who, "creating indexes")?;
        }
        let mut side = Side {
            who,
            client,
            done: Acknowledged::default(),
            conditions: Vec::new(),
        };
        // What does not hold at first cannot be broken.
        side.check(size, "")?;
        side.conditions.clear();
        Ok(side)
    }

    /// Runs transactions in all sessions for a time.
    fn sample(
        &mut self,
        sessions: &mut [Client],
        size: Size,
        time: Duration,
        number: u64,
    ) -> Result<Sample, LabError> {
        let who = self.who;
        let start = Instant::now();
        let done = std::thread::scope(|scope| {
            let mut running = Vec::with_capacity(sessions.len());
            for (session, client) in (1..).zip(sessions) {
                let random = Random::new(SEED ^ (number << 32) ^ session);
                running.push(scope.spawn(move || run(client, who, random, size, start + time)));
            }
            let joined = running.into_iter().map(|session| session.join());
            let done = joined.map(|done| done.expect("a session returns its errors"));
            done.collect::<Result<Vec<Session>, LabError>>()
        })?;
        let elapsed_s = start.elapsed().as_secs_f64();
        let mut of_kinds: [(Histogram, u64); 5] = Default::default();
        for (of_session, acknowledged) in done {
            self.done += acknowledged;
            for ((all, all_lost), (latencies, lost)) in of_kinds.iter_mut().zip(of_session) {
                all.merge(&latencies);
                *all_lost += lost;
            }
        }
        let count = of_kinds.iter().map(|(latencies, _)| latencies.count());
        Ok(Sample {
            per_s: per_s(count.sum(), elapsed_s),
            of_kinds,
            elapsed_s,
        })
    }

    /// Fails if a condition is violated: then its times are worth nothing.
    fn check(&mut self, size: Size, when: &str) -> Result<(), LabError> {
        let found = conditions::violations(&mut self.client, self.who, size, self.done)?;
        for (name, count) in found {
            if count > 0 {
                let what = format!("{count} rows violate {name}{when}, after {:?}", self.done);
                return Err(LabError::WrongAnswer {
                    who: self.who.to_owned(),
                    what,
                });
            }
            self.conditions.push((format!("{name}{when}"), count));
        }
        Ok(())
    }

    fn rows(self, sampled: &Sampled<Sample>) -> Vec<Row> {
        let mut rows = Vec::new();
        let point = |of: &str| Row::new().text("transactions", of).text("engine", self.who);
        let samples = &sampled.samples;
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            let (mut latencies, mut lost) = (Histogram::new(), 0_u64);
            for sample in samples {
                let (of_sample, lost_in_it) = &sample.of_kinds[number];
                latencies.merge(of_sample);
                lost += *lost_in_it;
            }
            let per_s = samples.iter().map(|sample| sample.per_s_of(number));
            let count = latencies.count();
            let quantile = |part| latencies.quantile(part).unwrap_or_default();
            rows.push(
                point(kind.name())
                    .samples("done", "per_s", per_s.collect())
                    .count("done_count", count)
                    .number("lost_share", lost as f64 / count as f64)
                    .count("latency_p50_ns", quantile(0.5))
                    .count("latency_p90_ns", quantile(0.9))
                    .count("latency_p99_ns", quantile(0.99)),
            );
        }
        let per_s = samples.iter().map(|sample| sample.per_s).collect();
        rows.push(sampled.mark(point(ALL).samples("done", "per_s", per_s)));
        rows.extend(self.conditions.into_iter().map(|(condition, violations)| {
            Row::new()
                .text("condition", condition)
                .text("engine", self.who)
                .count("violations_count", violations)
        }));
        rows
    }
}

/// Transactions of a session until a time.
fn run(
    client: &mut Client,
    who: &str,
    mut random: Random,
    size: Size,
    end: Instant,
) -> Result<Session, LabError> {
    let mut of_kinds: [(Histogram, u64); 5] = Default::default();
    let mut done = Acknowledged::default();
    loop {
        let start = Instant::now();
        if start >= end {
            return Ok((of_kinds, done));
        }
        let transaction = Transaction::draw(&mut random, size);
        let ran = retried(client, &mut random, |client| transaction.run(client));
        let kind = transaction.kind;
        let (outcome, lost) = ran.by(who, format!("running a {}", kind.name()))?;
        let (latencies, lost_before) = &mut of_kinds[kind as usize];
        latencies.add(start.elapsed().as_nanos() as u64, 1);
        *lost_before += lost;
        match (kind, outcome) {
            (Kind::NewOrder, Done::Committed(_)) => done.new_orders += 1,
            (Kind::Payment, Done::Committed(_)) => done.payments += 1,
            (Kind::Delivery, Done::Committed(orders)) => done.delivered += orders,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_violation_misses_the_bar() {
        let of = |engine: &str, per_s| {
            Row::new()
                .text("transactions", ALL)
                .text("engine", engine)
                .samples("done", "per_s", vec![per_s])
        };
        let condition = |violations| {
            Row::new()
                .text("condition", "3.3.2.1")
                .text("engine", Served::ENGINE)
                .count("violations_count", violations)
        };
        let both = [of(Served::ENGINE, 50), of(Postgres::ENGINE, 100)];
        let met = |rows: &[Row]| {
            let bars = Tpcc.bars(rows);
            bars.iter().map(|bar| bar.met).collect::<Vec<_>>()
        };
        let with = |violations| [both.to_vec(), vec![condition(violations)]].concat();
        assert_eq!(met(&with(0)), [true, true]);
        assert_eq!(met(&with(1)), [false, true]);
        assert_eq!(met(&both), [false, true]);
        assert_eq!(met(&with(0)[..1]), [false, false]);
    }
}
