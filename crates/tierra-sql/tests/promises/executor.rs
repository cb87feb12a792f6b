//! Lookups of SQL run on the executor, and EXPLAIN ANALYZE shows it.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};

use crate::twins::{Twins, rows};

const ROWS: i32 = 80_000;
const DISTINCT: i32 = 20_000;
/// So few values that what a join looks for is always asked of each of them.
const FEW_DISTINCT: i32 = 10_000;

/// What EXPLAIN ANALYZE says of a counter of the operator.
async fn counted(twins: &Twins, operator: &str, counter: &str, query: &str) -> u64 {
    let explain = format!("EXPLAIN ANALYZE {query}");
    let plan = rows(&twins.tierra.query(&explain).await.unwrap()).join("\n");
    let line = plan.lines().find(|line| line.contains(operator));
    let line = line.unwrap_or_else(|| panic!("no {operator} in {plan}"));
    // Behind a space or a bracket: one counter's name may end as another.
    let value = line.split_once(&format!(" {counter}="));
    let value = value.or_else(|| line.split_once(&format!("[{counter}=")));
    let (_, value) = value.unwrap_or_else(|| panic!("no {counter} in {line}"));
    let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
    let unit = &value[digits.len()..];
    assert!(unit.starts_with([',', ']']), "{counter} in full: {line}");
    digits.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_keys_and_rows_are_looked_up_by_lookups_that_take_turns() {
    let twins = Twins::new();
    let create =
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER) WITH ('n.encoding' = 'dictionary')";
    twins.tierra.sql(create).await.unwrap();
    let table = twins.tierra.database().table("t").unwrap();
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS));
    let numbers = (0..ROWS).map(|row| row * 7_919 % DISTINCT);
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(numbers));
    let batch = RecordBatch::try_new(table.schema(), vec![ids, numbers]).unwrap();
    let mut loader = table.loader();
    loader.push(batch).unwrap();
    loader.finish().unwrap();

    // Few enough that all that is counted is told in full.
    let list: Vec<String> = (0..200).map(|n| (n * 57).to_string()).collect();
    let list = list.join(", ");
    let by_list = format!("SELECT COUNT(*) FROM t WHERE n IN ({list})");
    let by_key = format!("SELECT n FROM t WHERE id IN ({list})");
    for mode in ["auto", "plain", "interleaved"] {
        let set = format!("SET tierra.execution = '{mode}'");
        twins.tierra.sql(&set).await.unwrap();
        let found = twins.tierra.query(&by_list).await.unwrap();
        assert_eq!(rows(&found), ["800"], "{mode}");
        assert_eq!(
            twins.tierra.query(&by_key).await.unwrap()[0].num_rows(),
            200
        );
        // A key, and the one cell of its row; the values of the list, in a dictionary of two parts.
        for (operator, query, least, most) in [
            ("TierraScanExec", &by_list, 200, 400),
            ("TierraPointExec", &by_key, 400, 400),
        ] {
            let lookups = counted(&twins, operator, "lookups", query).await;
            assert!((least..=most).contains(&lookups), "{mode} {operator}");
            let suspensions = counted(&twins, operator, "suspensions", query).await;
            match mode {
                "plain" => assert_eq!(suspensions, 0, "{operator}"),
                "interleaved" => assert!(suspensions >= least, "{operator} {suspensions}"),
                _ => {}
            }
        }
    }
}

/// A table whose column `n` has an inverted index, and a small one to join it with.
async fn indexed() -> Twins {
    let twins = Twins::new();
    let create = "CREATE TABLE t (id INTEGER, n INTEGER) WITH ('n.index' = 'inverted')";
    twins.tierra.sql(create).await.unwrap();
    let table = twins.tierra.database().table("t").unwrap();
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(0..ROWS));
    let number = |row: i32| (row % 10 != 3).then_some(row * 7_919 % FEW_DISTINCT);
    let numbers: ArrayRef = Arc::new((0..ROWS).map(number).collect::<Int32Array>());
    let batch = RecordBatch::try_new(table.schema(), vec![ids, numbers]).unwrap();
    twins.add("t", &table.schema(), &[batch]);
    let few: ArrayRef = Arc::new(Int32Array::from_iter(
        (0..40).map(|n| (n != 7).then_some(n * 501)),
    ));
    let schema = Schema::new(vec![Field::new("m", DataType::Int32, true)]);
    let few = RecordBatch::try_new(Arc::new(schema), vec![few]).unwrap();
    twins.add("few", &few.schema(), std::slice::from_ref(&few));
    twins.tierra.database().wait_for_near_copies().unwrap();
    twins
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_inverted_index_answers_equality_lists_and_joins() {
    let twins = indexed().await;
    // What an index saves depends on how many threads would share the scan.
    let one = "SET tierra.threads = 1";
    twins.tierra.sql(one).await.unwrap();
    let list: Vec<String> = (0..150).map(|n| (n * 137).to_string()).collect();
    let list = list.join(", ");
    // Each with whether the index is asked. The scan is cheaper for a range of a table as small as this.
    let queries = [
        ("SELECT COUNT(*) FROM t WHERE n = 7919".to_string(), true),
        (
            "SELECT id, n FROM t WHERE n = 7919 AND id > 30000".to_string(),
            true,
        ),
        ("SELECT COUNT(*) FROM t WHERE n = -1".to_string(), false),
        (format!("SELECT id FROM t WHERE n IN ({list})"), true),
        (
            format!("SELECT SUM(id) FROM t WHERE n IN ({list}) AND n <> 274"),
            true,
        ),
        (
            format!("SELECT COUNT(*) FROM t WHERE n NOT IN ({list})"),
            false,
        ),
        (
            "SELECT COUNT(*) FROM t WHERE n BETWEEN 100 AND 110".to_string(),
            false,
        ),
        (
            "SELECT COUNT(*) FROM t WHERE n BETWEEN 100 AND 15000".to_string(),
            false,
        ),
        (
            "SELECT COUNT(*) FROM t WHERE n IS NULL OR n = 4".to_string(),
            false,
        ),
        ("SELECT id FROM t JOIN few ON n = m".to_string(), true),
        (
            "SELECT COUNT(*) FROM t JOIN few ON n = m WHERE id % 2 = 0".to_string(),
            true,
        ),
    ];
    for mode in ["auto", "plain", "interleaved"] {
        let set = format!("SET tierra.execution = '{mode}'");
        twins.tierra.sql(&set).await.unwrap();
        for (query, is_indexed) in &queries {
            twins.compare(mode, query).await;
            let explain = format!("EXPLAIN ANALYZE {query}");
            let plan = rows(&twins.tierra.query(&explain).await.unwrap()).join("\n");
            let lookups: u64 = plan
                .split("index_lookups=")
                .skip(1)
                .map(|rest| {
                    let digits = rest.chars().take_while(char::is_ascii_digit);
                    digits.collect::<String>().parse::<u64>().unwrap()
                })
                .sum();
            assert_eq!(lookups > 0, *is_indexed, "{query}: {plan}");
        }
    }
}

/// The blocks that each partition of the scan of `table` has read.
async fn blocks_by_partition(twins: &Twins, table: &str, query: &str) -> Vec<u64> {
    let explain = format!("EXPLAIN ANALYZE VERBOSE {query}");
    let plan = rows(&twins.tierra.query(&explain).await.unwrap()).join("\n");
    let (_, full) = plan.split_once("Plan with Full Metrics").unwrap();
    let scan = format!("table={table},");
    let line = full.lines().find(|line| line.contains(&scan));
    let line = line.unwrap_or_else(|| panic!("no {scan} in {plan}"));
    let read = line.split("blocks_read{partition=").skip(1).map(|count| {
        let (_, count) = count.split_once("}=").unwrap();
        let digits = count.chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse().unwrap()
    });
    read.collect()
}

// One thread, so that what a partition leaves to the other one does not depend on the machine.
#[tokio::test]
async fn partitions_begin_before_the_first_one_has_read_everything() {
    const ROWS: i32 = 600_000;
    let twins = Twins::new();
    let schema = |name: &str| Arc::new(Schema::new(vec![Field::new(name, DataType::Int32, false)]));
    let add = |table: &str, name: &str, values: &mut dyn Iterator<Item = i32>| {
        let values: ArrayRef = Arc::new(Int32Array::from_iter_values(values));
        let batch = RecordBatch::try_new(schema(name), vec![values]).unwrap();
        twins.add(table, &schema(name), &[batch]);
    };
    add("t", "n", &mut (0..ROWS).map(|row| row % 40_000));
    add("few", "m", &mut (0..40_000).map(|row| row * 3));
    for query in [
        "SELECT sum(n * n + m) FROM t JOIN few ON n = m",
        "SELECT sum(n * n + 1) FROM t",
    ] {
        twins.compare("all rows", query).await;
        let read = blocks_by_partition(&twins, "t", query).await;
        assert_eq!(read.len(), 2, "{query}");
        assert!(read.iter().all(|blocks| *blocks > 0), "{query}: {read:?}");
    }
}
