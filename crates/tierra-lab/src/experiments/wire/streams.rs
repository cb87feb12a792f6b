//! Ten million rows streamed out: what memory the server takes for them over PostgreSQL's protocol, and how long they take as an Arrow
//! stream over HTTP and in a session of the library. Whoever takes the rows reads every value.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::compute::sum;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use arrow::ipc::reader::StreamReader;
use futures::StreamExt;
use tierra_http::{Handle, Options, Server};
use tierra_sql::{Outcome, SessionOptions};
use tokio::task::JoinHandle;

use super::{stops, watching};
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab};
use crate::peers::postgres::ClientError;
use crate::progress;
use crate::row::Row;
use crate::served::Served;
use crate::steady;

pub(super) const IN_PROCESS: &str = "batches, by the library";
pub(super) const ARROW_STREAM: &str = "Arrow stream, over HTTP";
const POSTGRES_ROWS: &str = "rows, over PostgreSQL's protocol";
const QUERY: &str = "SELECT n, x, name FROM streamed";
/// The query's name where it is prepared.
const PREPARED: &str = "streamed";
/// Reads every column of the table, so that its pages are there before.
const SCAN: &str = "SELECT sum(n), sum(x), max(name) FROM streamed";
/// Longer than the server keeps memory that it has freed.
const IDLE: Duration = Duration::from_secs(3);
/// As many rows have names of their own.
const NAMES: u64 = 1_000;
const CONNECTIONS_MOST: usize = 10;

/// Rows of all ways, of statements that are stopped, and of scraping.
pub(super) fn measure(lab: &Lab) -> Result<Vec<Row>, LabError> {
    let count = lab.size(100_000, 10_000_000);
    let folder = lab.folder_in_memory()?;
    let place = folder.path().join("db");
    let served = filled(&place, count)?;
    let mut rows = vec![over_postgres(lab, &served, count)?];
    rows.extend(stops::measure(lab, &served)?);
    drop(served);
    // Its server was killed: the database is this process's now.
    let tierra = Tierra::open(&place)?;
    let http = Http::start(lab, &tierra)?;
    rows.extend(both(lab, &tierra, &http, count)?);
    rows.push(watching::measure(lab, http.address)?);
    http.stop(lab)?;
    rows.extend(watching::beside_scans(lab, &tierra)?);
    Ok(rows)
}

/// A server that has the table, and has only served since: what filling the table took is not the server's anymore.
fn filled(place: &Path, count: u64) -> Result<Served, LabError> {
    let who = Served::ENGINE;
    let served = Served::start(place)?;
    let mut client = served.connect().by(who, "logging in")?;
    let fill = format!(
        "CREATE TABLE streamed AS SELECT s.v AS n, 0.5 * s.v AS x, 'row ' || CAST(s.v % {NAMES} AS VARCHAR) AS name \
         FROM generate_series(1, {count}) AS s(v)"
    );
    client.query(&fill).by(who, "filling a table")?;
    served.kill_and_start()
}

/// Streams the table as rows of a prepared query.
fn over_postgres(lab: &Lab, served: &Served, count: u64) -> Result<Row, LabError> {
    let who = Served::ENGINE;
    let mut client = served.connect().by(who, "logging in")?;
    client
        .prepare(PREPARED, QUERY)
        .by(who, "preparing a query")?;
    client.query(SCAN).by(who, "scanning the table")?;
    let rounds = lab.size(1, 3);
    let mut times = Vec::with_capacity(rounds);
    let mut more_bytes = 0;
    for _ in 0..rounds {
        std::thread::sleep(lab.size(Duration::ZERO, IDLE));
        served.forget_most_bytes()?;
        let [before, _] = served.resident_bytes()?;
        let start = Instant::now();
        let mut total = 0;
        let streamed = client.stream(PREPARED, |row| {
            let n = row
                .first()
                .and_then(|cell| cell.as_ref()?.parse::<i64>().ok());
            total +=
                n.ok_or_else(|| ClientError::Unexpected("a row without a number".to_owned()))?;
            Ok(())
        });
        let streamed = streamed.by(who, "streaming rows")?;
        times.push(start.elapsed().as_nanos() as u64);
        same(
            who,
            &[streamed, total as u64],
            &[count, count * (count + 1) / 2],
        )?;
        let [_, most] = served.resident_bytes()?;
        more_bytes = u64::max(more_bytes, most.saturating_sub(before));
    }
    Ok(Row::new()
        .text("streamed as", POSTGRES_ROWS)
        .text("engine", who)
        .count("rows", count)
        .samples("time", "ns", times)
        .count("more_bytes", more_bytes))
}

/// The library and the Arrow stream, in turn.
fn both(lab: &Lab, tierra: &Tierra, http: &Http, count: u64) -> Result<Vec<Row>, LabError> {
    let ways = [IN_PROCESS, ARROW_STREAM];
    let rounds = lab.size(1, 9);
    let expected = Sums::of(count);
    let bar = progress::bar("streams", ways.len() * (rounds + 1));
    let sampled = steady::in_turns(
        ways.len(),
        rounds,
        |contender| {
            let way = ways[contender];
            bar.set_message(way);
            let start = Instant::now();
            let read = match way {
                IN_PROCESS => lab.runtime().block_on(in_process(tierra))?,
                _ => http.stream()?,
            };
            let time_ns = start.elapsed().as_nanos() as u64;
            same(way, &read.0, &expected.0)?;
            bar.inc(1);
            Ok(time_ns)
        },
        |time_ns| *time_ns,
    )?;
    bar.finish_and_clear();
    let rows = ways.into_iter().zip(sampled).map(|(way, sampled)| {
        let row = Row::new()
            .text("streamed as", way)
            .text("engine", Tierra::ENGINE)
            .count("rows", count);
        sampled.mark(row.samples("time", "ns", sampled.samples.clone()))
    });
    Ok(rows.collect())
}

/// Reads all rows.
async fn in_process(tierra: &Tierra) -> Result<Sums, LabError> {
    let outcome = tierra.session().sql(QUERY).await;
    let Outcome::Rows(mut rows) = outcome.by(IN_PROCESS, "streaming")? else {
        return Err("no rows").by(IN_PROCESS, "streaming");
    };
    let mut read = Sums::default();
    while let Some(batch) = rows.next().await {
        let batch = batch.by(IN_PROCESS, "streaming")?;
        read.add(&batch).by(IN_PROCESS, "reading rows")?;
    }
    Ok(read)
}

/// What has been read: the number of rows, the sum of `n`, twice that of `x`, and that of the bytes of `name`.
#[derive(Default)]
struct Sums([u64; 4]);

impl Sums {
    /// Of a table of so many rows.
    fn of(count: u64) -> Sums {
        let bytes = |number: u64| text_bytes(std::iter::once(Some(&*format!("row {number}"))));
        let names: Vec<u64> = (0..NAMES).map(bytes).collect();
        let of_names = (1..=count).map(|number| names[(number % NAMES) as usize]);
        let numbers = count * (count + 1) / 2;
        Sums([count, numbers, numbers, of_names.sum()])
    }

    fn add(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let [n, x, name] = batch.columns() else {
            return Err(format!("{} columns", batch.num_columns()));
        };
        let Sums([rows, numbers, doubled, bytes]) = self;
        *rows += batch.num_rows() as u64;
        *numbers += sum(n.as_primitive::<Int64Type>()).unwrap_or(0) as u64;
        // Halves are exact.
        *doubled += (2.0 * sum(x.as_primitive::<Float64Type>()).unwrap_or(0.0)) as u64;
        *bytes += bytes_of(name)?;
        Ok(())
    }
}

/// The sum of all bytes of texts.
fn bytes_of(texts: &ArrayRef) -> Result<u64, String> {
    match texts.data_type() {
        DataType::Utf8View => Ok(text_bytes(texts.as_string_view().iter())),
        DataType::Utf8 => Ok(text_bytes(texts.as_string::<i32>().iter())),
        other => Err(format!("texts as {other}")),
    }
}

fn text_bytes<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> u64 {
    texts.flatten().flat_map(str::bytes).map(u64::from).sum()
}

fn same(who: &str, found: &[u64], expected: &[u64]) -> Result<(), LabError> {
    if found == expected {
        return Ok(());
    }
    Err(LabError::WrongAnswer {
        who: who.to_owned(),
        what: format!("count and sums of the rows are {found:?}, not {expected:?}"),
    })
}

/// A server of HTTP in this process.
pub(super) struct Http {
    pub(super) address: SocketAddr,
    handle: Handle,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Http {
    pub(super) fn start(lab: &Lab, tierra: &Tierra) -> Result<Http, LabError> {
        let who = ARROW_STREAM;
        let options = Options {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            names: Vec::new(),
            users: None,
            tls: None,
            connections_most: CONNECTIONS_MOST,
        };
        let server = Server::bind(options).by(who, "listening")?;
        let address = server.address().by(who, "listening")?;
        let handle = server.handle();
        let session = SessionOptions {
            threads: Some(lab::threads()),
            ..SessionOptions::default()
        };
        let database = Arc::clone(tierra.database());
        let serving = server.serve_database(database, session);
        let serving = lab.runtime().spawn(serving);
        Ok(Http {
            address,
            handle,
            serving,
        })
    }

    /// The rows as a client reads them. Of version 1.0, so that the body ends with the connection.
    fn stream(&self) -> Result<Sums, LabError> {
        let who = ARROW_STREAM;
        let request = format!(
            "POST /sql HTTP/1.0\r\nHost: {}\r\nContent-Type: application/sql\r\nAccept: application/vnd.apache.arrow.stream\r\n\
             Content-Length: {}\r\n\r\n{QUERY}",
            self.address,
            QUERY.len()
        );
        let body = exchange(self.address, &request).by(who, "asking")?;
        let mut read = Sums::default();
        for batch in StreamReader::try_new(body, None).by(who, "reading")? {
            read.add(&batch.by(who, "reading")?).by(who, "reading")?;
        }
        Ok(read)
    }

    pub(super) fn stop(self, lab: &Lab) -> Result<(), LabError> {
        self.handle.stop();
        let ended = lab.runtime().block_on(self.serving);
        ended
            .map_err(std::io::Error::other)
            .flatten()
            .by(ARROW_STREAM, "ending")
    }
}

/// The body of what answers a request, whose head must say that all is well.
pub(super) fn exchange(address: SocketAddr, request: &str) -> std::io::Result<impl Read> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    let (mut line, mut head) = (String::new(), String::new());
    while stream.read_line(&mut line)? > 0 && line != "\r\n" {
        head.push_str(&line);
        line.clear();
    }
    match head.split_whitespace().nth(1) {
        Some("200") => Ok(stream),
        _ => Err(std::io::Error::other(head)),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn every_value_is_read_whatever_texts_are_made_of() {
        let count = 2 * NAMES + 7;
        let names = || (1..=count).map(|n| Some(format!("row {}", n % NAMES)));
        let texts: [ArrayRef; 2] = [
            Arc::new(names().collect::<StringViewArray>()),
            Arc::new(names().collect::<StringArray>()),
        ];
        for name in texts {
            let n: ArrayRef = Arc::new(Int64Array::from_iter_values(1..=count as i64));
            let x = (1..=count).map(|n| 0.5 * n as f64);
            let x: ArrayRef = Arc::new(Float64Array::from_iter_values(x));
            let batch = RecordBatch::try_from_iter([("n", n), ("x", x), ("name", name)]);
            let mut read = Sums::default();
            read.add(&batch.unwrap()).unwrap();
            assert_eq!(read.0, Sums::of(count).0);
        }
    }
}
