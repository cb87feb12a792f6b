//! Lists bound as one array find the rows that the same list written out does, whatever is in it, and are
//! looked up like one.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Datum, Int32Array, Int64Array, RecordBatch, Scalar, StringArray, StringViewArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use tierra_sql::{Outcome, Session, Work};

use crate::random::{Random, seed};
use crate::twins::{Twins, rows};

const ROWS: usize = 30_000;
/// Distinct values of the columns.
const VALUES: u64 = 500;

/// `facts (k, v, s)`: k counts, v is one of 500 integers or NULL, indexed, s the same as text.
fn facts(random: &mut Random) -> (Twins, Vec<Option<i32>>) {
    let twins = Twins::new();
    let values: Vec<Option<i32>> = (0..ROWS)
        .map(|_| (random.below(10) > 0).then(|| random.below(VALUES) as i32 * 3))
        .collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Int32, true),
        Field::new("s", DataType::Utf8View, true),
    ]));
    let texts = values
        .iter()
        .map(|value| value.map(|value| format!("v{value}")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..ROWS as i64)),
        Arc::new(Int32Array::from(values.clone())),
        Arc::new(texts.collect::<StringViewArray>()),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    futures::executor::block_on(twins.tierra.execute(
        "CREATE TABLE facts (k BIGINT, v INTEGER, s VARCHAR) WITH ('v.index' = 'inverted')",
    ))
    .unwrap();
    twins.add("facts", &schema, &[batch]);
    let database = twins.tierra.database();
    database.table("facts").unwrap().seal().unwrap();
    database.wait_for_near_copies().unwrap();
    (twins, values)
}

async fn bound(session: &Session, name: &str, arguments: &[&dyn Datum]) -> (Vec<String>, Work) {
    let outcome = session.run_prepared(name, arguments).await;
    let Outcome::Rows(mut result) = outcome.unwrap_or_else(|error| panic!("{name}: {error}"))
    else {
        panic!("a query yields rows")
    };
    let batches = result.collect().await.unwrap();
    (rows(&batches), result.work())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_list_finds_what_sql_says() {
    let mut random = Random(seed());
    let (twins, values) = facts(&mut random);
    let session = &twins.tierra;
    for (name, condition) in [
        ("any_v", "v = ANY($1)"),
        ("all_v", "v <> ALL($1)"),
        ("any_s", "s = ANY($1)"),
        ("some_v", "k >= $2 AND (v = SOME($1) OR k < $2)"),
    ] {
        let prepare = format!("PREPARE {name} AS SELECT count(*) FROM facts WHERE {condition}");
        session.sql(&prepare).await.unwrap();
    }
    let planned = session.statements_planned();
    for length in [0, 1, 2, 63, 64, 65, 2000] {
        for has_null in [false, true] {
            let mut list: Vec<Option<i32>> = (0..length)
                .map(|_| Some(random.below(3 * VALUES + 10) as i32))
                .collect();
            if has_null {
                list.push(None);
            }
            let is_in = |value: &i32| list.contains(&Some(*value));
            let known = || values.iter().flatten();
            let found = known().filter(|value| is_in(value)).count();
            let not_in = match (length + usize::from(has_null), has_null) {
                (0, _) => ROWS,
                (_, true) => 0,
                _ => known().count() - found,
            };
            let from = random.below(ROWS as u64) as i64;
            let later = values[from as usize..].iter().flatten();
            let later = later.filter(|value| is_in(value)).count();

            let integers: ArrayRef = Arc::new(Int32Array::from(list.clone()));
            let wide: ArrayRef = Arc::new(Int64Array::from_iter(
                list.iter().map(|value| value.map(i64::from)),
            ));
            let texts: ArrayRef = Arc::new(StringArray::from_iter(
                list.iter()
                    .map(|value| value.map(|value| format!("v{value}"))),
            ));
            let from_value = Int64Array::new_scalar(from);
            let written = |quote: &str| {
                let items = list.iter().map(|value| match value {
                    Some(value) => format!("{quote}{value}{}", quote.trim_end_matches('v')),
                    None => "NULL".to_string(),
                });
                items.collect::<Vec<_>>().join(", ")
            };
            let what = format!("{length} values, NULL {has_null}");
            let expect = |name: &str, counted: Vec<String>, expected: usize| {
                assert_eq!(counted, [expected.to_string()], "{name}: {what}");
            };
            for (name, array, quote, expected) in [
                ("any_v", &integers, "", found),
                ("any_v", &wide, "", found),
                ("all_v", &integers, "", not_in),
                ("any_s", &texts, "'v", found),
            ] {
                expect(name, bound(session, name, &[array]).await.0, expected);
                let sql = format!("EXECUTE {name}(ARRAY[{}])", written(quote));
                expect(&sql, rows(&session.query(&sql).await.unwrap()), expected);
            }
            expect(
                "some_v",
                bound(session, "some_v", &[&wide, &from_value]).await.0,
                later,
            );
            for (condition, expected) in [("v = ANY(", found), ("v <> ALL(", not_in)] {
                let sql = format!(
                    "SELECT count(*) FROM facts WHERE {condition}ARRAY[{}])",
                    written("")
                );
                expect(&sql, rows(&session.query(&sql).await.unwrap()), expected);
            }
        }
    }
    assert!(
        session.statements_planned() > planned,
        "EXECUTE is planned by DataFusion"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_list_is_looked_up_in_the_dictionary_and_the_index() {
    let mut random = Random(seed());
    let (twins, values) = facts(&mut random);
    let session = &twins.tierra;
    let prepare = "PREPARE few AS SELECT k FROM facts WHERE v = ANY($1)";
    session.sql(prepare).await.unwrap();
    // 1 is no value of the column: it is between those of every block.
    let list = Int64Array::from(vec![1, 4]);
    let (found, work) = bound(session, "few", &[&list]).await;
    assert!(found.is_empty());
    assert_eq!((work.blocks_read, work.blocks_decoded), (0, 0), "{work:?}");
    let list = Int64Array::from(vec![3, 3, 1]);
    let (found, _) = bound(session, "few", &[&list]).await;
    let expected = values.iter().filter(|value| **value == Some(3)).count();
    assert_eq!(found.len(), expected);
    // Far more values than the dictionary has.
    let list = Int64Array::from_iter_values(0..1_000_000);
    let (found, _) = bound(session, "few", &[&list]).await;
    assert_eq!(found.len(), values.iter().flatten().count());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_bound_alike_and_never_planned_again() {
    let twins = Twins::new();
    let session = &twins.tierra;
    let setup = "CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER); \
                 INSERT INTO t SELECT value AS id, CAST(value AS INTEGER) AS n FROM generate_series(1, 1000) AS x(value); \
                 PREPARE one AS SELECT n FROM t WHERE id = $1; \
                 PREPARE many AS SELECT n FROM t WHERE id = ANY($1)";
    session.execute(setup).await.unwrap();
    let planned = session.statements_planned();
    let id = Scalar::new(Int32Array::from(vec![7]));
    assert_eq!(bound(session, "one", &[&id]).await.0, ["7"]);
    let ids = Int64Array::from_iter((0..=1000).rev().map(|id| (id != 500).then_some(id)));
    assert_eq!(bound(session, "many", &[&ids]).await.0.len(), 999);
    let written: Vec<String> = (0..=1000).map(|id| id.to_string()).collect();
    let sql = format!("EXECUTE many(ARRAY[{}, NULL])", written.join(", "));
    assert_eq!(rows(&session.query(&sql).await.unwrap()).len(), 1000);
    assert_eq!(session.statements_planned(), planned);
    let refused = |result: Result<Outcome, tierra_sql::SqlError>| result.err().unwrap().to_string();
    assert_eq!(
        refused(session.run_prepared("one", &[&ids]).await),
        "prepared statement 'one': argument $1 is a list of 1001 values, expected BIGINT"
    );
    let texts = StringArray::from(vec!["x"]);
    assert_eq!(
        refused(session.run_prepared("many", &[&texts]).await),
        "prepared statement 'many': argument $1 is a list with x, expected BIGINT"
    );
    let none = refused(session.run_prepared("none", &[&id]).await);
    assert!(none.contains("no prepared statement 'none'"), "{none}");
}
