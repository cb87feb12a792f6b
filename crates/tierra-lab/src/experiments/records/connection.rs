//! A connection to a server of records: writes requests in its protocol, reads and checks replies.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::time::{Duration, Instant};

use tierra_data::ycsb::{
    FIELD_BYTES, FIELD_NAMES, FIELDS, Operation, check_record, fnv, write_field, write_name,
};

use super::{INDEX, record_of, wrong};
use crate::error::{At, Context, LabError};

const HOST: &str = "127.0.0.1";

/// A connection. Requests are sent together; then every reply is read, in order.
pub(super) struct Connection {
    who: &'static str,
    stream: TcpStream,
    sent: Vec<u8>,
    received: Vec<u8>,
    /// The position read so far, and the end of the received bytes.
    at: usize,
    end: usize,
    /// The number of records named by each scan of the window.
    named: Vec<usize>,
}

impl Connection {
    /// Connects as soon as the server listens.
    pub(super) fn open(who: &'static str, port: u16) -> Result<Connection, LabError> {
        let give_up = Instant::now() + Duration::from_secs(10);
        let stream = loop {
            match TcpStream::connect((HOST, port)) {
                Ok(stream) => break stream,
                // It may not listen yet.
                Err(_) if Instant::now() < give_up => std::thread::sleep(Duration::from_millis(20)),
                Err(source) => return Err(source).at(format!("{HOST}:{port}")),
            }
        };
        stream.set_nodelay(true).at(HOST)?;
        Ok(Connection {
            who,
            stream,
            sent: Vec::new(),
            received: vec![0; 64 << 10],
            at: 0,
            end: 0,
            named: Vec::new(),
        })
    }

    /// Adds a command to the next send.
    pub(super) fn ask(&mut self, words: &[&[u8]]) {
        push_number(&mut self.sent, b'*', words.len());
        for word in words {
            push_number(&mut self.sent, b'$', word.len());
            self.sent.extend_from_slice(word);
            self.sent.extend_from_slice(b"\r\n");
        }
    }

    /// Requests that a record is added to the index.
    pub(super) fn index(&mut self, record: u64, name: &str) {
        let score = (fnv(record) as f64).to_string();
        self.ask(&[b"ZADD", INDEX, score.as_bytes(), name.as_bytes()]);
    }

    /// Adds the commands of a YCSB request.
    pub(super) fn request(
        &mut self,
        operation: Operation,
        name: &str,
        version: u64,
        is_indexed: bool,
    ) {
        let key = name.as_bytes();
        match operation {
            Operation::Read { .. } => self.ask(&[b"HGETALL", key]),
            Operation::Update { record, field } => self.update(key, record, field, version),
            Operation::ReadModifyWrite { record, field } => {
                self.ask(&[b"HGETALL", key]);
                self.update(key, record, field, version);
            }
            Operation::Insert { record } => {
                let mut contents = [[0; FIELD_BYTES]; FIELDS];
                let mut words: [&[u8]; 2 + 2 * FIELDS] = [b""; 2 + 2 * FIELDS];
                (words[0], words[1]) = (b"HSET", key);
                for (field, content) in contents.iter_mut().enumerate() {
                    write_field(content, record, field, 0);
                }
                for ((pair, name), content) in
                    words[2..].chunks_mut(2).zip(&FIELD_NAMES).zip(&contents)
                {
                    (pair[0], pair[1]) = (name.as_bytes(), content);
                }
                self.ask(&words);
                if is_indexed {
                    self.index(record, name);
                }
            }
            Operation::Scan { record, records } => {
                let (score, count) = ((fnv(record) as f64).to_string(), records.to_string());
                let (from, to): (&[u8], &[u8]) = (score.as_bytes(), b"+inf");
                let limit: [&[u8]; 3] = [b"LIMIT", b"0", count.as_bytes()];
                self.ask(&[
                    b"ZRANGEBYSCORE",
                    INDEX,
                    from,
                    to,
                    limit[0],
                    limit[1],
                    limit[2],
                ]);
            }
        }
    }

    fn update(&mut self, key: &[u8], record: u64, field: usize, version: u64) {
        let mut content = [0; FIELD_BYTES];
        write_field(&mut content, record, field, version);
        self.ask(&[b"HSET", key, FIELD_NAMES[field].as_bytes(), &content]);
    }

    /// Sends the added commands.
    pub(super) fn send(&mut self) -> Result<(), LabError> {
        self.stream.write_all(&self.sent).at(HOST)?;
        self.sent.clear();
        debug_assert!(self.at <= self.end);
        // All replies of a window are read before the next window is sent, except for the second part of scans.
        if self.at == self.end {
            (self.at, self.end) = (0, 0);
        }
        Ok(())
    }

    /// Reads and checks the reply to a request. For a scan it requests the named records.
    pub(super) fn answer(
        &mut self,
        operation: Operation,
        is_indexed: bool,
    ) -> Result<(), LabError> {
        let record = record_of(operation);
        let is_right = match operation {
            Operation::Read { .. } => return self.record(Some(record), record),
            Operation::Update { .. } => self.header(b':')? == 0,
            Operation::ReadModifyWrite { .. } => {
                self.record(Some(record), record)?;
                self.header(b':')? == 0
            }
            Operation::Insert { .. } => {
                let fields = self.header(b':')?;
                let ranked = if is_indexed { self.header(b':')? } else { 1 };
                (fields, ranked) == (FIELDS as i64, 1)
            }
            Operation::Scan { .. } => {
                let names = self.header(b'*')? as usize;
                let (mut first, mut begins_there) = (String::new(), false);
                write_name(&mut first, record);
                for at in 0..names {
                    let name = self.bulk()?;
                    let name = self.received[name].to_vec();
                    begins_there |= at == 0 && name == first.as_bytes();
                    self.ask(&[b"HGETALL", &name]);
                }
                self.named.push(names);
                begins_there
            }
        };
        if is_right {
            Ok(())
        } else {
            Err(wrong(self.who, record))
        }
    }

    /// Reads the records that scans have named.
    pub(super) fn scanned(&mut self, part: &[Operation]) -> Result<(), LabError> {
        let mut named = std::mem::take(&mut self.named);
        let scans = part
            .iter()
            .filter(|operation| matches!(operation, Operation::Scan { .. }));
        for (&operation, names) in scans.zip(named.drain(..)) {
            for _ in 0..names {
                self.record(None, record_of(operation))?;
            }
        }
        self.named = named;
        Ok(())
    }

    /// Reads a record: the one with this number, or any that a scan from `asked` on has named.
    fn record(&mut self, number: Option<u64>, asked: u64) -> Result<(), LabError> {
        let words = self.header(b'*')?;
        let mut fields: [(Range<usize>, Range<usize>); FIELDS] = Default::default();
        if words != 2 * FIELDS as i64 {
            return Err(wrong(self.who, asked));
        }
        // The whole record is received before it is checked: receiving more may move it.
        for (name, content) in &mut fields {
            (*name, *content) = (self.bulk()?, self.bulk()?);
        }
        let received = &self.received;
        let mut pairs = fields
            .into_iter()
            .map(|(name, content)| (&received[name], &received[content]));
        let is_right = match number {
            Some(number) => check_record(pairs, number),
            None => pairs.all(|(_, content)| content.len() == FIELD_BYTES),
        };
        if is_right {
            Ok(())
        } else {
            Err(wrong(self.who, asked))
        }
    }

    /// Reads the first line of a reply of this kind and returns its number.
    pub(super) fn header(&mut self, kind: u8) -> Result<i64, LabError> {
        let line = self.line()?;
        let number = match &self.received[line.clone()] {
            [first, digits @ ..] if *first == kind => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok()),
            _ => None,
        };
        number
            .ok_or_else(|| String::from_utf8_lossy(&self.received[line]).into_owned())
            .by(self.who, "answering")
    }

    /// Reads a string.
    pub(super) fn text(&mut self) -> Result<String, LabError> {
        let place = self.bulk()?;
        Ok(String::from_utf8_lossy(&self.received[place]).into_owned())
    }

    /// Reads a string and returns its position.
    fn bulk(&mut self) -> Result<Range<usize>, LabError> {
        let bytes = self.header(b'$')?;
        let bytes = usize::try_from(bytes).by(self.who, "answering with a string")?;
        while self.end - self.at < bytes + 2 {
            self.receive()?;
        }
        let place = self.at..self.at + bytes;
        self.at += bytes + 2;
        Ok(place)
    }

    /// Reads a line and returns its position, without its end.
    fn line(&mut self) -> Result<Range<usize>, LabError> {
        let mut searched = self.at;
        loop {
            let new = &self.received[searched..self.end];
            if let Some(found) = new.iter().position(|&byte| byte == b'\n') {
                let end = searched + found;
                let place = self.at..end.saturating_sub(1).max(self.at);
                self.at = end + 1;
                return Ok(place);
            }
            searched = self.end;
            self.receive()?;
        }
    }

    /// Waits for more bytes.
    fn receive(&mut self) -> Result<(), LabError> {
        if self.end == self.received.len() {
            self.received.resize(2 * self.end, 0);
        }
        let read = self.stream.read(&mut self.received[self.end..]).at(HOST)?;
        if read == 0 {
            return Err("it has closed the connection").by(self.who, "answering");
        }
        self.end += read;
        Ok(())
    }
}

fn push_number(to: &mut Vec<u8>, kind: u8, number: usize) {
    to.push(kind);
    // Writing to a `Vec` does not fail.
    let _ = write!(to, "{number}\r\n");
}
