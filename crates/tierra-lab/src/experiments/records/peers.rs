//! Tierra's server against redis-server, over loopback: requests per second of the server's own processor time.
//!
//! Values of 1,000 bytes, keys drawn uniformly from a store larger than the caches, 50 connections, each with so many requests at
//! a time. The client sends to all connections, then reads and checks all replies. Client and server have a processor each. The
//! CPU time of the server's thread, user and system, counts. The elapsed time is given beside it; the client limits it as often
//! as the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::WHO;
use super::server::{REDIS, ServerProcess};
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

const VALUE_BYTES: usize = 1000;
const KEY_BYTES: usize = 16;
const CONNECTIONS: usize = 50;
const PIPELINES: [usize; 2] = [1, 16];
const SERVERS: [&str; 2] = [WHO, REDIS];
const REQUESTS: [&str; 2] = ["GET", "SET"];

/// The experiment.
pub(in crate::experiments) struct KvPeers;

impl Experiment for KvPeers {
    fn name(&self) -> &'static str {
        "kv-peers"
    }

    fn about(&self) -> &'static str {
        "how many requests does a second of the server's processor time serve, here and in redis-server?"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let records = lab.size(2_000, 4_500_000);
        let rounds = lab.size(1, 7);
        let sample = lab.size(Duration::from_millis(50), Duration::from_secs(1));
        let mut servers = vec![ServerProcess::tierra(&[])?];
        match ServerProcess::redis(&[]) {
            Some(redis) => servers.push(redis),
            None => println!("redis-server is not installed: only Tierra is measured."),
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
        let bar = progress::bar("points", REQUESTS.len() * PIPELINES.len());
        for request in REQUESTS {
            for pipeline in PIPELINES {
                let mut samples = vec![[const { Vec::new() }; 4]; servers.len()];
                for (number, turn) in turns(servers.len(), rounds).enumerate() {
                    let (server, client) = (&servers[turn.contender], &mut clients[turn.contender]);
                    let mut random = Random::new(SEED ^ number as u64);
                    let before_ns = server.cpu_ns()?;
                    let start = Instant::now();
                    let mut trips = Vec::new();
                    while start.elapsed() < sample {
                        trips.push(client.trip(request, pipeline, records, &mut random)?);
                    }
                    let time = start.elapsed();
                    let cpu_ns = server.cpu_ns()? - before_ns;
                    if !turn.is_warm_up() {
                        let served = (trips.len() * CONNECTIONS * pipeline) as u64;
                        trips.sort_unstable();
                        let p99 = trips[trips.len() * 99 / 100];
                        let sample = [served, cpu_ns, time.as_nanos() as u64, p99];
                        for (samples, one) in samples[turn.contender].iter_mut().zip(sample) {
                            samples.push(one);
                        }
                    }
                }
                for (name, [served, cpu_ns, time_ns, p99_ns]) in SERVERS.into_iter().zip(samples) {
                    let each = |of: &[u64]| {
                        let each = of.iter().zip(&served);
                        each.map(|(ns, served)| ns * 1000 / served)
                            .collect::<Vec<u64>>()
                    };
                    let row = Row::new()
                        .text("server", name)
                        .text("request", format!("{request}, {pipeline} at a time"))
                        .count("pipeline", pipeline as u64)
                        .samples("cpu_of_1000", "ns", each(&cpu_ns))
                        .samples("time_of_1000", "ns", each(&time_ns))
                        .samples("trip_p99", "ns", p99_ns);
                    rows.push(row);
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(Measured {
            tier: Tier::Real,
            parameters: Row::new()
                .count("records", records)
                .count("connections", CONNECTIONS as u64)
                .count("value_bytes", VALUE_BYTES as u64)
                .count("rounds", rounds as u64),
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        let value = |server, request: &str, key| {
            find(rows, &[("server", server), ("request", request)])?.value(key)
        };
        let over =
            |request: &str, key| Some(value(REDIS, request, key)? / value(WHO, request, key)?);
        let mut bars = Vec::new();
        for (pipeline, bar) in [(16, 2.0), (1, 1.0)] {
            for request in REQUESTS {
                let request = format!("{request}, {pipeline} at a time");
                let measured = over(&request, "cpu_of_1000_ns");
                bars.push(Bar::at_least(
                    format!("{request}: requests per processor second over redis-server's"),
                    bar,
                    measured,
                ));
                let p99 = over(&request, "trip_p99_ns").map(|over| 1.0 / over);
                bars.push(Bar::at_most(
                    format!("{request}: 99 % of round trips over redis-server's"),
                    1.0,
                    p99,
                ));
            }
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

const fn view(title: &'static str, value: &'static str) -> View {
    View {
        title,
        category: "request",
        series: "server",
        value,
        per: None,
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const VIEWS: [View; 3] = [
    view(
        "the server's processor time for 1,000 requests",
        "cpu_of_1000_ns",
    ),
    view("time for 1,000 requests", "time_of_1000_ns"),
    view(
        "99 % of the round trips of all connections take less than",
        "trip_p99_ns",
    ),
];

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
            self.exchange("SET")?;
        }
        Ok(())
    }

    /// Sends that many requests over every connection, reads all replies, and returns the time.
    fn trip(
        &mut self,
        request: &str,
        pipeline: usize,
        records: u64,
        random: &mut Random,
    ) -> Result<u64, LabError> {
        for asked in &mut self.asked {
            asked.clear();
            asked.extend((0..pipeline).map(|_| random.below(records)));
        }
        let start = Instant::now();
        self.exchange(request)?;
        Ok(start.elapsed().as_nanos() as u64)
    }

    fn exchange(&mut self, request: &str) -> Result<(), LabError> {
        for (connection, asked) in self.connections.iter_mut().zip(&self.asked) {
            self.sent.clear();
            for &record in asked {
                push_request(&mut self.sent, request, record);
            }
            connection.write_all(&self.sent).at("127.0.0.1")?;
        }
        let header = format!("${VALUE_BYTES}\r\n");
        let reply_bytes = if request == "GET" {
            header.len() + VALUE_BYTES + 2
        } else {
            b"+OK\r\n".len()
        };
        for (connection, asked) in self.connections.iter_mut().zip(&self.asked) {
            self.received.resize(reply_bytes * asked.len(), 0);
            connection.read_exact(&mut self.received).at("127.0.0.1")?;
            for (reply, &record) in self.received.chunks(reply_bytes).zip(asked) {
                let right = match request {
                    "GET" => reply[header.len()..].starts_with(&key(record)[8..]),
                    _ => reply == b"+OK\r\n",
                };
                if !right {
                    return Err(super::wrong(WHO, record));
                }
            }
        }
        Ok(())
    }
}

/// The key of a record; a value begins with the key's second half.
fn key(record: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'k'; KEY_BYTES];
    let mut rest = record;
    for digit in key[8..].iter_mut().rev() {
        *digit = b'0' + (rest % 36) as u8;
        rest /= 36;
    }
    key
}

fn push_request(sent: &mut Vec<u8>, request: &str, record: u64) {
    let key = key(record);
    let arguments = if request == "SET" { 3 } else { 2 };
    sent.extend_from_slice(
        format!("*{arguments}\r\n$3\r\n{request}\r\n${KEY_BYTES}\r\n").as_bytes(),
    );
    sent.extend_from_slice(&key);
    sent.extend_from_slice(b"\r\n");
    if request == "SET" {
        sent.extend_from_slice(format!("${VALUE_BYTES}\r\n").as_bytes());
        sent.extend_from_slice(&key[8..]);
        sent.resize(sent.len() + VALUE_BYTES - 8, b'v');
        sent.extend_from_slice(b"\r\n");
    }
}
