//! A server of YCSB's records, used over its protocol as YCSB's own client uses Redis.
//!
//! A read is HGETALL, an update HSET of one field, an insert HSET of all fields and ZADD to the index, a scan ZRANGEBYSCORE of
//! the index and then HGETALL of the named records. Requests of a window are divided equally between connections. A connection's
//! part is sent at once, and every reply is read and checked.

use std::ops::Range;

use tierra_data::ycsb::{Operation, Requests, write_name};

use super::connection::Connection;
use super::driver::{Run, Target, drive};
use super::server::ServerProcess;
use super::{INDEX, record_of, wrong};
use crate::error::{Context, LabError};

/// Connections to a server.
pub(super) struct Remote {
    who: &'static str,
    connections: Vec<Connection>,
    /// Requests that a connection sends at once.
    pipeline: usize,
    version: u64,
    name: String,
    /// Whether inserts are added to the index.
    is_indexed: bool,
}

impl Remote {
    /// That many connections, each with that many requests at a time.
    pub(super) fn connect(
        server: &ServerProcess,
        connections: usize,
        pipeline: usize,
    ) -> Result<Remote, LabError> {
        let connect = |_| Connection::open(server.who, server.port);
        Ok(Remote {
            who: server.who,
            connections: (0..connections).map(connect).collect::<Result<_, _>>()?,
            pipeline,
            version: 0,
            name: String::new(),
            is_indexed: false,
        })
    }

    /// Adds the records of these numbers.
    pub(super) fn load(&mut self, records: Range<u64>) -> Result<(), LabError> {
        let mut left = records;
        while !left.is_empty() {
            let most = left.start + self.window() as u64;
            let window: Vec<Operation> = (left.start..left.end.min(most))
                .map(|record| Operation::Insert { record })
                .collect();
            left.start += window.len() as u64;
            self.serve_window(&window)?;
        }
        Ok(())
    }

    /// Reads and checks that many records.
    pub(super) fn check(&mut self, records: u64) -> Result<(), LabError> {
        let all: Vec<Operation> = (0..records)
            .map(|record| Operation::Read { record })
            .collect();
        all.chunks(self.window())
            .try_for_each(|window| self.serve_window(window))
    }

    /// Gives the server the index of these records, for scans.
    pub(super) fn index(&mut self, records: u64) -> Result<(), LabError> {
        const TOGETHER: u64 = 64;
        let (who, connection) = (self.who, &mut self.connections[0]);
        for first in (0..records).step_by(TOGETHER as usize) {
            let together = first..records.min(first + TOGETHER);
            for record in together.clone() {
                write_name(&mut self.name, record);
                connection.index(record, &self.name);
            }
            connection.send()?;
            for record in together {
                if connection.header(b':')? != 1 {
                    return Err(wrong(who, record));
                }
            }
        }
        self.is_indexed = true;
        Ok(())
    }

    /// Removes the index.
    pub(super) fn drop_index(&mut self) -> Result<(), LabError> {
        self.is_indexed = false;
        let connection = &mut self.connections[0];
        connection.ask(&[b"DEL", INDEX]);
        connection.send()?;
        connection.header(b':').map(|_| ())
    }

    /// A number of a section of INFO.
    pub(super) fn info(&mut self, section: &str, name: &str) -> Result<u64, LabError> {
        let connection = &mut self.connections[0];
        connection.ask(&[b"INFO", section.as_bytes()]);
        connection.send()?;
        let text = connection.text()?;
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value
            .and_then(|value| value.trim().parse().ok())
            .ok_or("INFO does not tell")
            .by(self.who, format!("telling {name}"))
    }

    /// Serves that many requests, and records the time of each.
    pub(super) fn run(
        &mut self,
        requests: &mut Requests,
        operations: usize,
    ) -> Result<Run, LabError> {
        drive(self, requests, operations)
    }
}

impl Target for Remote {
    fn window(&self) -> usize {
        self.connections.len() * self.pipeline
    }

    fn serve_window(&mut self, window: &[Operation]) -> Result<(), LabError> {
        let parts = || window.chunks(self.pipeline);
        for (connection, part) in self.connections.iter_mut().zip(parts()) {
            for &operation in part {
                write_name(&mut self.name, record_of(operation));
                self.version += 1;
                connection.request(operation, &self.name, self.version, self.is_indexed);
            }
            connection.send()?;
        }
        for (connection, part) in self.connections.iter_mut().zip(parts()) {
            for &operation in part {
                connection.answer(operation, self.is_indexed)?;
            }
        }
        // The records that scans have named.
        for connection in &mut self.connections {
            connection.send()?;
        }
        for (connection, part) in self.connections.iter_mut().zip(parts()) {
            connection.scanned(part)?;
        }
        Ok(())
    }
}
