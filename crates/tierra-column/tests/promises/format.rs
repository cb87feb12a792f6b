//! Promise: chunks and dictionaries written by this version of the format can be read for as long
//! as the version number stays. The golden files under `tests/golden/` pin both directions.
//!
//! After a deliberate change of the format: raise the version, then write the files anew with
//! `TIERRA_WRITE_GOLDEN=1 cargo test --release -p tierra-column --test promises format`.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::{self, read};
use arrow::array::{Array, ArrayRef, Decimal128Array, Int32Array, StringViewArray};
use tierra_column::bits::Mask;
use tierra_column::{
    Chunk, ChunkPlan, Dictionary, DictionaryBuilder, Encoding, LogicalType, ValueChecksums,
};

const WIDE: LogicalType = LogicalType::Decimal {
    precision: 30,
    scale: 2,
};

/// 150 rows: three mini-blocks, the last one short; every tenth row is NULL if `nulls`.
fn numbers(nulls: bool) -> ArrayRef {
    let value = |row: i32| if row == 70 { 1_000_000 } else { row / 3 - 20 };
    Arc::new(
        (0..150)
            .map(|row| (!nulls || row % 10 != 3).then(|| value(row)))
            .collect::<Int32Array>(),
    )
}

/// Runs of rows, every fourth of them NULL if asked for.
fn runs(nulls: bool) -> ArrayRef {
    let value = |row: i32| (!nulls || row / 30 % 4 != 1).then(|| row / 30 % 7 * 1000);
    Arc::new((0..300).map(value).collect::<Int32Array>())
}

/// Small values, and a large one now and then.
fn outliers() -> ArrayRef {
    let value = |row: i32| if row % 50 == 9 { row << 20 } else { row % 8 };
    Arc::new((0..300).map(value).collect::<Int32Array>())
}

/// As many rows as a sketch takes, every tenth NULL.
fn many() -> ArrayRef {
    let value = |row: i32| (row % 10 != 3).then(|| row * row % 777);
    Arc::new((0..1500).map(value).collect::<Int32Array>())
}

fn names() -> ArrayRef {
    let name = |row: i32| (row % 10 != 3).then(|| format!("name {}", row % 300));
    Arc::new((0..1024).map(name).collect::<StringViewArray>())
}

fn strings() -> ArrayRef {
    let words = ["", "ship", "deliver in person", "東京", "a\0b"];
    Arc::new(
        (0..150)
            .map(|row| (row % 10 != 3).then(|| words[row % 5]))
            .collect::<StringViewArray>(),
    )
}

fn decimals() -> ArrayRef {
    let values = (0..20).map(|row| (row != 3).then(|| (row - 10) * 10_i128.pow(27)));
    Arc::new(
        values
            .collect::<Decimal128Array>()
            .with_precision_and_scale(30, 2)
            .unwrap(),
    )
}

fn golden(name: &str, written: &[u8]) -> Vec<u8> {
    let path = Path::new("tests/golden").join(name);
    if std::env::var_os("TIERRA_WRITE_GOLDEN").is_some() {
        fs::write(&path, written).unwrap();
    }
    let stored = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(stored == written, "{name} is no longer written as it was");
    stored
}

#[test]
fn chunks_are_written_and_read_as_ever() {
    let integer = LogicalType::Integer;
    let cases = [
        ("plain", integer, numbers(false), Encoding::Plain),
        ("plain-nulls", integer, numbers(true), Encoding::Plain),
        ("static-nulls", integer, numbers(true), Encoding::Static),
        ("dynamic-nulls", integer, numbers(true), Encoding::Dynamic),
        ("for", integer, numbers(false), Encoding::FrameOfReference),
        (
            "for-nulls",
            integer,
            numbers(true),
            Encoding::FrameOfReference,
        ),
        ("delta", integer, numbers(false), Encoding::Delta),
        (
            "dynamic128-nulls",
            integer,
            numbers(true),
            Encoding::Dynamic128,
        ),
        ("fastpfor", integer, outliers(), Encoding::FastPfor),
        ("fastpfor-nulls", integer, numbers(true), Encoding::FastPfor),
        ("rle", integer, runs(false), Encoding::Rle),
        ("rle-nulls", integer, runs(true), Encoding::Rle),
        ("lz4-nulls", integer, runs(true), Encoding::Lz4),
        ("lz4-fast", integer, runs(false), Encoding::Lz4Fast),
        ("lz4-hc", integer, runs(false), Encoding::Lz4High),
        ("snappy", integer, runs(false), Encoding::Snappy),
        ("delta-nulls", integer, numbers(true), Encoding::Delta),
        (
            "dictionary-nulls",
            LogicalType::Varchar,
            strings(),
            Encoding::Dictionary,
        ),
        (
            "strings-nulls",
            LogicalType::Varchar,
            strings(),
            Encoding::Plain,
        ),
        (
            "front-nulls",
            LogicalType::Varchar,
            strings(),
            Encoding::Front,
        ),
        ("front", LogicalType::Varchar, names(), Encoding::Front),
        (
            "fsst-nulls",
            LogicalType::Varchar,
            strings(),
            Encoding::Fsst,
        ),
        ("fsst", LogicalType::Varchar, names(), Encoding::Fsst),
        (
            "prefix-nulls",
            LogicalType::Varchar,
            strings(),
            Encoding::Prefix,
        ),
        ("prefix", LogicalType::Varchar, names(), Encoding::Prefix),
        ("wide-nulls", WIDE, decimals(), Encoding::Plain),
        ("static-sketch", integer, many(), Encoding::Static),
        (
            "strings-sketch",
            LogicalType::Varchar,
            names(),
            Encoding::Plain,
        ),
    ];
    for (name, ty, column, encoding) in cases {
        let encoded = support::encode(ty, &column, Some(encoding));
        assert_eq!(encoded.encoding, encoding);
        let stored = golden(&format!("{name}.chunk"), &encoded.bytes);
        let chunk = Chunk::open(&stored, ty).unwrap();
        for block in 0..chunk.blocks() {
            chunk.verify_block(block).unwrap();
        }
        let found = read(&chunk, encoded.dictionary.as_ref(), |_| Mask::all());
        assert_eq!(&found, &column, "{name}");
    }
}

#[test]
fn logical_checksums_are_written_and_read_as_ever() {
    let column = many();
    let checksums =
        ValueChecksums::new(LogicalType::Integer, std::slice::from_ref(&column)).unwrap();
    let plan = ChunkPlan::new(
        LogicalType::Integer,
        &[column],
        Some(Encoding::Static),
        None,
    );
    let plan = plan.unwrap().with_checksums(&checksums);
    let mut bytes = vec![0; plan.len_bytes()];
    plan.write(&mut bytes);
    let stored = golden("static-checksums.chunk", &bytes);
    let chunk = Chunk::open(&stored, LogicalType::Integer).unwrap();
    assert_eq!(chunk.value_checksums(), Some(checksums));
}

#[test]
fn what_nothing_uses_yet_is_refused_by_name() {
    let written = support::encode(LogicalType::Integer, &numbers(false), None).bytes;
    for (at, what) in [
        (11, "something in its reserve"),
        (119, "something in its reserve"),
    ] {
        let mut bytes = written.clone();
        bytes[at] = 1;
        let crc = crc32c::crc32c(&bytes[..124]);
        bytes[124..128].copy_from_slice(&crc.to_le_bytes());
        let error = Chunk::open(&bytes, LogicalType::Integer)
            .unwrap_err()
            .to_string();
        let expected = format!("a chunk has {what}, which this build does not know");
        assert!(error.contains(&expected), "{error}");
    }
    // Checksums that are not where they have to be.
    let mut bytes = written.clone();
    bytes[72] = 1;
    let crc = crc32c::crc32c(&bytes[..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
    let error = Chunk::open(&bytes, LogicalType::Integer).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("logical checksums lie elsewhere"), "{error}");
    let mut other = written;
    other[4] = 2;
    let error = Chunk::open(&other, LogicalType::Integer)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("has format version 2, this build reads 1"),
        "{error}"
    );
}

#[test]
fn dictionaries_are_written_and_read_as_ever() {
    let cases = [
        ("strings", LogicalType::Varchar, strings()),
        ("numbers", LogicalType::Integer, numbers(true)),
    ];
    for (name, ty, column) in cases {
        let mut builder = DictionaryBuilder::new(ty, 7);
        for half in [column.slice(0, 2), column.slice(2, column.len() - 2)] {
            ChunkPlan::new(ty, &[half], Some(Encoding::Dictionary), Some(&mut builder)).unwrap();
        }
        let dictionary = builder.finish();
        let from = dictionary.main_len();
        let main = golden(&format!("{name}-main.dictionary"), &dictionary.main_piece());
        let delta = golden(
            &format!("{name}-delta.dictionary"),
            &dictionary.delta_piece(from),
        );
        let opened = Dictionary::open(ty, 7, &main, &[&delta]).unwrap();
        assert_eq!(opened.main_len(), from);
        assert_eq!(&opened.values_array(), &dictionary.values_array());
    }
}
