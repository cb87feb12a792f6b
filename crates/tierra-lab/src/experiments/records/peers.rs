//! Tierra's server against redis-server and valkey-server, over loopback: requests per second of the server's own processor time, and
//! how long requests take that come when they come.
//!
//! Values of 1,000 bytes, keys drawn uniformly from a store larger than the caches. Client and server have a processor each, and every
//! server has one thread. A peer that is not installed is left out; the parameters say so, with the versions of the others.
//!
//! *Closed loop*: 50 connections, each with so many requests at a time. The client sends to all connections, then reads and checks all
//! replies. The CPU time of the server's thread, user and system, counts. The elapsed time is given beside it; the client limits it as
//! often as the server. *Open loop* ([`open_loop`](super::open_loop)): requests come at random times, at the same rate to every server:
//! a part of what the slowest one serves in the closed loop, one at a time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::WHO;
use super::get_set::{Command, VALUE_BYTES};
use super::open_loop::{Load, OpenLoop};
use super::server::{REDIS, ServerProcess, VALKEY, version};
use crate::bar::Bar;
use crate::error::{At, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::{Lab, SEED};
use crate::pin;
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::turns;
use crate::view::{Unit, View};

const CONNECTIONS: usize = 50;
const PIPELINES: [usize; 2] = [1, 16];
const PEERS: [&str; 2] = [REDIS, VALKEY];
/// Rates of the open loop, over what the slowest server serves in the closed one.
const LOADS: [(&str, f64); 2] = [("half", 0.5), ("80 %", 0.8)];

/// The experiment.
pub(in crate::experiments) struct KvPeers;

impl Experiment for KvPeers {
    fn name(&self) -> &'static str {
        "kv-peers"
    }

    fn about(&self) -> &'static str {
        "how many requests does a second of the server's processor time serve, and how long do they take, here and in peers?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let records = lab.size(2_000, 4_500_000);
        let rounds = lab.size(1, 7);
        let sample = lab.size(Duration::from_millis(50), Duration::from_secs(1));
        let mut servers = vec![ServerProcess::tierra(&[])?];
        for peer in PEERS {
            match ServerProcess::peer(peer, &[]) {
                Some(server) => servers.push(server),
                None => println!("{peer} is not measured: it is not installed."),
            }
        }
        pin::to_cpu(0);
        let bar = progress::bar("stores filled", servers.len());
        let mut clients = Vec::new();
        for server in &servers {
            let mut client = Client::connect(server.port)?;
            client.fill(records)?;
            clients.push(client);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let mut rows = Vec::new();
        let points = Command::ALL.len() * (PIPELINES.len() + LOADS.len());
        let bar = progress::bar("points", points);
        for command in Command::ALL {
            for pipeline in PIPELINES {
                let trips = Trips {
                    command,
                    pipeline,
                    records,
                };
                rows.extend(closed_loop(&servers, &mut clients, &trips, rounds, sample)?);
                bar.inc(1);
            }
            let slowest_ns = rows
                .iter()
                .filter(|row| row.is(&[("request", &request_name(command, 1))]))
                .filter_map(|row| row.value("time_of_1000_ns"))
                .fold(0.0, f64::max);
            for (part, share) in LOADS {
                let load = Load {
                    command,
                    per_s: share * 1e12 / slowest_ns,
                    time: sample,
                    records,
                };
                rows.extend(open_loop(&servers, part, &load, rounds)?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let parameters = Row::new()
            .count("records", records)
            .count("connections", CONNECTIONS as u64)
            .count("value_bytes", VALUE_BYTES as u64)
            .count("rounds", rounds as u64)
            .count("io_threads", 1);
        Ok(Measured {
            tier: Tier::Real,
            parameters: PEERS.iter().fold(parameters, |parameters, peer| {
                parameters.text(peer, version(peer).unwrap_or_else(|| "absent".to_owned()))
            }),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let value = |server: &str, (key, point): (&str, &str), value: &str| {
            find(rows, &[("server", server), (key, point)])?.value(value)
        };
        // The best peer of those that were measured.
        let over = |point: (&str, &str), key: &str| {
            let peers = PEERS.iter().filter_map(|peer| value(peer, point, key));
            Some(value(WHO, point, key)? / peers.reduce(f64::min)?)
        };
        let mut bars = Vec::new();
        for (pipeline, bar) in [(16, 2.0), (1, 1.0)] {
            for command in Command::ALL {
                let request = request_name(command, pipeline);
                let point = ("request", request.as_str());
                bars.push(Bar::at_least(
                    format!("{request}: requests per processor second over the best peer's"),
                    bar,
                    over(point, "cpu_of_1000_ns").map(|over| 1.0 / over),
                ));
                bars.push(Bar::at_most(
                    format!("{request}: 99 % of round trips over the best peer's"),
                    1.0,
                    over(point, "trip_p99_ns"),
                ));
            }
        }
        for command in Command::ALL {
            for (part, _) in LOADS {
                let load = load_name(command, part);
                bars.push(Bar::at_most(
                    format!("open loop, {load}: 99 % of requests over the best peer's"),
                    1.0,
                    over((OPEN_LOOP, &load), "latency_p99_ns"),
                ));
            }
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const OPEN_LOOP: &str = "open loop";

fn request_name(command: Command, pipeline: usize) -> String {
    format!("{}, {pipeline} at a time", command.name())
}

fn load_name(command: Command, part: &str) -> String {
    format!("{}, {part} of the slowest server's rate", command.name())
}

const fn view(title: &'static str, category: &'static str, value: &'static str) -> View {
    View {
        title,
        category,
        series: "server",
        value,
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 5] = [
    view(
        "the server's processor time for 1,000 requests",
        "request",
        "cpu_of_1000_ns",
    ),
    view("time for 1,000 requests", "request", "time_of_1000_ns"),
    view(
        "99 % of the round trips of all connections take less than",
        "request",
        "trip_p99_ns",
    ),
    view(
        "open loop: half of the requests take less than",
        OPEN_LOOP,
        "latency_p50_ns",
    ),
    view(
        "open loop: 99 % of the requests take less than",
        OPEN_LOOP,
        "latency_p99_ns",
    ),
];

/// The round trips of a closed loop.
struct Trips {
    command: Command,
    pipeline: usize,
    records: u64,
}

/// A row for each server.
fn closed_loop(
    servers: &[ServerProcess],
    clients: &mut [Client],
    point: &Trips,
    rounds: usize,
    sample: Duration,
) -> Result<Vec<Row>, LabError> {
    let mut samples = vec![[const { Vec::new() }; 4]; servers.len()];
    for (number, turn) in turns(servers.len(), rounds).enumerate() {
        let (server, client) = (&servers[turn.contender], &mut clients[turn.contender]);
        let mut random = Random::new(SEED ^ number as u64);
        let before_ns = server.cpu_ns()?;
        let start = Instant::now();
        let mut trips = Vec::new();
        while start.elapsed() < sample {
            trips.push(client.trip(point, &mut random)?);
        }
        let time = start.elapsed();
        let cpu_ns = server.cpu_ns()? - before_ns;
        if !turn.is_warm_up() {
            let served = (trips.len() * CONNECTIONS * point.pipeline) as u64;
            trips.sort_unstable();
            let p99 = trips[trips.len() * 99 / 100];
            let sample = [served, cpu_ns, time.as_nanos() as u64, p99];
            for (samples, one) in samples[turn.contender].iter_mut().zip(sample) {
                samples.push(one);
            }
        }
    }
    let rows = servers.iter().zip(samples);
    let rows = rows.map(|(server, [served, cpu_ns, time_ns, p99_ns])| {
        let each = |of: &[u64]| {
            let each = of.iter().zip(&served);
            each.map(|(ns, served)| ns * 1000 / served)
                .collect::<Vec<u64>>()
        };
        Row::new()
            .text("server", server.who)
            .text("request", request_name(point.command, point.pipeline))
            .count("pipeline", point.pipeline as u64)
            .samples("cpu_of_1000", "ns", each(&cpu_ns))
            .samples("time_of_1000", "ns", each(&time_ns))
            .samples("trip_p99", "ns", p99_ns)
    });
    Ok(rows.collect())
}

/// A row for each server.
fn open_loop(
    servers: &[ServerProcess],
    part: &str,
    load: &Load,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let connect = |server: &ServerProcess| OpenLoop::connect(server.who, server.port, CONNECTIONS);
    let mut clients = servers
        .iter()
        .map(connect)
        .collect::<Result<Vec<_>, LabError>>()?;
    let mut samples = vec![[const { Vec::new() }; 3]; servers.len()];
    for (number, turn) in turns(servers.len(), rounds).enumerate() {
        let mut random = Random::new(SEED ^ number as u64);
        let latencies = clients[turn.contender].run(load, &mut random)?;
        if !turn.is_warm_up() {
            let [half, most] = [0.5, 0.99].map(|part| latencies.quantile(part).unwrap_or_default());
            let sample = [latencies.count(), half, most];
            for (samples, one) in samples[turn.contender].iter_mut().zip(sample) {
                samples.push(one);
            }
        }
    }
    let rows = servers.iter().zip(samples);
    let rows = rows.map(|(server, [requests, half, most])| {
        Row::new()
            .text("server", server.who)
            .text(OPEN_LOOP, load_name(load.command, part))
            .count("asked_per_s", load.per_s.round() as u64)
            .samples("requests", "count", requests)
            .samples("latency_p50", "ns", half)
            .samples("latency_p99", "ns", most)
    });
    Ok(rows.collect())
}

/// Connections and their requests.
struct Client {
    connections: Vec<TcpStream>,
    /// One connection's requests.
    sent: Vec<u8>,
    /// The numbers of their records.
    asked: Vec<Vec<u64>>,
    received: Vec<u8>,
}

impl Client {
    fn connect(port: u16) -> Result<Client, LabError> {
        let mut connections = Vec::with_capacity(CONNECTIONS);
        let give_up = Instant::now() + Duration::from_secs(10);
        while connections.len() < CONNECTIONS {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => {
                    stream.set_nodelay(true).at("127.0.0.1")?;
                    connections.push(stream);
                }
                // It may not listen yet.
                Err(_) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(20)),
                Err(source) => return Err(source).at(format!("127.0.0.1:{port}")),
            }
        }
        Ok(Client {
            connections,
            sent: Vec::new(),
            asked: vec![Vec::new(); CONNECTIONS],
            received: Vec::new(),
        })
    }

    fn fill(&mut self, records: u64) -> Result<(), LabError> {
        const TOGETHER: u64 = 64;
        let mut next = 0;
        while next < records {
            for at in 0..CONNECTIONS {
                let end = records.min(next + TOGETHER);
                self.asked[at].clear();
                self.asked[at].extend(next..end);
                next = end;
            }
            self.exchange(Command::Set)?;
        }
        Ok(())
    }

    /// Sends requests over every connection, reads all replies, and returns the time.
    fn trip(&mut self, trips: &Trips, random: &mut Random) -> Result<u64, LabError> {
        for asked in &mut self.asked {
            asked.clear();
            asked.extend((0..trips.pipeline).map(|_| random.below(trips.records)));
        }
        let start = Instant::now();
        self.exchange(trips.command)?;
        Ok(start.elapsed().as_nanos() as u64)
    }

    fn exchange(&mut self, command: Command) -> Result<(), LabError> {
        for (connection, asked) in self.connections.iter_mut().zip(&self.asked) {
            self.sent.clear();
            for &record in asked {
                command.push(&mut self.sent, record);
            }
            connection.write_all(&self.sent).at("127.0.0.1")?;
        }
        let reply_bytes = command.reply_bytes();
        for (connection, asked) in self.connections.iter_mut().zip(&self.asked) {
            self.received.resize(reply_bytes * asked.len(), 0);
            connection.read_exact(&mut self.received).at("127.0.0.1")?;
            for (reply, &record) in self.received.chunks(reply_bytes).zip(asked) {
                if !command.is_answered(reply, record) {
                    return Err(super::wrong(WHO, record));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_about_the_best_peer_that_was_measured() {
        let row = |server: &str, p99_ns| {
            Row::new()
                .text("server", server)
                .text(OPEN_LOOP, load_name(Command::Get, "half"))
                .samples("latency_p99", "ns", vec![p99_ns])
        };
        let bar = |rows: &[Row]| {
            let bars = KvPeers.bars(rows);
            let name = load_name(Command::Get, "half");
            let bar = bars.into_iter().find(|bar| bar.what.contains(&name));
            bar.expect("a bar of this load").measured
        };
        let rows = [row(WHO, 30), row(REDIS, 40), row(VALKEY, 20)];
        assert_eq!(bar(&rows), Some(1.5));
        assert_eq!(bar(&rows[..2]), Some(0.75));
        assert_eq!(bar(&rows[..1]), None);
    }
}
