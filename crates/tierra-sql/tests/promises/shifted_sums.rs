//! Several sums of one column plus or minus constants are those of 128-bit arithmetic, or errors if one does not fit a
//! BIGINT: with NULLs, extremes, groups, filters, and no rows.
//!
//! A failure prints its seed; `TIERRA_SEED=n` replays it.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};

use crate::random::{Random, seed};
use crate::twins::{Twins, rows};

const TABLES: usize = 12;
const QUERIES: usize = 40;

#[derive(Clone, Copy)]
struct Row {
    group: i32,
    integer: Option<i32>,
    bigint: Option<i64>,
}

/// A number of any size, sometimes an extreme one.
fn number(random: &mut Random, extremes: bool) -> i64 {
    match random.below(8) {
        0 if extremes => i64::MAX,
        1 if extremes => -i64::MAX,
        _ => {
            let bits = random.below(if extremes { 63 } else { 40 });
            random.below(1 << bits.max(1)) as i64 * if random.below(2) == 0 { 1 } else { -1 }
        }
    }
}

fn random_rows(random: &mut Random, count: usize) -> Vec<Row> {
    let extremes = random.below(2) == 0;
    let row = |_| Row {
        group: random.below(4) as i32,
        integer: (random.below(5) > 0).then(|| match random.below(20) {
            0 => i32::MAX,
            1 => i32::MIN,
            _ => number(random, false) as i32,
        }),
        bigint: (random.below(5) > 0).then(|| match random.below(20) {
            0 if extremes => i64::MIN,
            _ => number(random, extremes),
        }),
    };
    (0..count).map(row).collect()
}

fn load(twins: &Twins, rows: &[Row]) {
    let schema = Arc::new(Schema::new(vec![
        Field::new("g", DataType::Int32, false),
        Field::new("i", DataType::Int32, true),
        Field::new("l", DataType::Int64, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|r| r.group))),
        Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.integer))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.bigint))),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    twins.add("t", &schema, &[batch]);
}

/// A sum: its SQL, and what it adds for a row.
struct Sum {
    sql: String,
    column: &'static str,
    factor: i128,
    constant: i128,
    /// Only rows of greater groups.
    above: Option<i32>,
}

impl Sum {
    fn random(random: &mut Random, column: &'static str, above: Option<i32>) -> Self {
        let c = number(random, column == "l");
        let d = number(random, false);
        let narrow = c as i32;
        let (wide, small) = (i128::from(c), i128::from(narrow));
        let (text, factor, constant) = match random.below(8) {
            0 => (column.to_string(), 1, 0),
            1 => (format!("{c} + {column}"), 1, wide),
            2 => (format!("{column} - {c}"), 1, -wide),
            3 => (format!("{c} - {column}"), -1, wide),
            4 => (format!("-{column}"), -1, 0),
            5 => (format!("{d} - ({column} + {c})"), -1, i128::from(d) - wide),
            6 => (format!("{column} + CAST({narrow} AS INTEGER)"), 1, small),
            _ => (format!("{column} + {c}"), 1, wide),
        };
        let filter = above.map(|above| format!(" FILTER (WHERE g > {above})"));
        Self {
            sql: format!("sum({text}){}", filter.unwrap_or_default()),
            column,
            factor,
            constant,
            above,
        }
    }

    fn of<'a>(&self, rows: impl Iterator<Item = &'a Row>) -> Option<i128> {
        let rows = rows.filter(|row| self.above.is_none_or(|above| row.group > above));
        let values = rows.filter_map(|row| match self.column {
            "i" => row.integer.map(i128::from),
            _ => row.bigint.map(i128::from),
        });
        values
            .map(|value| self.factor * value + self.constant)
            .reduce(|total, value| total + value)
    }
}

/// Sums of one or two columns, several of each, not all of the column itself.
fn random_sums(random: &mut Random) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    for column in ["i", "l"] {
        if random.below(3) == 0 && !(column == "l" && sums.is_empty()) {
            continue;
        }
        let above = (random.below(3) == 0).then(|| random.below(5) as i32 - 1);
        let mut of_column = Vec::new();
        while of_column.len() < 2
            || of_column
                .iter()
                .all(|sum: &Sum| sum.constant == 0 && sum.factor == 1)
            || random.below(3) > 0
        {
            let sum = Sum::random(random, column, above);
            // DataFusion computes equal ones once.
            if of_column.iter().all(|other: &Sum| other.sql != sum.sql) {
                of_column.push(sum);
            }
        }
        sums.append(&mut of_column);
    }
    sums
}

async fn check(seed: u64) -> [usize; 2] {
    let mut random = Random(seed);
    let twins = Twins::new();
    let count = [0, 1, 7, 300, 40_000][random.below(5) as usize];
    let table = random_rows(&mut random, count);
    load(&twins, &table);
    let mut outcomes = [0, 0];
    for _ in 0..QUERIES {
        let sums = random_sums(&mut random);
        let is_grouped = random.below(2) == 0;
        let least = (random.below(4) == 0).then(|| random.below(5) as i32);
        let list: Vec<&str> = sums.iter().map(|sum| sum.sql.as_str()).collect();
        let (key, by) = match is_grouped {
            true => ("g", "GROUP BY g"),
            false => ("CAST(0 AS INTEGER)", ""),
        };
        let condition = least.map(|least| format!("WHERE g >= {least}"));
        let sql = format!(
            "SELECT {key}, {} FROM t {} {by}",
            list.join(", "),
            condition.unwrap_or_default()
        );

        let mut groups: BTreeMap<i32, Vec<&Row>> = BTreeMap::new();
        if !is_grouped {
            groups.insert(0, Vec::new());
        }
        for row in table
            .iter()
            .filter(|row| least.is_none_or(|least| row.group >= least))
        {
            let group = if is_grouped { row.group } else { 0 };
            groups.entry(group).or_default().push(row);
        }
        let of_group = |(group, rows): (&i32, &Vec<&Row>)| {
            let sums = sums.iter().map(|sum| sum.of(rows.iter().copied()));
            (*group, sums.collect::<Vec<_>>())
        };
        let exact: BTreeMap<i32, Vec<Option<i128>>> = groups.iter().map(of_group).collect();
        let fits = |sum: &Option<i128>| sum.is_none_or(|sum| i64::try_from(sum).is_ok());
        let all_fit = exact.values().flatten().all(fits);

        let what = format!("TIERRA_SEED={seed} {sql}");
        match twins.tierra.query(&sql).await {
            Err(error) => {
                assert!(!all_fit, "{what}: {error}");
                let error = error.to_string();
                assert!(error.contains("BIGINT overflow in sum("), "{what}: {error}");
                outcomes[1] += 1;
            }
            Ok(batches) => {
                assert!(all_fit, "{what}: no error, expected {exact:?}");
                let mut found = BTreeMap::new();
                for batch in &batches {
                    for row in 0..batch.num_rows() {
                        let cells = batch.columns()[1..].iter().map(|column| {
                            let column = column.as_primitive::<Int64Type>();
                            column.is_valid(row).then(|| i128::from(column.value(row)))
                        });
                        let keys = batch.column(0);
                        let keys = keys.as_primitive::<arrow::datatypes::Int32Type>();
                        found.insert(keys.value(row), cells.collect::<Vec<_>>());
                    }
                }
                assert_eq!(found, exact, "{what}");
                outcomes[0] += 1;
            }
        }
    }
    outcomes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_of_shifted_values_are_exact_or_errors() {
    let first = seed();
    let mut outcomes = [0, 0];
    for table in 0..TABLES as u64 {
        let [answers, errors] = check(first.wrapping_add(table)).await;
        outcomes = [outcomes[0] + answers, outcomes[1] + errors];
    }
    // Both happen.
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_is_summed_once() {
    let twins = Twins::new();
    load(&twins, &random_rows(&mut Random(1), 10));
    let sums: Vec<String> = (0..20).map(|n| format!("sum(i + {n})")).collect();
    let explain = format!("EXPLAIN SELECT {}, max(l) FROM t", sums.join(", "));
    let plan = rows(&twins.tierra.query(&explain).await.unwrap()).join("\n");
    let aggregations = plan.lines().filter(|line| line.contains("AggregateExec"));
    for line in aggregations {
        let calls = [line.matches("sum(").count(), line.matches("count(").count()];
        assert_eq!(calls, [1, 1], "{line}");
    }
    assert!(
        plan.contains("exact_sum(t.i), count(t.i), max(t.l)"),
        "{plan}"
    );
    // One sum alone stays, and so do sums of what is random.
    for query in [
        "SELECT sum(i + 1), sum(l + 1) FROM t",
        "SELECT sum(i + random()), sum(i + random() + 1) FROM t",
    ] {
        let explain = format!("EXPLAIN {query}");
        let plan = rows(&twins.tierra.query(&explain).await.unwrap()).join("\n");
        assert!(!plan.contains("exact_sum"), "{plan}");
    }
}
