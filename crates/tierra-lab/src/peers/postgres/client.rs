//! A client of PostgreSQL's protocol: statements prepared once, executed with texts as arguments, one round trip each.
//!
//! It waits for every answer, but for that of a statement that is to be cancelled ([`Client::begin`]), so a session is a thread. It has
//! no password and no TLS, for servers on this machine alone.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::random::Random;

/// Version 3.0 of the protocol.
const VERSION: u32 = 196_608;
/// What asks for a statement to be cancelled, in place of a version.
const CANCEL: u32 = 80_877_102;
/// How long a server may take to start.
const STARTS: Duration = Duration::from_secs(60);
/// Between two attempts to reach it.
const ATTEMPTS_APART: Duration = Duration::from_millis(20);
/// Of rows that are copied in, in a message.
const COPY_BYTES: usize = 1 << 16;
/// A transaction that loses to others waits a random time of at most this before it runs again.
const AGAIN_MOST: Duration = Duration::from_millis(2);

/// Why a statement failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server said so.
    #[error("{message} (SQLSTATE {code})")]
    Refused {
        /// PostgreSQL's code of the error.
        code: String,
        /// The server's words.
        message: String,
    },
    /// The connection is gone.
    #[error("the connection: {0}")]
    Connection(#[from] io::Error),
    /// A message that makes no sense here.
    #[error("an unexpected message: {0}")]
    Unexpected(String),
}

impl ClientError {
    /// Whether the transaction lost to another, and can be run again: SQLSTATE 40001, or 40P01 where writers wait for each other.
    pub fn is_conflict(&self) -> bool {
        matches!(self, ClientError::Refused { code, .. } if code == "40001" || code == "40P01")
    }
}

/// The rows of a statement; a NULL is `None`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The cells as texts.
    pub rows: Vec<Vec<Option<String>>>,
    /// How many rows it returned or changed.
    pub count: u64,
}

/// A session.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
    sent: Vec<u8>,
    received: Vec<u8>,
    /// Who asks for a statement of this session to be cancelled knows it.
    secret: Vec<u8>,
}

impl Client {
    /// Logs in to a server of this machine as soon as it listens.
    ///
    /// # Errors
    /// If it does not listen in a minute, or lets nobody in.
    pub fn connect(port: u16) -> Result<Client, ClientError> {
        let give_up = Instant::now() + STARTS;
        loop {
            let entered = Client::enter(port);
            match &entered {
                // Not yet listening, or "the database system is starting up".
                Err(ClientError::Connection(_)) if Instant::now() < give_up => {}
                Err(ClientError::Refused { code, .. })
                    if code == "57P03" && Instant::now() < give_up => {}
                _ => return entered,
            }
            std::thread::sleep(ATTEMPTS_APART);
        }
    }

    fn enter(port: u16) -> Result<Client, ClientError> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        let mut client = Client {
            stream: BufReader::new(stream),
            sent: Vec::new(),
            received: Vec::new(),
            secret: Vec::new(),
        };
        client.message(None, |body| {
            body.extend(VERSION.to_be_bytes());
            for text in ["user", "postgres", "database", "postgres", ""] {
                push(body, text);
            }
        });
        client.exchange()?;
        Ok(client)
    }

    /// Runs statements, separated by semicolons; returns the rows of all.
    ///
    /// # Errors
    /// The first that fails.
    pub fn query(&mut self, sql: &str) -> Result<Answer, ClientError> {
        self.message(Some(b'Q'), |body| push(body, sql));
        self.exchange()
    }

    /// Has the server begin a statement, whose end [`Client::wait`] waits for.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn begin(&mut self, sql: &str) -> Result<(), ClientError> {
        self.message(Some(b'Q'), |body| push(body, sql));
        self.send()
    }

    /// Waits until the statement has ended; its rows are dropped.
    ///
    /// # Errors
    /// If it failed.
    pub fn wait(&mut self) -> Result<u64, ClientError> {
        self.until_ready(|_| Ok(()))
    }

    /// Asks for the running statement to be cancelled, over a connection of its own.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub fn cancel(&self) -> Result<(), ClientError> {
        let mut stream = TcpStream::connect(self.stream.get_ref().peer_addr()?)?;
        let length = 8 + self.secret.len() as u32;
        let head = [length.to_be_bytes(), CANCEL.to_be_bytes()].concat();
        stream.write_all(&[&head[..], &self.secret[..]].concat())?;
        Ok(())
    }

    /// Executes a prepared query without parameters and hands over the cells of each row when it arrives. Returns how many rows there
    /// were.
    ///
    /// # Errors
    /// If the query fails, or those of `row`.
    pub fn stream(
        &mut self,
        name: &str,
        mut row: impl FnMut(&[Option<String>]) -> Result<(), ClientError>,
    ) -> Result<u64, ClientError> {
        self.bind_and_execute(name, &[]);
        self.send()?;
        self.until_ready(|body| row(&cells(body)?))
    }

    /// Prepares a statement, whose parameters are `$1`, `$2`, ..
    ///
    /// # Errors
    /// If it cannot be planned.
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<(), ClientError> {
        self.message(Some(b'P'), |body| {
            push(body, name);
            push(body, sql);
            body.extend([0, 0]);
        });
        self.message(Some(b'S'), |_| ());
        self.exchange().map(drop)
    }

    /// Executes a prepared statement.
    ///
    /// # Errors
    /// If it fails.
    pub fn execute(&mut self, name: &str, arguments: &[&str]) -> Result<Answer, ClientError> {
        self.bind_and_execute(name, arguments);
        self.exchange()
    }

    fn bind_and_execute(&mut self, name: &str, arguments: &[&str]) {
        self.message(Some(b'B'), |body| {
            push(body, "");
            push(body, name);
            // All arguments are texts.
            body.extend([0, 0]);
            body.extend((arguments.len() as u16).to_be_bytes());
            for argument in arguments {
                body.extend((argument.len() as u32).to_be_bytes());
                body.extend(argument.as_bytes());
            }
            // So are the cells of the answer.
            body.extend([0, 0]);
        });
        self.message(Some(b'E'), |body| body.extend([0; 5]));
        self.message(Some(b'S'), |_| ());
    }

    /// Copies rows into a table: `COPY t FROM STDIN`, with lines of texts separated by tabs, each with its end.
    ///
    /// # Errors
    /// If a row does not fit.
    pub fn copy_in(
        &mut self,
        table: &str,
        lines: impl Iterator<Item = String>,
    ) -> Result<u64, ClientError> {
        self.begin_copy(&format!("COPY {table} FROM STDIN"))?;
        let mut rows = String::with_capacity(COPY_BYTES + 1024);
        for line in lines {
            rows.push_str(&line);
            if rows.len() >= COPY_BYTES {
                self.copy_some(rows.as_bytes())?;
                rows.clear();
            }
        }
        self.message(Some(b'd'), |body| body.extend(rows.as_bytes()));
        self.end_copy()
    }

    /// Copies what a reader has into a table, by a statement `COPY .. FROM STDIN ..`.
    ///
    /// # Errors
    /// If it cannot be read, or a row does not fit.
    pub fn copy_from(&mut self, sql: &str, mut rows: impl Read) -> Result<u64, ClientError> {
        self.begin_copy(sql)?;
        let mut part = vec![0; COPY_BYTES];
        loop {
            let len = rows.read(&mut part)?;
            if len == 0 {
                return self.end_copy();
            }
            self.copy_some(&part[..len])?;
        }
    }

    /// Begins to copy rows into a table, by a statement `COPY .. FROM STDIN ..`.
    ///
    /// # Errors
    /// If the server refuses it.
    pub fn begin_copy(&mut self, sql: &str) -> Result<(), ClientError> {
        self.begin(sql)?;
        match self.receive()? {
            b'G' => Ok(()),
            b'E' => {
                let refused = refusal(&self.received);
                self.until_ready(|_| Ok(()))?;
                Err(refused)
            }
            kind => Err(unexpected(kind)),
        }
    }

    /// Hands over some of the rows that are copied.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn copy_some(&mut self, rows: &[u8]) -> Result<(), ClientError> {
        self.message(Some(b'd'), |body| body.extend(rows));
        self.send()
    }

    fn end_copy(&mut self) -> Result<u64, ClientError> {
        self.message(Some(b'c'), |_| ());
        Ok(self.exchange()?.count)
    }

    /// Adds a message; one without a type is the first.
    fn message(&mut self, kind: Option<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        self.sent.extend(kind);
        let at = self.sent.len();
        self.sent.extend([0; 4]);
        body(&mut self.sent);
        let length = (self.sent.len() - at) as u32;
        self.sent[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn send(&mut self) -> Result<(), ClientError> {
        self.stream.get_mut().write_all(&self.sent)?;
        self.sent.clear();
        Ok(())
    }

    /// Sends the messages and reads the answer.
    fn exchange(&mut self) -> Result<Answer, ClientError> {
        self.send()?;
        let mut rows = Vec::new();
        let count = self.until_ready(|body| {
            rows.push(cells(body)?);
            Ok(())
        })?;
        Ok(Answer { rows, count })
    }

    /// Reads until the server waits for the next statement, and hands over the bodies of rows. Returns the count of the last statement.
    fn until_ready(
        &mut self,
        mut row: impl FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<u64, ClientError> {
        let (mut count, mut refused) = (0, None);
        loop {
            match self.receive()? {
                b'D' => row(&self.received)?,
                b'C' => count = counted(&self.received),
                b'K' => self.secret.clone_from(&self.received),
                b'E' if refused.is_none() => {
                    let error = refusal(&self.received);
                    // A server that refuses a login closes.
                    if self.is_closed() {
                        return Err(error);
                    }
                    refused = Some(error);
                }
                b'Z' => return refused.map_or(Ok(count), Err),
                b'R' if self.received.get(..4) != Some(&[0; 4]) => {
                    return Err(ClientError::Unexpected("it wants a password".to_owned()));
                }
                _ => {}
            }
        }
    }

    /// Whether the server has closed, which it does after it refused a login.
    fn is_closed(&mut self) -> bool {
        self.stream.fill_buf().map_or(true, <[u8]>::is_empty)
    }

    /// Reads a message into `received`; returns its type.
    fn receive(&mut self) -> Result<u8, ClientError> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let [kind, length @ ..] = header;
        let length = u32::from_be_bytes(length) as usize;
        let length = length.checked_sub(4).ok_or_else(|| unexpected(kind))?;
        self.received.resize(length, 0);
        self.stream.read_exact(&mut self.received)?;
        Ok(kind)
    }
}

/// Runs a transaction until it does not lose to another; returns what it returned, and how often it lost. It is rolled back after each
/// error.
///
/// # Errors
/// Any other error.
pub fn retried<T>(
    client: &mut Client,
    random: &mut Random,
    mut transaction: impl FnMut(&mut Client) -> Result<T, ClientError>,
) -> Result<(T, u64), ClientError> {
    let mut lost = 0;
    loop {
        match transaction(client) {
            Ok(done) => return Ok((done, lost)),
            Err(error) if error.is_conflict() => {
                lost += 1;
                // A COMMIT that lost has ended it already, which is a warning then.
                let _ = client.query("ROLLBACK");
                std::thread::sleep(AGAIN_MOST.mul_f64(random.fraction()));
            }
            Err(error) => {
                let _ = client.query("ROLLBACK");
                return Err(error);
            }
        }
    }
}

/// A text, and the zero at its end.
fn push(body: &mut Vec<u8>, text: &str) {
    body.extend(text.as_bytes());
    body.push(0);
}

fn unexpected(kind: u8) -> ClientError {
    ClientError::Unexpected(format!("of type '{}'", char::from(kind)))
}

/// The cells of a row.
fn cells(mut body: &[u8]) -> Result<Vec<Option<String>>, ClientError> {
    let malformed = || ClientError::Unexpected("a row that is cut short".to_owned());
    let mut take = |bytes: usize| {
        let (taken, rest) = body.split_at_checked(bytes)?;
        body = rest;
        Some(taken)
    };
    let count = take(2).ok_or_else(malformed)?;
    let count = u16::from_be_bytes([count[0], count[1]]);
    let mut cells = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let length = take(4).ok_or_else(malformed)?;
        let length = i32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        cells.push(match usize::try_from(length) {
            Ok(length) => {
                let text = take(length).ok_or_else(malformed)?;
                Some(String::from_utf8_lossy(text).into_owned())
            }
            Err(_) => None,
        });
    }
    Ok(cells)
}

/// The number at the end of `INSERT 0 1`, `UPDATE 1`, `SELECT 5`.
fn counted(body: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(body);
    let last = text.trim_end_matches('\0').rsplit(' ').next();
    last.and_then(|number| number.parse().ok()).unwrap_or(0)
}

fn refusal(body: &[u8]) -> ClientError {
    let field = |kind: u8| {
        let mut fields = body.split(|byte| *byte == 0);
        let found = fields.find(|field| field.first() == Some(&kind));
        String::from_utf8_lossy(found.map_or(&[], |field| &field[1..])).into_owned()
    };
    ClientError::Refused {
        code: field(b'C'),
        message: field(b'M'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_tags_and_errors_are_read() {
        let row = [0, 3, 0, 0, 0, 1, b'7', 255, 255, 255, 255, 0, 0, 0, 0];
        let expected = [Some("7".to_owned()), None, Some(String::new())];
        assert_eq!(cells(&row).unwrap(), expected);
        assert!(cells(&row[..8]).is_err());
        assert_eq!(counted(b"INSERT 0 12\0"), 12);
        assert_eq!(counted(b"COMMIT\0"), 0);
        let error = refusal(b"SERROR\0C40001\0Mlost\0\0");
        assert!(error.is_conflict());
        assert_eq!(error.to_string(), "lost (SQLSTATE 40001)");
        assert!(!refusal(b"C23505\0Mtaken\0\0").is_conflict());
    }
}
