//! Open-loop load: requests are sent when they were meant to be, whether or not earlier ones have been answered.
//!
//! In a closed loop a client waits for a reply before it sends again. So a slow server is asked less often, and the time that
//! requests wait to be sent counts nowhere. Here requests come at random times of a given rate, as from clients that know nothing of
//! each other, and the latency of each counts from the moment at which it was meant to leave.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::get_set::Command;
use super::wrong;
use crate::error::{At, Context, LabError};
use crate::histogram::Histogram;
use crate::random::Random;

const HOST: &str = "127.0.0.1";
/// How long after the last request replies may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Load on one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) command: Command,
    pub(super) per_s: f64,
    pub(super) time: Duration,
    /// Records to choose from.
    pub(super) records: u64,
}

/// A connection and what is under way on it.
struct Line {
    stream: TcpStream,
    unsent: Vec<u8>,
    /// When each request was meant to leave, and its record, in the order of the replies.
    asked: VecDeque<(u64, u64)>,
    received: Vec<u8>,
}

/// Connections to a server.
pub(super) struct OpenLoop {
    who: &'static str,
    lines: Vec<Line>,
}

impl OpenLoop {
    /// Connects to a server that listens.
    pub(super) fn connect(
        who: &'static str,
        port: u16,
        connections: usize,
    ) -> Result<OpenLoop, LabError> {
        let connect = |_| {
            let stream = TcpStream::connect((HOST, port)).at(HOST)?;
            stream.set_nodelay(true).at(HOST)?;
            stream.set_nonblocking(true).at(HOST)?;
            Ok(Line {
                stream,
                unsent: Vec::new(),
                asked: VecDeque::new(),
                received: Vec::new(),
            })
        };
        let lines = (0..connections).map(connect);
        Ok(OpenLoop {
            who,
            lines: lines.collect::<Result<_, LabError>>()?,
        })
    }

    /// Sends requests at their times, by one connection after the other, and returns the latencies of all.
    ///
    /// # Errors
    /// A connection that fails, a wrong reply, or one that does not come.
    pub(super) fn run(&mut self, load: &Load, random: &mut Random) -> Result<Histogram, LabError> {
        let mut latencies = Histogram::new();
        let end_ns = load.time.as_nanos() as f64;
        let give_up = load.time + PATIENCE;
        let (mut due_ns, mut next) = (gap_ns(load.per_s, random), 0);
        let start = Instant::now();
        loop {
            let now = start.elapsed();
            while due_ns < end_ns && due_ns <= now.as_nanos() as f64 {
                let connections = self.lines.len();
                let line = &mut self.lines[next % connections];
                let record = random.below(load.records);
                load.command.push(&mut line.unsent, record);
                line.asked.push_back((due_ns as u64, record));
                line.send()?;
                next += 1;
                due_ns += gap_ns(load.per_s, random);
            }
            let mut waiting = false;
            for line in self.lines.iter_mut().filter(|line| !line.asked.is_empty()) {
                waiting = true;
                line.send()?;
                line.receive(self.who, load.command, start, &mut latencies)?;
            }
            if !waiting && due_ns >= end_ns {
                return Ok(latencies);
            }
            if now > give_up {
                return Err("replies are missing")
                    .by(self.who, "answering requests of an open loop");
            }
        }
    }
}

/// The time to the next request: exponentially distributed, as of independent clients.
fn gap_ns(per_s: f64, random: &mut Random) -> f64 {
    -(1.0 - random.fraction()).ln() * 1e9 / per_s
}

impl Line {
    /// Sends as much as the connection takes.
    fn send(&mut self) -> Result<(), LabError> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).at(HOST),
            }
        }
        Ok(())
    }

    /// Takes the replies that are there.
    fn receive(
        &mut self,
        who: &'static str,
        command: Command,
        start: Instant,
        latencies: &mut Histogram,
    ) -> Result<(), LabError> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => return Err("it has closed the connection").by(who, "answering"),
            Ok(read) => self.received.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).at(HOST),
        }
        let now_ns = start.elapsed().as_nanos() as u64;
        let whole = self.received.len() / command.reply_bytes() * command.reply_bytes();
        for reply in self.received[..whole].chunks(command.reply_bytes()) {
            let (due_ns, record) = self.asked.pop_front().ok_or_else(|| wrong(who, 0))?;
            if !command.is_answered(reply, record) {
                return Err(wrong(who, record));
            }
            latencies.add(now_ns.saturating_sub(due_ns), 1);
        }
        self.received.drain(..whole);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::lab::SEED;

    #[test]
    fn gaps_have_the_mean_of_their_rate() {
        let mut random = Random::new(SEED);
        let sum: f64 = (0..100_000).map(|_| gap_ns(1e6, &mut random)).sum();
        assert!((sum / 1e8 - 1.0).abs() < 0.02, "{sum}");
    }

    /// A server that answers SETs, and pauses once.
    fn pausing_server(pause: Duration) -> u16 {
        let listener = TcpListener::bind((HOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut sent = Vec::new();
            Command::Set.push(&mut sent, 0);
            let mut buffer = vec![0; sent.len()];
            let mut answered = 0;
            while stream.read_exact(&mut buffer).is_ok() {
                if answered == 20 {
                    std::thread::sleep(pause);
                }
                answered += 1;
                if stream.write_all(b"+OK\r\n").is_err() {
                    return;
                }
            }
        });
        port
    }

    #[test]
    fn a_pause_counts_for_every_request_that_was_meant_to_leave_during_it() {
        let pause = Duration::from_millis(100);
        let mut client = OpenLoop::connect("a test", pausing_server(pause), 1).unwrap();
        let load = Load {
            command: Command::Set,
            per_s: 1_000.0,
            time: Duration::from_millis(200),
            records: 1,
        };
        let latencies = client.run(&load, &mut Random::new(SEED)).unwrap();
        // A closed loop would have one slow request. Here about half came during the pause, and waited for half of it on average.
        let p75 = latencies.quantile(0.75).unwrap();
        assert!(p75 > pause.as_nanos() as u64 / 5, "{p75}");
    }
}
