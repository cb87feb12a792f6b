//! Ten million rows streamed out: what memory the server takes for them over PostgreSQL's protocol, and how long they take as an Arrow
//! stream over HTTP and in a session of the library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::sum;
use arrow::datatypes::Int64Type;
use arrow::ipc::reader::StreamReader;
use futures::StreamExt;
use tierra_http::{Handle, Options, Server};
use tierra_sql::{Outcome, SessionOptions};
use tokio::task::JoinHandle;

use super::watching;
use crate::contender::Tierra;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab};
use crate::peers::postgres::ClientError;
use crate::progress;
use crate::row::Row;
use crate::served::Served;
use crate::turns::turns;

pub(super) const IN_PROCESS: &str = "batches, by the library";
pub(super) const ARROW_STREAM: &str = "Arrow stream, over HTTP";
const POSTGRES_ROWS: &str = "rows, over PostgreSQL's protocol";
const QUERY: &str = "SELECT n, x, name FROM streamed";
const CONNECTIONS_MOST: usize = 10;

/// Rows of all ways, and of scraping.
pub(super) fn measure(lab: &Lab) -> Result<Vec<Row>, LabError> {
    let count = lab.size(100_000, 10_000_000);
    let folder = lab.folder_in_memory()?;
    let place = folder.path().join("db");
    let mut rows = vec![over_postgres(&place, count)?];
    // Its server was killed: the database is this process's now.
    let tierra = Tierra::open(&place)?;
    let http = Http::start(lab, &tierra)?;
    rows.extend(both(lab, &tierra, &http, count)?);
    rows.push(watching::measure(lab, http.address)?);
    http.stop(lab)?;
    Ok(rows)
}

/// Fills the table, and streams it as rows.
fn over_postgres(place: &Path, count: u64) -> Result<Row, LabError> {
    let who = Served::ENGINE;
    let served = Served::start(place)?;
    let mut client = served.connect().by(who, "logging in")?;
    let fill = format!(
        "CREATE TABLE streamed AS SELECT s.v AS n, 0.5 * s.v AS x, 'row ' || CAST(s.v % 1000 AS VARCHAR) AS name \
         FROM generate_series(1, {count}) AS s(v)"
    );
    client.query(&fill).by(who, "filling a table")?;
    let mut time_ns = 0;
    let mut more_bytes = 0;
    // The time is that of the second: in the first pages of the table come in.
    for _ in 0..2 {
        served.forget_most_bytes()?;
        let [before, _] = served.resident_bytes()?;
        let start = Instant::now();
        let mut total = 0;
        let streamed = client.stream(QUERY, |row| {
            let n = row
                .first()
                .and_then(|cell| cell.as_ref()?.parse::<i64>().ok());
            total +=
                n.ok_or_else(|| ClientError::Unexpected("a row without a number".to_owned()))?;
            Ok(())
        });
        let streamed = streamed.by(who, "streaming rows")?;
        time_ns = start.elapsed().as_nanos() as u64;
        check(who, [streamed, total as u64], count)?;
        let [_, most] = served.resident_bytes()?;
        // The second time the server may use again what it has kept.
        more_bytes = u64::max(more_bytes, most.saturating_sub(before));
    }
    Ok(Row::new()
        .text("streamed as", POSTGRES_ROWS)
        .text("engine", who)
        .count("rows", count)
        .samples("time", "ns", vec![time_ns])
        .count("more_bytes", more_bytes))
}

/// The library and the Arrow stream, in turn.
fn both(lab: &Lab, tierra: &Tierra, http: &Http, count: u64) -> Result<Vec<Row>, LabError> {
    let ways = [IN_PROCESS, ARROW_STREAM];
    let rounds = lab.size(1, 5);
    let bar = progress::bar("streams", ways.len() * (rounds + 1));
    let mut samples = [const { Vec::new() }; 2];
    for turn in turns(ways.len(), rounds) {
        let way = ways[turn.contender];
        bar.set_message(way);
        let start = Instant::now();
        let found = match way {
            IN_PROCESS => lab.runtime().block_on(in_process(tierra))?,
            _ => http.stream()?,
        };
        let time_ns = start.elapsed().as_nanos() as u64;
        check(way, found, count)?;
        if !turn.is_warm_up() {
            samples[turn.contender].push(time_ns);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let rows = ways.into_iter().zip(samples).map(|(way, samples)| {
        Row::new()
            .text("streamed as", way)
            .text("engine", Tierra::ENGINE)
            .count("rows", count)
            .samples("time", "ns", samples)
    });
    Ok(rows.collect())
}

/// The number of rows and the sum of `n`.
async fn in_process(tierra: &Tierra) -> Result<[u64; 2], LabError> {
    let outcome = tierra.session().sql(QUERY).await;
    let Outcome::Rows(mut rows) = outcome.by(IN_PROCESS, "streaming")? else {
        return Err("no rows").by(IN_PROCESS, "streaming");
    };
    let mut found = [0; 2];
    while let Some(batch) = rows.next().await {
        add(&mut found, &batch.by(IN_PROCESS, "streaming")?);
    }
    Ok(found)
}

fn add(found: &mut [u64; 2], batch: &RecordBatch) {
    let numbers = batch.column(0).as_primitive::<Int64Type>();
    found[0] += batch.num_rows() as u64;
    found[1] += sum(numbers).unwrap_or(0) as u64;
}

fn check(who: &str, found: [u64; 2], count: u64) -> Result<(), LabError> {
    let expected = [count, count * (count + 1) / 2];
    if found == expected {
        return Ok(());
    }
    Err(LabError::WrongAnswer {
        who: who.to_owned(),
        what: format!("count and sum of the rows are {found:?}, not {expected:?}"),
    })
}

/// A server of HTTP in this process.
struct Http {
    address: SocketAddr,
    handle: Handle,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Http {
    fn start(lab: &Lab, tierra: &Tierra) -> Result<Http, LabError> {
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
    fn stream(&self) -> Result<[u64; 2], LabError> {
        let who = ARROW_STREAM;
        let request = format!(
            "POST /sql HTTP/1.0\r\nHost: {}\r\nContent-Type: application/sql\r\nAccept: application/vnd.apache.arrow.stream\r\n\
             Content-Length: {}\r\n\r\n{QUERY}",
            self.address,
            QUERY.len()
        );
        let body = exchange(self.address, &request).by(who, "asking")?;
        let mut found = [0; 2];
        for batch in StreamReader::try_new(body, None).by(who, "reading")? {
            add(&mut found, &batch.by(who, "reading")?);
        }
        Ok(found)
    }

    fn stop(self, lab: &Lab) -> Result<(), LabError> {
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
