//! Prepared lookups of one row by its key, as many connections make them at once. Tierra's server and PostgreSQL take turns, with the
//! same rows, the same keys and the same client.

use super::{SESSIONS, of_connections};
use crate::error::{Context, LabError};
use crate::lab::{Lab, SEED};
use crate::peers::postgres::{Client, ClientError, Postgres};
use crate::progress;
use crate::random::Random;
use crate::row::Row;
use crate::served::Served;
use crate::sessions::at_once;
use crate::steady;

const TABLE: &str = "CREATE TABLE item (id BIGINT PRIMARY KEY, a INTEGER, b INTEGER, c BIGINT, x DOUBLE PRECISION, \
     name VARCHAR, note VARCHAR, day DATE, flag BOOLEAN, price DECIMAL(10, 2))";
const LOOKUP: &str = "SELECT * FROM item WHERE id = $1";
const NAME: &str = "lookup";

fn fill(rows: u64) -> String {
    format!(
        "INSERT INTO item SELECT s.v, s.v % 1000, s.v % 7, 3 * s.v, 0.5 * s.v, 'item ' || CAST(s.v AS VARCHAR), \
         'a note that is not long', DATE '2024-02-29', s.v % 2 = 0, 0.25 * s.v FROM generate_series(1, {rows}) AS s(v)"
    )
}

/// A contender, and its sessions.
struct Side {
    who: &'static str,
    sessions: Vec<Client>,
}

impl Side {
    fn new(
        who: &'static str,
        rows: u64,
        connect: impl Fn() -> Result<Client, ClientError>,
    ) -> Result<Side, LabError> {
        let mut filling = connect().by(who, "logging in")?;
        let sql = format!("{TABLE}; {}", fill(rows));
        filling.query(&sql).by(who, "filling a table")?;
        if who == Postgres::ENGINE {
            let sql = "VACUUM ANALYZE item";
            filling.query(sql).by(who, sql)?;
        }
        let most = SESSIONS.into_iter().max().unwrap_or(1);
        let sessions = (0..most).map(|_| {
            let mut client = connect().by(who, "logging in")?;
            client.prepare(NAME, LOOKUP).by(who, "preparing a lookup")?;
            Ok(client)
        });
        let sessions = sessions.collect::<Result<_, LabError>>()?;
        Ok(Side { who, sessions })
    }
}

/// The rows of all contenders.
pub(super) fn measure(lab: &Lab) -> Result<Vec<Row>, LabError> {
    let rows = lab.size(1_000, 100_000);
    let each: [usize; SESSIONS.len()] = lab.size([20, 4], [10_000, 2_000]);
    let rounds = lab.size(1, 11);
    let folder = lab.folder_in_memory()?;
    let served = Served::start(&folder.path().join("db"))?;
    let postgres = Postgres::start(folder.path());
    let mut sides = vec![Side::new(Served::ENGINE, rows, || served.connect())?];
    if let Some(postgres) = &postgres {
        sides.push(Side::new(Postgres::ENGINE, rows, || postgres.connect())?);
    }
    let contenders = sides.len() as u64;
    let bar = progress::bar("samples", SESSIONS.len() * (rounds + 1) * sides.len());
    let mut measured = Vec::new();
    for (sessions, each) in SESSIONS.into_iter().zip(each) {
        let mut drawn = 0;
        let sampled = steady::in_turns(
            sides.len(),
            rounds,
            |contender| {
                // All sides of a round look up the same keys.
                let seed = SEED ^ ((drawn / contenders) << 32);
                drawn += 1;
                let Side { who, sessions: all } = &mut sides[contender];
                bar.set_message(*who);
                let time = at_once(&mut all[..sessions], |session, client| {
                    let mut random = Random::new(seed ^ session as u64);
                    (0..each).try_for_each(|_| look_up(who, client, 1 + random.below(rows)))
                })?;
                bar.inc(1);
                Ok(time.as_nanos() as u64)
            },
            |time_ns| *time_ns,
        )?;
        let of_sides = sides.iter().zip(sampled).map(|(side, sampled)| {
            let row = Row::new()
                .text("lookups by", of_connections(sessions))
                .text("engine", side.who)
                .count("lookups", (sessions * each) as u64);
            sampled.mark(row.samples("time", "ns", sampled.samples.clone()))
        });
        measured.extend(of_sides);
    }
    bar.finish_and_clear();
    Ok(measured)
}

/// Looks a row up and checks its first cells and its last.
fn look_up(who: &str, client: &mut Client, id: u64) -> Result<(), LabError> {
    let key = id.to_string();
    let found = client.execute(NAME, &[&key]).by(who, "looking up")?;
    let price = format!("{}.{:02}", id / 4, id % 4 * 25);
    let expected = [&key, &(id % 1000).to_string(), &price].map(|text| Some(text.clone()));
    match &found.rows[..] {
        [row] if row.len() == 10 && [&row[0], &row[1], &row[9]] == expected.each_ref() => Ok(()),
        rows => Err(LabError::WrongAnswer {
            who: who.to_owned(),
            what: format!("the row of key {id} is {rows:?}"),
        }),
    }
}
