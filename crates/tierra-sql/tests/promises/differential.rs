//! Random predicates on random rows: whatever the encoding, Tierra passes the rows that DataFusion
//! passes on the same rows in memory.
//!
//! A failure prints its seed; `TIERRA_SEED=n` replays it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::random::{Random, seed};
use crate::twins::Twins;

/// Predicates tried on each table.
const PREDICATES: usize = 120;

fn schema() -> SchemaRef {
    let column = |name: &str, ty| Field::new(name, ty, true);
    Arc::new(Schema::new(vec![
        column("i", DataType::Int32),
        column("l", DataType::Int64),
        column("p", DataType::Decimal128(12, 2)),
        column("w", DataType::Decimal128(38, 3)),
        column("f", DataType::Float64),
        column("d", DataType::Date32),
        column("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
        column("s", DataType::Utf8View),
        column("b", DataType::Boolean),
    ]))
}

const STRINGS: [&str; 9] = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "zebra",
    "zoë",
    "a rather long string, longer than a view",
    "Ab",
];

/// Rows in which values repeat, with NULLs and extremes among them.
fn rows(random: &mut Random, count: usize) -> RecordBatch {
    let mut column = |value: &mut dyn FnMut(&mut Random) -> i64| -> Vec<Option<i64>> {
        (0..count)
            .map(|_| (random.below(10) > 0).then(|| value(random)))
            .collect()
    };
    let small = column(&mut |random| match random.below(200) {
        0 => i64::from(i32::MIN),
        1 => i64::from(i32::MAX),
        _ => random.below(50) as i64 - 20,
    });
    let long = column(&mut |random| match random.below(200) {
        0 => i64::MIN,
        1 => i64::MAX,
        _ => random.below(1 << 40) as i64,
    });
    let cents = column(&mut |random| random.below(2_000) as i64 - 1_000);
    let wide = column(&mut |random| random.below(100) as i64 - 50);
    let halves = column(&mut |random| random.below(40) as i64 - 20);
    let days = column(&mut |random| random.below(400) as i64 - 200);
    let micros = column(&mut |random| (random.below(100) as i64 - 50) * 3_600_000_000);
    let strings = column(&mut |random| random.below(STRINGS.len() as u64) as i64);
    let bits = column(&mut |random| random.below(2) as i64);
    let narrow = |values: &[Option<i64>]| {
        values
            .iter()
            .map(|v| v.map(|v| v as i32))
            .collect::<Vec<_>>()
    };
    let factor = 10_i128.pow(30);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(narrow(&small))),
        Arc::new(Int64Array::from(long)),
        Arc::new(
            Decimal128Array::from_iter(cents.iter().map(|v| v.map(i128::from)))
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(
            Decimal128Array::from_iter(wide.iter().map(|v| v.map(|v| i128::from(v) * factor)))
                .with_precision_and_scale(38, 3)
                .unwrap(),
        ),
        Arc::new(Float64Array::from_iter(
            halves.iter().map(|v| v.map(|v| v as f64 / 2.0)),
        )),
        Arc::new(Date32Array::from(narrow(&days))),
        Arc::new(TimestampMicrosecondArray::from(micros)),
        Arc::new(StringViewArray::from_iter(
            strings.iter().map(|v| v.map(|v| STRINGS[v as usize])),
        )),
        Arc::new(BooleanArray::from_iter(
            bits.iter().map(|v| v.map(|v| v == 1)),
        )),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn literal(random: &mut Random, column: &str) -> String {
    if random.below(25) == 0 {
        return "NULL".to_string();
    }
    match column {
        "i" => match random.below(12) {
            0 => i32::MIN.to_string(),
            1 => i32::MAX.to_string(),
            2 => "5000000000".to_string(),
            3 => "3.5".to_string(),
            _ => (random.below(54) as i64 - 22).to_string(),
        },
        "l" => match random.below(6) {
            0 => i64::MAX.to_string(),
            _ => random.below(1 << 40).to_string(),
        },
        "p" => format!("{}.{:02}", random.below(20) as i64 - 10, random.below(100)),
        "w" => format!(
            "{}000000000000000000000000000.000",
            random.below(100) as i64 - 50
        ),
        "f" => format!(
            "CAST('{}' AS DOUBLE)",
            (random.below(44) as i64 - 22) as f64 / 2.0
        ),
        "d" => format!(
            "DATE '19{}-0{}-15'",
            69 + random.below(3),
            1 + random.below(9)
        ),
        "t" => format!(
            "TIMESTAMP '19{}-12-3{} 0{}:00:00'",
            69 + random.below(2),
            random.below(2),
            random.below(10)
        ),
        "b" => random.one_of(&["true", "false"]).to_string(),
        _ => format!("'{}'", random.one_of(&STRINGS)),
    }
}

/// A comparison. `listed` are the columns of its statement that were compared with lists: DataFusion takes
/// `NOT (x IN (1) AND x IN (2))` for true where x is NULL, so each is only once.
fn simple(random: &mut Random, listed: &mut Vec<String>) -> String {
    let column = random.one_of(&["i", "l", "p", "w", "f", "d", "t", "s", "b"]);
    let value = |random: &mut Random| literal(random, column);
    let kind = match random.below(11) {
        3 if listed.iter().any(|other| other == column) => 9,
        3 => {
            listed.push(column.to_string());
            3
        }
        kind => kind,
    };
    match kind {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IS NOT NULL"),
        2 => format!("{column} BETWEEN {} AND {}", value(random), value(random)),
        3 => {
            let list: Vec<String> = (0..1 + random.below(6)).map(|_| value(random)).collect();
            format!(
                "{column} {}IN ({})",
                random.one_of(&["", "NOT "]),
                list.join(", ")
            )
        }
        4 => format!(
            "({column} IS {}DISTINCT FROM {})",
            random.one_of(&["", "NOT "]),
            value(random)
        ),
        5 => {
            let pattern = random.one_of(&["a%", "%b%", "%", "z_bra", "zo%", "", "a rather%"]);
            format!("s {}LIKE '{pattern}'", random.one_of(&["", "NOT "]))
        }
        6 => format!("upper(s) = '{}'", random.one_of(&["AB", "A", "ZEBRA", ""])),
        7 => format!("coalesce(i, 7) = {}", random.below(10)),
        8 => random
            .one_of(&["b", "NOT b", "b IS NOT TRUE", "b IS UNKNOWN"])
            .to_string(),
        _ => format!(
            "{column} {} {}",
            random.one_of(&["=", "<>", "<", "<=", ">", ">="]),
            value(random)
        ),
    }
}

fn predicate(random: &mut Random, depth: u32, listed: &mut Vec<String>) -> String {
    if depth == 0 {
        return simple(random, listed);
    }
    let mut below = |random: &mut Random| predicate(random, depth - 1, listed);
    match random.below(6) {
        0 => format!("({} OR {})", below(random), below(random)),
        1 | 2 => format!("({} AND {})", below(random), below(random)),
        3 => format!("NOT ({})", below(random)),
        _ => simple(random, listed),
    }
}

/// A long list, which becomes one set before planning.
fn long_list(random: &mut Random) -> String {
    let column = random.one_of(&["i", "l", "s", "p"]);
    let values: Vec<String> = (0..70)
        .map(|n| {
            if column == "s" {
                format!("'{}'", STRINGS[n % 5])
            } else {
                (random.below(90) as i64 - 30).to_string()
            }
        })
        .collect();
    format!(
        "{column} {}IN ({})",
        random.one_of(&["", "NOT "]),
        values.join(",")
    )
}

async fn check(seed: u64, encoding: Option<&str>, tail: bool, count: usize) {
    let mut random = Random(seed);
    let twins = Twins::new();
    // Read as doubles, numbers beside a DECIMAL miss rows in DataFusion: 8.47 equals no 8.47.
    let exact = "SET datafusion.sql_parser.parse_float_as_decimal = true";
    twins.peer.sql(exact).await.unwrap();
    let batch = rows(&mut random, count);
    let with = encoding.map(|encoding| {
        // Strings have encodings of their own, wide decimals one.
        let is_of_strings = matches!(encoding, "front" | "fsst" | "prefix");
        let fits = |field: &Field| match field.name().as_str() {
            "s" => is_of_strings || matches!(encoding, "plain" | "dictionary"),
            "w" => encoding == "plain",
            _ => !is_of_strings,
        };
        let fields = schema();
        let options = fields.fields().iter().filter(|field| fits(field));
        let options = options.map(|field| format!("'{}.encoding' = '{encoding}'", field.name()));
        format!(" WITH ({})", options.collect::<Vec<_>>().join(", "))
    });
    let create = format!(
        "CREATE TABLE r (i INTEGER, l BIGINT, p DECIMAL(12, 2), w DECIMAL(38, 3), f DOUBLE, d DATE, t TIMESTAMP, s VARCHAR, b BOOLEAN){}",
        with.unwrap_or_default()
    );
    twins.tierra.sql(&create).await.unwrap();
    twins.add("r", &schema(), std::slice::from_ref(&batch));
    let table = twins.tierra.database().table("r").unwrap();
    if !tail {
        table.seal().unwrap();
    }
    for number in 0..PREDICATES {
        let predicate = match number % 10 {
            0 => long_list(&mut random),
            _ => predicate(&mut random, 2, &mut Vec::new()),
        };
        let what = format!("TIERRA_SEED={seed} encoding {encoding:?} tail {tail}");
        twins
            .compare(&what, &format!("SELECT * FROM r WHERE {predicate}"))
            .await;
        if number % 8 == 0 {
            twins
                .compare(
                    &what,
                    &format!("SELECT count(*), sum(i), min(s), max(d) FROM r WHERE {predicate}"),
                )
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_predicates_pass_the_rows_that_datafusion_passes() {
    let seed = seed();
    check(seed, None, true, 700).await;
    for encoding in [
        None,
        Some("plain"),
        Some("static"),
        Some("dynamic"),
        Some("for"),
        Some("delta"),
        Some("dictionary"),
        Some("front"),
        Some("fsst"),
        Some("prefix"),
    ] {
        check(seed, encoding, false, 2_500).await;
    }
}
