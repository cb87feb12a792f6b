//! Writes `seeds/`: what fuzzing starts from, made of the golden files of the formats' crates and of
//! a small database with every kind of structure.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use tierra_column::{Encoding, LogicalType};
use tierra_engine::{
    Change, ColumnSpec, Database, DatabaseOptions, IndexKind, Replicas, RowId, Table, TableSpec,
};

use crate::{backup, database, image, queries};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const WIDE: LogicalType = LogicalType::Decimal {
    precision: 30,
    scale: 2,
};

/// Writes them all, over those before.
///
/// # Errors
/// Where a golden file cannot be read, or the database not be made.
pub fn write() -> Result<()> {
    chunks()?;
    dictionaries()?;
    postings()?;
    save("pool", "golden", &golden_pool()?)?;
    let pool = tables()?;
    save("database", "tables", &image::compress(&pool))?;
    save("database", "replicas", &image::compress(&replicas()?))?;
    save("manifest", "tables", &pool[image::root(&pool)])?;
    let log = &pool[database::log(&pool)];
    let used = log
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    save("tail_log", "rows", &[&[0], &log[..used]].concat())?;
    save("backup", "tables", &backup::of_base()?)
}

/// The project's root: this file is compiled into packages at different depths.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut above = package.ancestors();
    let root = above.find(|dir| dir.join("fuzz/seeds").is_dir());
    root.unwrap_or(package).to_owned()
}

fn golden(of: &str, name: &str) -> PathBuf {
    root()
        .join("crates")
        .join(of)
        .join("tests/golden")
        .join(name)
}

fn save(target: &str, name: &str, input: &[u8]) -> Result<()> {
    let dir = root().join("fuzz/seeds").join(target);
    fs::create_dir_all(&dir)?;
    fs::write(dir.join(name), input)?;
    println!("{target}/{name}: {} bytes", input.len());
    Ok(())
}

/// The byte that stands for a type.
fn tag(ty: LogicalType) -> u8 {
    let place = queries::TYPES.iter().position(|other| *other == ty);
    place.expect("a type of the list") as u8
}

fn chunks() -> Result<()> {
    for entry in fs::read_dir(golden("tierra-column", ""))? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let Some(name) = name.strip_suffix(".chunk") else {
            continue;
        };
        let chunk = fs::read(&path)?;
        // As its descriptor says.
        let ty = [chunk[5], chunk[6], chunk[7]];
        let ty = LogicalType::of_tag(ty).ok_or("a golden chunk of no type")?;
        save("chunk", name, &[&[tag(ty), 0], &chunk[..]].concat())?;
    }
    Ok(())
}

fn dictionaries() -> Result<()> {
    for (name, ty) in [
        ("numbers", LogicalType::Integer),
        ("strings", LogicalType::Varchar),
    ] {
        let image = |part| {
            fs::read(golden(
                "tierra-column",
                &format!("{name}-{part}.dictionary"),
            ))
        };
        let (main, delta) = (image("main")?, image("delta")?);
        let len = (main.len() as u16).to_le_bytes();
        save(
            "dictionary",
            name,
            &[&[tag(ty), 0, len[0], len[1]], &main[..], &delta[..]].concat(),
        )?;
    }
    Ok(())
}

fn postings() -> Result<()> {
    for name in ["lists", "rows", "sparse"] {
        let bytes = fs::read(golden("tierra-column", &format!("{name}.postings")))?;
        save("postings", name, &[&[0], &bytes[..]].concat())?;
    }
    Ok(())
}

/// The golden pool: lines of an offset in hex, then 64 bytes.
fn golden_pool() -> Result<Vec<u8>> {
    let mut pool = vec![0; 16_384 + 4 * 4096];
    for line in fs::read_to_string(golden("tierra-memory", "pool-v1.txt"))?.lines() {
        let (at, bytes) = line.split_once(':').ok_or("a line without an offset")?;
        let places = usize::from_str_radix(at, 16)?..;
        for (at, byte) in places.zip(bytes.split_whitespace()) {
            pool[at] = u8::from_str_radix(byte, 16)?;
        }
    }
    Ok(image::compress(&pool))
}

/// A pool with two tables: one of every type with a key, sealed rows and a tail, and one whose
/// strings have a dictionary and an index. Some rows of both are deleted.
fn tables() -> Result<Vec<u8>> {
    let dir = database::scratch_dir().join("seed");
    let options = DatabaseOptions {
        near_memory_bytes: Some(0),
        capacity_bytes: Some(384 << 10),
        ..DatabaseOptions::default()
    };
    let database = Database::create(&dir, &options)?;
    let words = database.create_table(TableSpec {
        name: "words".to_owned(),
        columns: vec![ColumnSpec {
            encoding: Some(Encoding::Dictionary),
            index: Some(IndexKind::Inverted),
            ..ColumnSpec::new("word", LogicalType::Varchar)
        }],
        primary_key: vec![],
    })?;
    for word in ["north", "a south that is not inlined"] {
        let column: ArrayRef = Arc::new(StringViewArray::from(vec![Some(word), None]));
        words.append(&[RecordBatch::try_new(words.schema(), vec![column])?])?;
        words.seal()?;
    }
    let every = database.create_table(TableSpec {
        name: "every".to_owned(),
        columns: [LogicalType::BigInt]
            .into_iter()
            .chain(TYPES)
            .enumerate()
            .map(|(at, ty)| {
                let column = ColumnSpec::new(format!("c{at}"), ty);
                if at == 0 { column.not_null() } else { column }
            })
            .collect(),
        primary_key: vec![0],
    })?;
    let rows = |from, to| RecordBatch::try_new(every.schema(), every_type(from, to));
    every.append(&[rows(0, 20)?])?;
    every.seal()?;
    // Rows go: first by a bitmap, then by the log, and by one commit of two tables.
    let change = |table: &Arc<Table>, keys: &[u64], appended| Change {
        snapshot: table.snapshot(),
        deleted: keys.iter().map(|key| RowId::from_number(*key)).collect(),
        appended,
    };
    database.commit(vec![change(&every, &[2, 3], vec![])])?;
    every.append(&[rows(20, 21)?])?;
    every.seal()?;
    every.append(&[rows(21, 23)?])?;
    database.commit(vec![change(&every, &[5], vec![rows(5, 6)?])])?;
    let words_change = change(&words, &[1], vec![]);
    database.commit(vec![
        words_change,
        change(&every, &[7], vec![rows(23, 26)?]),
    ])?;
    database.wait_for_near_copies()?;
    drop((words, every, database));
    Ok(fs::read(dir.join("far.pool"))?)
}

/// A pool with a table whose columns have replicas in several encodings: two segments, rows of one of which are deleted, and a tail.
fn replicas() -> Result<Vec<u8>> {
    let dir = database::scratch_dir().join("replicas");
    let options = DatabaseOptions {
        capacity_bytes: Some(384 << 10),
        ..database::options()
    };
    let database = Database::create(&dir, &options)?;
    let placed: [(&str, &[&str]); 3] = [
        ("id", &["far/static", "far/delta"]),
        ("n", &["far/dynamic", "far/rle", "far/plain"]),
        ("word", &["far/dictionary", "far/fsst"]),
    ];
    let column = |(name, tiers): (&str, &[&str])| {
        let tiers = tiers.iter().map(|tier| (*tier).to_owned()).collect();
        (name.to_owned(), tiers)
    };
    let spec = TableSpec {
        name: "replicas".to_owned(),
        columns: vec![
            ColumnSpec::new("id", LogicalType::BigInt).not_null(),
            ColumnSpec::new("n", LogicalType::Integer),
            ColumnSpec {
                index: Some(IndexKind::Inverted),
                ..ColumnSpec::new("word", LogicalType::Varchar)
            },
        ],
        primary_key: vec![0],
    };
    let replicas = Replicas {
        table: vec!["far".to_owned()],
        columns: placed.map(column).into(),
    };
    let table = database.create_table_in(spec, replicas)?;
    let rows = |from: i64, to: i64| {
        let every = every_type(from, to);
        // The key, an INTEGER and a VARCHAR.
        let columns = [0, 2, 8].map(|at: usize| every[at].clone());
        RecordBatch::try_new(table.schema(), columns.to_vec())
    };
    for from in [0, 30] {
        table.append(&[rows(from, from + 30)?])?;
        table.seal()?;
    }
    let deleted = [3, 7].map(RowId::from_number);
    database.commit(vec![Change {
        snapshot: table.snapshot(),
        deleted: deleted.into_iter().collect(),
        appended: vec![rows(60, 62)?],
    }])?;
    database.wait_for_near_copies()?;
    drop((table, database));
    Ok(fs::read(dir.join("far.pool"))?)
}

const TYPES: [LogicalType; 8] = [
    LogicalType::Boolean,
    LogicalType::Integer,
    LogicalType::Decimal {
        precision: 9,
        scale: 2,
    },
    WIDE,
    LogicalType::Double,
    LogicalType::Date,
    LogicalType::Timestamp,
    LogicalType::Varchar,
];

/// A key, then [`TYPES`]; every fifth value is NULL.
fn every_type(from: i64, to: i64) -> Vec<ArrayRef> {
    let values = || (from..to).map(|n| (n % 5 != 4).then_some(n));
    let decimal = |precision, scale| {
        values()
            .map(|n| n.map(i128::from))
            .collect::<Decimal128Array>()
            .with_precision_and_scale(precision, scale)
            .expect("valid precision and scale")
    };
    let text = |n: i64| format!("row {n}, longer than a view");
    vec![
        Arc::new(Int64Array::from_iter_values(from..to)),
        Arc::new(
            values()
                .map(|n| n.map(|n| n % 2 == 0))
                .collect::<BooleanArray>(),
        ),
        Arc::new(
            values()
                .map(|n| n.map(|n| n as i32))
                .collect::<Int32Array>(),
        ),
        Arc::new(decimal(9, 2)),
        Arc::new(decimal(30, 2)),
        Arc::new(
            values()
                .map(|n| n.map(|n| n as f64))
                .collect::<Float64Array>(),
        ),
        Arc::new(
            values()
                .map(|n| n.map(|n| n as i32))
                .collect::<Date32Array>(),
        ),
        Arc::new(values().collect::<TimestampMicrosecondArray>()),
        Arc::new(values().map(|n| n.map(text)).collect::<StringViewArray>()),
    ]
}
