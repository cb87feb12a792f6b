//! Rows of a CSV file taken in: by COPY FROM STDIN over the wire, and by loading the file in the process of the database.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, SchemaRef};
use tierra_data::{Part, Scale, Source, ssb};
use tierra_sql::load::{LoadOptions, load_file};

use crate::contender::Tierra;
use crate::error::{At, Context, LabError};
use crate::lab::Lab;
use crate::progress;
use crate::row::Row;
use crate::served::Served;
use crate::steady;

pub(super) const COPIED: &str = "COPY FROM STDIN";
pub(super) const LOADED: &str = "loading the file";
/// Rows generated at a time.
const BATCH_ROWS: usize = 65_536;
const CHECK: &str =
    "SELECT count(*), sum(lo_revenue), sum(lo_supplycost), max(lo_orderdate) FROM lineorder";

/// Rows of both ways, in turn.
pub(super) fn measure(lab: &Lab) -> Result<Vec<Row>, LabError> {
    let scale = Scale::new(lab.size(0.01, 1.0)).by("the generator", "choosing a scale")?;
    let folder = lab.passing_folder()?;
    let file = folder.path().join("lineorder.csv");
    let (schema, count) = write(&file, scale)?;
    let table = definition(&schema)?;
    let served = Served::start(&folder.path().join("served"))?;
    let tierra = Tierra::create(&folder.path().join("loaded"), None)?;
    let ways = [LOADED, COPIED];
    let rounds = lab.size(1, 5);
    let bar = progress::bar("loads", ways.len() * (rounds + 1));
    let mut checked = [const { Vec::new() }; 2];
    let sampled = steady::in_turns(
        ways.len(),
        rounds,
        |contender| {
            bar.set_message(ways[contender]);
            let (time_ns, found) = match ways[contender] {
                LOADED => load(lab, &tierra, &table, &file)?,
                _ => copy(&served, &table, &file)?,
            };
            checked[contender] = found;
            bar.inc(1);
            Ok(time_ns)
        },
        |time_ns| *time_ns,
    )?;
    bar.finish_and_clear();
    let [loaded, copied] = checked;
    if loaded != copied || loaded.first() != Some(&count.to_string()) {
        return Err(LabError::AnswersDiffer {
            what: CHECK.to_owned(),
            left: LOADED.to_owned(),
            right: COPIED.to_owned(),
            detail: format!("{loaded:?} against {copied:?}, of {count} rows"),
        });
    }
    let rows = ways.into_iter().zip(sampled).map(|(way, sampled)| {
        let row = Row::new()
            .text("rows in by", way)
            .text("engine", Tierra::ENGINE)
            .count("rows", count);
        sampled.mark(row.samples("time", "ns", sampled.samples.clone()))
    });
    Ok(rows.collect())
}

/// Writes the file; returns what it has.
fn write(path: &Path, scale: Scale) -> Result<(SchemaRef, u64), LabError> {
    let doing = || format!("writing {}", path.display());
    let table = ssb::Table::Lineorder;
    let mut writer = WriterBuilder::new()
        .with_header(true)
        .build(File::create(path).at(path)?);
    let mut count = 0;
    for batch in table.generate(scale, Part::WHOLE, BATCH_ROWS) {
        count += batch.num_rows() as u64;
        writer.write(&batch).by("the CSV writer", doing())?;
    }
    Ok((table.schema(), count))
}

/// CREATE TABLE.
fn definition(schema: &SchemaRef) -> Result<String, LabError> {
    let columns = schema.fields().iter().map(|field| {
        let ty = match field.data_type() {
            DataType::Int32 => "INTEGER",
            DataType::Utf8 | DataType::Utf8View => "VARCHAR",
            other => return Err(other.to_string()).by("lineorder", "naming a type in SQL"),
        };
        Ok(format!("{} {ty}", field.name()))
    });
    let columns: Vec<String> = columns.collect::<Result<_, LabError>>()?;
    Ok(format!(
        "DROP TABLE IF EXISTS lineorder; CREATE TABLE lineorder ({})",
        columns.join(", ")
    ))
}

fn load(
    lab: &Lab,
    tierra: &Tierra,
    table: &str,
    file: &Path,
) -> Result<(u64, Vec<String>), LabError> {
    let made = lab.runtime().block_on(tierra.session().execute(table));
    made.by(LOADED, "creating a table")?;
    let start = Instant::now();
    let options = LoadOptions::default();
    let loaded = load_file(tierra.database(), "lineorder", file, &options);
    loaded.by(LOADED, "loading")?;
    let time_ns = start.elapsed().as_nanos() as u64;
    let batches = lab.runtime().block_on(tierra.query(CHECK))?;
    let cells = batches.iter().flat_map(|batch| batch.columns());
    let cells = cells.map(|cell| {
        let text = arrow::util::display::array_value_to_string(cell, 0);
        text.by(LOADED, "reading rows")
    });
    Ok((time_ns, cells.collect::<Result<_, _>>()?))
}

fn copy(served: &Served, table: &str, file: &Path) -> Result<(u64, Vec<String>), LabError> {
    let mut client = served.connect().by(COPIED, "logging in")?;
    client.query(table).by(COPIED, "creating a table")?;
    let rows = File::open(file).at(file)?;
    let start = Instant::now();
    let sql = "COPY lineorder FROM STDIN (FORMAT csv, HEADER true)";
    client.copy_from(sql, rows).by(COPIED, "copying")?;
    let time_ns = start.elapsed().as_nanos() as u64;
    let found = client.query(CHECK).by(COPIED, "reading rows")?;
    let cells = found.rows.into_iter().flatten();
    Ok((time_ns, cells.map(Option::unwrap_or_default).collect()))
}
