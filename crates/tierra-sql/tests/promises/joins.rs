//! Joins whose lookups take turns yield the rows that DataFusion's own joins yield: random types, keys,
//! filters and projections on random rows, with NULLs, several rows of a key, and batches of all sizes.
//!
//! A failure prints its seed; `TIERRA_SEED=n` replays it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use crate::random::{Random, seed};
use crate::twins::{Twins, memory, rows};

/// Joins tried on each pair of tables.
const JOINS: usize = 60;
/// Every join whose smaller side is known to have a row, wherever its keys lie.
pub(crate) const ALL: &str = "SET tierra.join_build_rows = 1; \
     SET datafusion.execution.perfect_hash_join_min_key_density = 1000000";

const STRINGS: [&str; 6] = [
    "",
    "a",
    "ab",
    "zoë",
    "longer than a view holds",
    "longer than a view has",
];
const COLUMNS: [&str; 7] = ["i", "l", "p", "d", "t", "s", "b"];
const JOIN_TYPES: [&str; 8] = [
    "JOIN",
    "LEFT JOIN",
    "RIGHT JOIN",
    "FULL JOIN",
    "LEFT SEMI JOIN",
    "LEFT ANTI JOIN",
    "RIGHT SEMI JOIN",
    "RIGHT ANTI JOIN",
];

fn schema() -> SchemaRef {
    let column = |name: &str, ty| Field::new(name, ty, true);
    Arc::new(Schema::new(vec![
        column("i", DataType::Int32),
        column("l", DataType::Int64),
        column("p", DataType::Decimal128(12, 2)),
        column("d", DataType::Date32),
        column("t", DataType::Timestamp(TimeUnit::Microsecond, None)),
        column("s", DataType::Utf8View),
        column("b", DataType::Boolean),
    ]))
}

/// Rows in which every column has up to `distinct` values.
fn random_rows(random: &mut Random, count: usize, distinct: u64) -> RecordBatch {
    let mut column = |distinct: u64| -> Vec<Option<i64>> {
        (0..count)
            .map(|_| (random.below(12) > 0).then(|| random.below(distinct) as i64 - 3))
            .collect()
    };
    let narrow = |values: Vec<Option<i64>>| values.into_iter().map(|v| v.map(|v| v as i32));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter(narrow(column(distinct)))),
        Arc::new(Int64Array::from_iter(
            column(distinct).into_iter().map(|v| v.map(|v| v << 40)),
        )),
        Arc::new(
            Decimal128Array::from_iter(column(distinct).into_iter().map(|v| v.map(i128::from)))
                .with_precision_and_scale(12, 2)
                .unwrap(),
        ),
        Arc::new(Date32Array::from_iter(narrow(column(distinct)))),
        Arc::new(TimestampMicrosecondArray::from(column(distinct))),
        Arc::new(StringViewArray::from_iter(
            column(6)
                .into_iter()
                .map(|v| v.map(|v| STRINGS[(v + 3) as usize])),
        )),
        Arc::new(BooleanArray::from_iter(
            column(2).into_iter().map(|v| v.map(|v| v == -3)),
        )),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn random_join(random: &mut Random) -> String {
    let mut conditions = Vec::new();
    let first = random.below(COLUMNS.len() as u64) as usize;
    for step in 0..1 + random.below(3) as usize {
        let column = COLUMNS[(first + step * 2) % COLUMNS.len()];
        conditions.push(format!("x.{column} = y.{column}"));
    }
    match random.below(4) {
        0 => conditions.push("x.t < y.t".to_string()),
        1 => conditions.push("(x.i + y.i > 4 OR x.s <> y.s)".to_string()),
        _ => {}
    }
    let join = random.one_of(&JOIN_TYPES);
    let sides: &[&str] = match join {
        _ if join.starts_with("LEFT ") && !join.ends_with("T JOIN") => &["x"],
        _ if join.starts_with("RIGHT ") && !join.ends_with("T JOIN") => &["y"],
        _ => &["x", "y"],
    };
    let columns: Vec<String> = match random.below(5) {
        0 => vec!["count(*)".to_string()],
        _ => (0..1 + random.below(4))
            .map(|n| {
                let (side, column) = (random.one_of(sides), random.one_of(&COLUMNS));
                format!("{side}.{column} AS c{n}")
            })
            .collect(),
    };
    let (select, on) = (columns.join(", "), conditions.join(" AND "));
    format!("SELECT {select} FROM x {join} y ON {on}")
}

async fn check(seed: u64, [x_rows, y_rows]: [usize; 2], distinct: u64, seal: bool) {
    let mut random = Random(seed);
    let twins = Twins::new();
    for (name, count) in [("x", x_rows), ("y", y_rows)] {
        let rows = random_rows(&mut random, count, distinct);
        twins.add(name, &schema(), &[rows]);
        if seal {
            twins.tierra.database().table(name).unwrap().seal().unwrap();
        }
    }
    twins.tierra.execute(ALL).await.unwrap();
    for number in 0..JOINS {
        let batch_rows = random.one_of(&[1, 7, 64, 8192]);
        let execution = random.one_of(&["auto", "plain", "interleaved"]);
        let threads = random.one_of(&[1, 2, 3]);
        let settings = format!(
            "SET tierra.batch_rows = {batch_rows}; SET tierra.execution = '{execution}'; \
             SET tierra.threads = {threads}"
        );
        twins.tierra.execute(&settings).await.unwrap();
        let join = random_join(&mut random);
        let what =
            format!("TIERRA_SEED={seed} join {number} of {x_rows}, {y_rows} rows; {settings}");
        let plan = twins.tierra.query(&format!("EXPLAIN {join}")).await;
        let plan = rows(&plan.unwrap()).join("\n");
        assert!(plan.contains("TierraJoinExec"), "{what}\n{join}\n{plan}");
        twins.compare(&what, &join).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_joins_yield_the_rows_that_datafusion_yields() {
    let seed = seed();
    // Few rows of many keys, many rows of few keys, and sides of very different sizes.
    check(seed, [300, 400], 300, false).await;
    check(seed, [300, 200], 12, true).await;
    check(seed, [2_000, 20], 500, true).await;
    check(seed, [10, 3_000], 30, false).await;
}

/// `big (k, v)`, k distinct, `small (k, w)` with every third of its keys.
async fn twins(rows: i64) -> Twins {
    let twins = Twins::new();
    let create = format!(
        "CREATE TABLE big (k BIGINT, v BIGINT);
         INSERT INTO big SELECT value * 1000003, value FROM generate_series(1, {rows});
         CREATE TABLE small (k BIGINT, w BIGINT);
         INSERT INTO small SELECT value * 3000009, value FROM generate_series(1, {rows} / 2)"
    );
    twins.tierra.execute(&create).await.unwrap();
    twins
}

async fn answer(twins: &Twins, sql: &str) -> String {
    rows(&twins.tierra.query(sql).await.unwrap()).join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn look_ups_take_turns_as_the_session_says() {
    let twins = twins(600).await;
    twins.tierra.execute(ALL).await.unwrap();
    let join = "EXPLAIN ANALYZE SELECT count(*) FROM big LEFT JOIN small ON big.k = small.k";
    for (execution, suspended) in [("plain", 0..1), ("interleaved", 600..900)] {
        let set = format!("SET tierra.execution = '{execution}'");
        twins.tierra.sql(&set).await.unwrap();
        let plan = answer(&twins, join).await;
        let line = plan
            .lines()
            .find(|line| line.contains("TierraJoinExec"))
            .unwrap();
        let metric = |name: &str| {
            let (_, rest) = line.split_once(&format!("{name}=")).unwrap();
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u64>().unwrap()
        };
        assert_eq!(metric("build_rows"), 300, "{line}");
        assert_eq!(metric("probe_rows"), 600, "{line}");
        assert_eq!(metric("lookups"), 600, "{line}");
        // A line each, a second one where a bucket has overflowed.
        assert!(suspended.contains(&metric("suspensions")), "{line}");
        assert_eq!(metric("output_rows"), 600, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_large_build_sides_are_joined_here() {
    let twins = twins(100_000).await;
    let join = "SELECT count(*), sum(v), sum(w) FROM big JOIN small ON big.k = small.k";
    let explain = format!("EXPLAIN {join}");
    let mut answers = Vec::new();
    for (least, expected) in [(50_000, "TierraJoinExec"), (50_001, "HashJoinExec")] {
        let set = format!("SET tierra.join_build_rows = {least}");
        twins.tierra.sql(&set).await.unwrap();
        let plan = answer(&twins, &explain).await;
        assert!(plan.contains(expected), "{least}: {plan}");
        answers.push(answer(&twins, join).await);
    }
    assert_eq!(answers[0], "33333|1666683333|555561111");
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_places_are_left_to_datafusion() {
    let twins = Twins::new();
    let create = "CREATE TABLE every (k BIGINT, v BIGINT);
         INSERT INTO every SELECT value, value FROM generate_series(1, 2000);
         CREATE TABLE tenth (k BIGINT, w BIGINT);
         INSERT INTO tenth SELECT value * 10, value FROM generate_series(1, 1000);
         CREATE TABLE probed (k BIGINT, n BIGINT);
         INSERT INTO probed SELECT value * 5, value FROM generate_series(1, 20000)";
    twins.tierra.execute(create).await.unwrap();
    let settings = "SET tierra.join_build_rows = 1; SET tierra.threads = 1";
    twins.tierra.execute(settings).await.unwrap();
    for (table, expected, count) in [
        ("every", "HashJoinExec", "400"),
        ("tenth", "TierraJoinExec", "1000"),
    ] {
        let join = format!("SELECT count(*) FROM probed JOIN {table} b ON probed.k = b.k");
        let plan = answer(&twins, &format!("EXPLAIN {join}")).await;
        assert!(plan.contains(expected), "{table}: {plan}");
        assert_eq!(answer(&twins, &join).await, count);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_executed_here_is_left_to_datafusion() {
    let twins = twins(1_000).await;
    twins.tierra.execute(ALL).await.unwrap();
    for join in [
        // NULL equals NULL; one NULL decides about all rows; doubles; a mark.
        "SELECT * FROM big JOIN small ON big.k IS NOT DISTINCT FROM small.k",
        "SELECT * FROM big WHERE k NOT IN (SELECT k FROM small)",
        "SELECT * FROM big JOIN small ON CAST(v AS DOUBLE) = CAST(w AS DOUBLE)",
        "SELECT * FROM big WHERE k IN (SELECT k FROM small) OR v = 7",
    ] {
        let plan = answer(&twins, &format!("EXPLAIN {join}")).await;
        assert!(plan.contains("HashJoinExec"), "{plan}");
        assert!(!plan.contains("TierraJoinExec"), "{plan}");
        assert!(!answer(&twins, join).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_build_side_beyond_the_memory_of_queries_is_an_error() {
    let _memory = memory().await;
    let twins = twins(100_000).await;
    twins.tierra.execute(ALL).await.unwrap();
    let join = "SELECT count(*) FROM big JOIN small ON big.k = small.k";
    twins
        .tierra
        .sql("SET tierra.query_memory = '1M'")
        .await
        .unwrap();
    let error = twins.tierra.query(join).await.unwrap_err().to_string();
    assert!(error.contains("a join needs"), "{error}");
    assert!(error.contains("SET tierra.query_memory to more"), "{error}");
    // What was taken has been given back.
    twins
        .tierra
        .sql("SET tierra.query_memory = '16M'")
        .await
        .unwrap();
    for _ in 0..5 {
        assert_eq!(answer(&twins, join).await, "33333");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_join_may_be_executed_again_and_a_limit_ends_it() {
    let twins = twins(10_000).await;
    twins.tierra.execute(ALL).await.unwrap();
    let prepare =
        "PREPARE j(BIGINT) AS SELECT count(*) FROM big JOIN small ON big.k = small.k WHERE v > $1";
    twins.tierra.sql(prepare).await.unwrap();
    for (least, count) in [(0, "3333"), (3_000, "2333"), (10_000, "0"), (0, "3333")] {
        assert_eq!(answer(&twins, &format!("EXECUTE j({least})")).await, count);
    }
    for limit in [0, 1, 100, 3_333, 5_000] {
        let sql = format!(
            "SELECT count(*) FROM (SELECT v FROM big JOIN small ON big.k = small.k LIMIT {limit})"
        );
        assert_eq!(answer(&twins, &sql).await, limit.min(3_333).to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_build_side_narrows_the_scan_of_the_probe_side() {
    let twins = twins(200_000).await;
    twins.tierra.execute(ALL).await.unwrap();
    // Keys of the first rows of `big` only: other blocks lie outside their bounds.
    let join = "SELECT count(*) FROM big JOIN (SELECT k FROM small WHERE w < 300) s ON big.k = s.k";
    let plan = answer(&twins, &format!("EXPLAIN ANALYZE {join}")).await;
    assert!(plan.contains("TierraJoinExec"), "{plan}");
    let scan = plan
        .lines()
        .find(|line| line.contains("table=big"))
        .unwrap();
    assert!(scan.contains("has_match"), "{scan}");
    // From the first to the last of its keys.
    assert!(scan.contains("output_rows=895,"), "{scan}");
    assert_eq!(answer(&twins, join).await, "299");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_sides_are_shared_where_that_costs_less_and_begin_when_their_filters_are_known() {
    let _memory = memory().await;
    let twins = Twins::new();
    // The middle table is too large for DataFusion to share it, and its keys are too sparse for an array.
    let create = "CREATE TABLE middle (k BIGINT, p BIGINT);
         INSERT INTO middle SELECT value * 1000, value / 100 FROM generate_series(0, 199999);
         CREATE TABLE large (k BIGINT, v BIGINT);
         INSERT INTO large SELECT value % 250000 * 1000, value FROM generate_series(0, 499999);
         CREATE TABLE few (p BIGINT, name VARCHAR);
         INSERT INTO few VALUES (7, 'x'), (1000, 'x'), (3, 'y')";
    twins.tierra.execute(create).await.unwrap();
    let join = "SELECT count(*), sum(v) FROM large JOIN middle ON large.k = middle.k";
    for (setting, mode) in [
        ("SET tierra.threads = 2", "mode=CollectLeft"),
        ("SET tierra.query_memory = '64M'", "mode=Partitioned"),
        ("RESET tierra.query_memory", "mode=CollectLeft"),
        // Fewer rows of the probe side for each thread that would wait.
        ("SET tierra.threads = 3", "mode=Partitioned"),
        ("RESET tierra.threads", "mode=CollectLeft"),
    ] {
        twins.tierra.sql(setting).await.unwrap();
        let plan = answer(&twins, &format!("EXPLAIN {join}")).await;
        assert!(plan.contains(mode), "{setting}: {plan}");
        assert_eq!(
            answer(&twins, join).await,
            "400000|89999800000",
            "{setting}"
        );
    }

    let join = "SELECT count(*), min(v) FROM large JOIN middle ON large.k = middle.k
        JOIN few ON middle.p = few.p WHERE few.name = 'x'";
    for _ in 0..20 {
        let plan = answer(&twins, &format!("EXPLAIN ANALYZE {join}")).await;
        assert!(plan.contains("TierraDeferredExec"), "{plan}");
        let scan = plan.lines().find(|line| line.contains("table=middle,"));
        assert!(scan.unwrap().contains("output_rows=200,"), "{plan}");
        assert_eq!(answer(&twins, join).await, "400|700");
    }
}
