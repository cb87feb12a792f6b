//! `tierra demo`: shows what Tierra does, in under a minute, with every answer checked.
//!
//! It generates the Star Schema Benchmark and two tables for latency-bound queries, and loads them into a database whose near
//! memory is too small for all of them. It runs every query; queries with lookups run plain and interleaved. It compares
//! each answer with one computed without the database: SSB's by plain loops over the generated rows, the others by the
//! generators' inverse.

mod data;
mod directory;
mod queries;
mod rows;

use std::{path::PathBuf, thread, time::Instant};

use clap::Args;
use tierra::engine::TierInfo;
use tierra_data::{Scale, ssb};

use super::{
    CommandError,
    interrupt::Interrupt,
    open::OpenOptions,
    text_table::{Side, TextTable},
    units::{Bytes, Count, Time},
};
use crate::cli::output::tell;
use data::DemoData;
use queries::Measured;

/// The arguments of `tierra demo`.
#[derive(Args)]
pub(crate) struct DemoArguments {
    /// Scale factor of the Star Schema Benchmark: 1 is 6,000,000 rows of lineorder
    #[arg(long, value_name = "N", default_value = "0.1")]
    scale: Scale,
    /// Directory for the database; a database of an earlier demo is replaced
    #[arg(long, value_name = "DIR", default_value = "demo-db")]
    dir: PathBuf,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) async fn run(arguments: &DemoArguments) -> Result<(), CommandError> {
    let start = Instant::now();
    let interrupt = Interrupt::watch()?;
    let data = DemoData::of(arguments.scale);
    let open = arguments.open.clone().or_near_memory(data.near_bytes());
    directory::clear(&arguments.dir, &open)?;
    let database = open.open_or_create(&arguments.dir)?;
    directory::mark(&arguments.dir)?;

    tell!(
        "Star Schema Benchmark at scale {}, and two tables for latency-bound queries,\n\
         into {} with {} of near memory for copies of columns:\n",
        arguments.scale,
        arguments.dir.display(),
        Bytes(open.near_memory().unwrap_or(0)),
    );
    // The answers are computed from the generator's rows while the database loads its own.
    let scale = arguments.scale;
    let answers = thread::spawn(move || ssb::answers(scale));
    data.load(&database, &interrupt)?;
    // So the bytes of each tier are the same in every run.
    database
        .engine()
        .wait_for_near_copies()
        .map_err(tierra::Error::from)?;
    let tiers = database.engine().tiers();
    tell!("\n{}", tier_table(&tiers));
    let always_near = tiers.iter().filter_map(|tier| tier.always_near_bytes);
    tell!(
        "always near, beside copies: {} of dictionaries, chunk headers, key indexes and tails\n",
        Bytes(always_near.sum())
    );

    let answers = answers
        .join()
        .expect("plain loops over valid rows do not panic");
    let measured = queries::run(&database, &data, &answers, &interrupt).await?;
    let (lookups, scans): (Vec<_>, Vec<_>) =
        measured.iter().partition(|query| query.plain.is_some());
    tell!("{}", scan_table(&scans));
    tell!("{}", lookup_table(&lookups));
    let wrong = measured
        .iter()
        .filter(|query| query.fault.is_some())
        .count();
    if wrong > 0 {
        return Err(CommandError::WrongAnswers(wrong));
    }
    tell!(
        "All {} answers are right. {} in all.\n\
         Open the same database:  cargo run --release -- sql --db {}",
        measured.len(),
        Time(start.elapsed()),
        arguments.dir.display(),
    );
    Ok(())
}

/// The tiers in which the columns are now.
fn tier_table(tiers: &[TierInfo]) -> TextTable {
    let mut table = TextTable::new([
        ("tier", Side::Left),
        ("medium", Side::Left),
        ("columns", Side::Right),
        ("of", Side::Right),
        ("pages", Side::Right),
    ]);
    for tier in tiers {
        table.push(vec![
            tier.speed.to_string(),
            tier.medium
                .map_or_else(|| "DRAM".to_owned(), |medium| medium.to_string()),
            Bytes(tier.used_bytes).to_string(),
            Bytes(tier.capacity_bytes).to_string(),
            tier.page_size_bytes.map_or_else(
                || "mixed".to_owned(),
                |bytes| Bytes(bytes as u64).to_string(),
            ),
        ]);
    }
    table
}

fn scan_table(measured: &[&Measured]) -> TextTable {
    let mut table = TextTable::new([
        ("query that scans", Side::Left),
        ("rows", Side::Right),
        ("time", Side::Right),
        ("near read", Side::Right),
        ("far read", Side::Right),
        ("answer", Side::Left),
    ]);
    for query in measured {
        table.push(vec![
            query.name.clone(),
            Count(query.rows).to_string(),
            Time(query.time).to_string(),
            Bytes(query.bytes_near).to_string(),
            Bytes(query.bytes_far).to_string(),
            query.answer(),
        ]);
    }
    table
}

fn lookup_table(measured: &[&Measured]) -> TextTable {
    let mut table = TextTable::new([
        ("query that looks up", Side::Left),
        ("rows", Side::Right),
        ("plain", Side::Right),
        ("interleaved", Side::Right),
        ("gain", Side::Right),
        ("near read", Side::Right),
        ("far read", Side::Right),
        ("answer", Side::Left),
    ]);
    for query in measured {
        let plain = query.plain.unwrap_or_default();
        let gain = plain.as_secs_f64() / query.time.as_secs_f64().max(1e-9);
        table.push(vec![
            query.name.clone(),
            Count(query.rows).to_string(),
            Time(plain).to_string(),
            Time(query.time).to_string(),
            format!("{gain:.2}x"),
            Bytes(query.bytes_near).to_string(),
            Bytes(query.bytes_far).to_string(),
            query.answer(),
        ]);
    }
    table
}

impl Measured {
    fn answer(&self) -> String {
        match &self.fault {
            None => "right".to_owned(),
            Some(fault) => format!("WRONG: {fault}"),
        }
    }
}
