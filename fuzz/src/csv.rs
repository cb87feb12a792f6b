//! CSV as `tierra load` reads it: the reader's own files, without the rest of their crate, which
//! needs DataFusion.

use std::io::{self, Read};

use arrow::array::ArrayRef;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use tierra_column::LogicalType;

#[allow(dead_code, reason = "the loader uses more of it")]
#[path = "../../crates/tierra-sql/src/load/csv_field.rs"]
mod csv_field;
#[allow(dead_code, reason = "the loader uses more of it")]
#[path = "../../crates/tierra-sql/src/load/csv_records.rs"]
mod csv_records;

#[path = "../../crates/tierra-sql/src/double_text.rs"]
mod double_text;
#[allow(dead_code, reason = "casts and parameters use more of it")]
#[path = "../../crates/tierra-sql/src/moments.rs"]
mod moments;

use csv_field::{BadField, FieldBuilder, Guess};
use csv_records::{Field, Record, Records};

/// Hands out a few bytes at a time, so that records meet the end of the buffer everywhere.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let taken = self.0.len().min(self.1).min(buffer.len());
        buffer[..taken].copy_from_slice(&self.0[..taken]);
        self.0 = &self.0[taken..];
        Ok(taken)
    }
}

/// A record's line and fields, and whether those were quoted.
type Row = (u64, Vec<(Vec<u8>, bool)>);

/// All records, or those before the first that is malformed.
fn rows(mut records: Records<impl Read>, one_field: bool) -> (Vec<Row>, bool) {
    if one_field {
        records.expect_one_field();
    }
    let (mut record, mut rows) = (Record::default(), Vec::new());
    loop {
        match records.read(&mut record) {
            Ok(true) => {
                let owned = |field: Field<'_>| (field.bytes.to_vec(), field.quoted);
                rows.push((record.line, record.iter().map(owned).collect()));
            }
            Ok(false) => return (rows, true),
            Err(_) => return (rows, false),
        }
    }
}

/// The promise of target `csv` for `text`; `options` chooses the delimiter, the pieces in which it
/// arrives, and whether records have one field.
pub fn check(options: u8, text: &[u8]) {
    let delimiter = if options & 1 == 0 { b',' } else { b'\t' };
    let one_field = options & 2 != 0;
    let piece = 1 + usize::from(options >> 2);
    let (rows, whole) = (
        rows(Records::new(text, delimiter), one_field),
        rows(Records::new(Trickle(text, piece), delimiter), one_field),
    );
    assert_eq!(rows, whole, "however the bytes arrive");
    let (rows, well_formed) = rows;
    assert!(
        rows.is_sorted_by(|a, b| a.0 < b.0),
        "a line begins one record"
    );
    if well_formed && !one_field {
        let fields = |row: &Row| row.1.iter().map(|field| field.0.clone()).collect();
        let found: Vec<Vec<Vec<u8>>> = rows.iter().map(fields).collect();
        assert_eq!(found, by_the_csv_crate(delimiter, text));
    }
    for column in 0..8 {
        let fields = rows.iter().filter_map(|row| row.1.get(column));
        let fields: Vec<Field<'_>> = fields
            .map(|(bytes, quoted)| Field {
                bytes,
                quoted: *quoted,
            })
            .collect();
        check_column(&fields);
    }
}

fn by_the_csv_crate(delimiter: u8, text: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut reader = csv::ReaderBuilder::new();
    reader
        .delimiter(delimiter)
        .flexible(true)
        .has_headers(false);
    let records = reader.from_reader(text).into_byte_records();
    let fields = |record: csv::ByteRecord| record.iter().map(<[u8]>::to_vec).collect();
    let record = |record: csv::Result<csv::ByteRecord>| record.expect("bytes in memory");
    records.map(|found| fields(record(found))).collect()
}

/// The guessed type takes what it was guessed from, and what any type takes it takes again in its
/// own words.
fn check_column(fields: &[Field<'_>]) {
    let mut guess = Guess::default();
    fields.iter().for_each(|field| guess.see(*field));
    let types = [
        guess.ty(),
        LogicalType::Boolean,
        LogicalType::Integer,
        LogicalType::BigInt,
        LogicalType::Decimal {
            precision: 20,
            scale: 3,
        },
        LogicalType::Double,
        LogicalType::Date,
        LogicalType::Timestamp,
        LogicalType::Varchar,
    ];
    for (place, ty) in types.into_iter().enumerate() {
        let mut builder = FieldBuilder::new(ty, fields.len());
        let mut taken = Vec::new();
        for field in fields {
            match builder.append(*field, true) {
                Ok(()) => taken.push(*field),
                Err(BadField::NotUtf8(_)) => {}
                Err(error) => assert!(place > 0, "{ty} was guessed of {field:?}: {error:?}"),
            }
        }
        let values = builder.finish();
        assert_eq!(values.len(), taken.len());
        let texts = texts(&values);
        if ty == LogicalType::Varchar {
            for (text, field) in texts.iter().zip(&taken) {
                let expected = (!field.bytes.is_empty() || field.quoted).then_some(field.bytes);
                assert_eq!(text.as_deref().map(str::as_bytes), expected);
            }
            continue;
        }
        for (text, field) in texts.iter().zip(&taken) {
            if let Some(text) = text {
                let written = std::str::from_utf8(field.bytes).expect("it was taken");
                assert!(
                    means(ty, written.trim(), text),
                    "{ty}: {written:?} became {text:?}"
                );
            }
        }
        let mut again = FieldBuilder::new(ty, taken.len());
        for text in &texts {
            let bytes = text.as_deref().unwrap_or_default().as_bytes();
            let quoted = false;
            let repeated = again.append(Field { bytes, quoted }, true);
            assert!(repeated.is_ok(), "{ty}: {text:?} is not taken back");
        }
        assert_eq!(self::texts(&again.finish()), texts, "{ty}");
    }
}

/// Whether `written` in a file and `shown` of a table are the same value.
fn means(ty: LogicalType, written: &str, shown: &str) -> bool {
    match ty {
        LogicalType::Integer | LogicalType::BigInt | LogicalType::Decimal { .. } => {
            number(written) == number(shown)
        }
        // Every decimal is rounded; none becomes infinite.
        LogicalType::Double => {
            let digits = written.bytes().any(|byte| byte.is_ascii_digit());
            !digits || !matches!(shown, "inf" | "-inf" | "NaN")
        }
        LogicalType::Timestamp => match moment(written) {
            Some(moment) => Some(moment) == self::moment(shown),
            // With an offset, or written another way.
            None => true,
        },
        _ => true,
    }
}

/// Sign, digits before and after the point, without zeros that say nothing.
fn number(text: &str) -> (bool, &str, &str) {
    let digits = text.trim_start_matches(['+', '-']);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (whole, fraction) = (
        whole.trim_start_matches('0'),
        fraction.trim_end_matches('0'),
    );
    let zero = whole.is_empty() && fraction.is_empty();
    (text.starts_with('-') && !zero, whole, fraction)
}

/// Date, time and fraction of `YYYY-MM-DD hh:mm:ss[.fraction]`; not of a leap second, which is shown
/// as the next.
fn moment(text: &str) -> Option<(&str, &str, &str)> {
    let (date, time) = (text.get(..10)?, text.get(11..19)?);
    let fraction = text[19..].strip_prefix('.').unwrap_or(&text[19..]);
    let plain = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let plain = plain && time.as_bytes()[2] == b':' && !time.ends_with("60");
    plain.then(|| (date, time, fraction.trim_end_matches('0')))
}

/// The values as `tierra sql --format csv` writes them.
fn texts(values: &ArrayRef) -> Vec<Option<String>> {
    let options = FormatOptions::new();
    let formatter = ArrayFormatter::try_new(values, &options).expect("a type of ours");
    let text = |row| {
        formatter
            .value(row)
            .try_to_string()
            .expect("a value of ours")
    };
    let text = |row| values.is_valid(row).then(|| text(row));
    (0..values.len()).map(text).collect()
}
