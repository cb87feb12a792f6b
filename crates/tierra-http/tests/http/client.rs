//! A client that writes requests as text, so that it can also write wrong ones.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to its end.
    pub(crate) is_whole: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        assert!(self.is_whole);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// SQLSTATE of an error.
    pub(crate) fn code(&self) -> String {
        let json = self.json();
        json["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The message of an error.
    pub(crate) fn message(&self) -> String {
        let json = self.json();
        json["error"]["message"].as_str().unwrap().to_owned()
    }
}

/// A connection.
pub(crate) struct Client<S: Read + Write = TcpStream> {
    pub(crate) stream: BufReader<S>,
    pub(crate) host: String,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(120)))
            .unwrap();
        Self::over(stream, address)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S, address: SocketAddr) -> Self {
        Self {
            stream: BufReader::new(stream),
            host: format!("localhost:{}", address.port()),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let stream = self.stream.get_mut();
        stream.write_all(bytes.as_ref()).unwrap();
        stream.flush().unwrap();
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.get_with(path, "")
    }

    /// A GET with more headers, each with the end of its line.
    pub(crate) fn get_with(&mut self, path: &str, headers: &str) -> Answer {
        self.send(format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n",
            self.host
        ));
        self.answer().unwrap()
    }

    /// Sends SQL, and does not wait for the answer.
    pub(crate) fn begin(&mut self, sql: &str, headers: &str) {
        self.send(format!(
            "POST /sql HTTP/1.1\r\nHost: {}\r\nContent-Type: application/sql\r\nContent-Length: {}\r\n{headers}\r\n{sql}",
            self.host,
            sql.len()
        ));
    }

    /// Runs SQL.
    pub(crate) fn sql(&mut self, sql: &str) -> Answer {
        self.sql_as(sql, "application/json")
    }

    /// Runs SQL, whose rows are wanted in a format.
    pub(crate) fn sql_as(&mut self, sql: &str, accept: &str) -> Answer {
        self.begin(sql, &format!("Accept: {accept}\r\n"));
        self.answer().unwrap()
    }

    /// The rows of a query that succeeds.
    pub(crate) fn rows(&mut self, sql: &str) -> Value {
        let answer = self.sql(sql);
        assert_eq!(answer.status, 200, "{sql}: {answer:?}");
        answer.json()["rows"].clone()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).unwrap_or(0);
        (read > 0).then(|| line.trim_end_matches("\r\n").to_owned())
    }

    /// Reads the head of an answer; `None` if the connection ended first.
    pub(crate) fn head(&mut self) -> Option<Answer> {
        let status = self.line()?;
        let status = status.split(' ').nth(1)?.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(": ") {
                Some((name, value)) => headers.push((name.to_owned(), value.to_owned())),
                None => break,
            }
        }
        Some(Answer {
            status,
            headers,
            body: Vec::new(),
            is_whole: false,
        })
    }

    /// The next part of a body in chunks; `None` if it does not arrive.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        let len = usize::from_str_radix(&self.line()?, 16).unwrap();
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes).ok()?;
        bytes.truncate(len);
        Some(bytes)
    }

    /// Reads an answer; `None` if the connection ended first.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut answer = self.head()?;
        if answer.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk() {
                answer.is_whole = chunk.is_empty();
                answer.body.extend(&chunk);
                if answer.is_whole {
                    break;
                }
            }
            return Some(answer);
        }
        let len = answer.header("content-length");
        let mut body = vec![0; len.unwrap_or("0").parse().unwrap()];
        answer.is_whole = self.stream.read_exact(&mut body).is_ok();
        answer.body = body;
        Some(answer)
    }

    /// Whether the other side ends the connection without another word.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.stream.read(&mut [0]).map_or(true, |read| read == 0)
    }
}
