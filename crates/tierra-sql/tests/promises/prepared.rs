//! A prepared statement tells the types of its parameters and rows before it runs, and they are those that it has then.

use arrow::array::{
    ArrayRef, AsArray, Datum, Decimal128Array, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Int64Type};
use futures::StreamExt;
use tierra_sql::{Outcome, Prepared, Session};

use crate::twins::Twins;

async fn scratch() -> Twins {
    let twins = Twins::new();
    let sql = "CREATE TABLE t (id BIGINT PRIMARY KEY, n INTEGER, d DECIMAL(9, 2), s VARCHAR, at TIMESTAMP, day DATE);
               INSERT INTO t VALUES (1, 10, 1.25, 'one', TIMESTAMP '2026-01-01 00:00:00', DATE '2026-01-01'),
                                    (2, NULL, NULL, NULL, NULL, NULL)";
    twins.tierra.execute(sql).await.unwrap();
    twins
}

async fn run(session: &Session, prepared: &Prepared, arguments: &[&dyn Datum]) -> Vec<ArrayRef> {
    match prepared.run(session, arguments).await.unwrap() {
        Outcome::Rows(mut rows) => {
            let mut columns = Vec::new();
            while let Some(batch) = rows.next().await {
                columns.extend(batch.unwrap().columns().to_vec());
            }
            columns
        }
        Outcome::Done(_) => Vec::new(),
    }
}

/// The types of the rows are those that were foretold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_schema_foretold_is_the_schema_found() {
    let twins = scratch().await;
    let session = &twins.tierra;
    let null = Int64Array::new_null(1);
    let nulls = arrow::array::Scalar::new(&null);
    for (sql, parameters) in [
        ("SELECT * FROM t WHERE id = $1", 1),
        ("SELECT s AS x, id FROM t WHERE id = ANY(ARRAY[1, 2])", 0),
        ("SELECT count(*), sum(n), avg(d), sum(d), max(at) FROM t", 0),
        ("SELECT d * 2, n + $1, n / 3, 1.5, 'x', NULL FROM t", 1),
        ("SELECT id, id, 1, 1 FROM t WHERE n = ?", 1),
        ("VALUES (1, 'a'), (2, 'b')", 0),
        ("SELECT CASE WHEN id > $1 THEN d ELSE n END FROM t", 1),
        (
            "WITH w AS (SELECT day FROM t) SELECT day + INTERVAL '1 day' FROM w",
            0,
        ),
        ("SELECT d + d, d * d, d / d, -n, abs(n), n % 2 FROM t", 0),
        ("SELECT at - at, day - day FROM t", 0),
        ("SHOW tierra.threads", 0),
        ("DESCRIBE t", 0),
        ("EXPLAIN SELECT 1", 0),
    ] {
        let prepared = session
            .prepare(sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(prepared.parameters().len(), parameters, "{sql}");
        let foretold = prepared.schema().unwrap().clone();
        let arguments: Vec<&dyn Datum> = (0..parameters).map(|_| &nulls as &dyn Datum).collect();
        let Outcome::Rows(rows) = prepared.run(session, &arguments).await.unwrap() else {
            panic!("{sql}")
        };
        let fields = |schema: &arrow::datatypes::Schema| -> Vec<(String, DataType)> {
            let fields = schema.fields().iter();
            fields
                .map(|field| (field.name().clone(), field.data_type().clone()))
                .collect()
        };
        assert_eq!(fields(&foretold), fields(rows.schema()), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_have_the_types_of_what_they_are_compared_with() {
    let twins = scratch().await;
    let session = &twins.tierra;
    let types = async |sql: &str| session.prepare(sql).await.unwrap().parameters().to_vec();
    assert_eq!(
        types("SELECT * FROM t WHERE id = ?").await,
        [DataType::Int64]
    );
    let list = DataType::new_list(DataType::Int64, true);
    assert_eq!(types("SELECT n FROM t WHERE id = ANY($1)").await, [list]);
    let both = types("SELECT n FROM t WHERE d < $1 AND day = $2").await;
    assert_eq!(both, [DataType::Decimal128(9, 2), DataType::Date32]);
    assert_eq!(types("SELECT $1").await, [DataType::Null]);
    let declared = session.prepare_typed("SELECT $1, n + $2 FROM t", &[Some(DataType::Utf8)]);
    let declared = declared.await.unwrap();
    assert_eq!(declared.parameters(), [DataType::Utf8, DataType::Int32]);
    assert_eq!(
        declared.schema().unwrap().field(0).data_type(),
        &DataType::Utf8
    );
    assert_eq!(types("INSERT INTO t (id, s) VALUES (?, ?)").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_runs_again_and_again_and_a_point_query_plans_nothing() {
    let twins = scratch().await;
    let session = &twins.tierra;
    let insert = session
        .prepare("INSERT INTO t (id, s) VALUES (?, ?)")
        .await
        .unwrap();
    assert!(insert.schema().is_none());
    for id in 3..6 {
        let text = StringArray::new_scalar(format!("number {id}"));
        run(session, &insert, &[&Int64Array::new_scalar(id), &text]).await;
    }
    let point = session
        .prepare("SELECT s FROM t WHERE id = ?")
        .await
        .unwrap();
    let planned = session.statements_planned();
    for id in 3..6 {
        let columns = run(session, &point, &[&Int64Array::new_scalar(id)]).await;
        assert_eq!(columns[0].as_string_view().value(0), format!("number {id}"));
    }
    assert_eq!(session.statements_planned(), planned);
    let many = session
        .prepare("SELECT count(*) FROM t WHERE id = ANY(?)")
        .await
        .unwrap();
    let columns = run(session, &many, &[&Int64Array::from(vec![1, 4, 99])]).await;
    assert_eq!(columns[0].as_primitive::<Int64Type>().value(0), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_right_is_an_error() {
    let twins = scratch().await;
    let session = &twins.tierra;
    let refused = async |sql: &str| session.prepare(sql).await.unwrap_err().to_string();
    assert!(refused("SELECT 1; SELECT 2").await.contains("found 2"));
    assert!(refused("").await.contains("found 0"));
    assert!(
        refused("CREATE TABLE u AS SELECT $1")
            .await
            .contains("no parameters")
    );
    assert!(refused("SELECT ?, $1").await.contains("not both"));
    assert!(refused("SELECT * FROM tt").await.contains("'tt' not found"));
    let one = session
        .prepare("SELECT n FROM t WHERE id = $1")
        .await
        .unwrap();
    let few = one.run(session, &[]).await.unwrap_err().to_string();
    assert!(few.contains("takes 1 argument(s), not 0"), "{few}");
    let other = Session::new(session.database().clone(), &Default::default()).unwrap();
    let foreign = one.run(&other, &[&Int64Array::new_scalar(1)]).await;
    assert!(foreign.unwrap_err().to_string().contains("another session"));
    let plan = session.prepare("SELECT sum(n) FROM t").await.unwrap();
    session
        .execute("DROP TABLE t; CREATE TABLE t (n VARCHAR)")
        .await
        .unwrap();
    for (prepared, arguments) in [(&plan, 0), (&one, 1)] {
        let key = Int64Array::new_scalar(1);
        let arguments: Vec<&dyn Datum> = (0..arguments).map(|_| &key as &dyn Datum).collect();
        let gone = prepared
            .run(session, &arguments)
            .await
            .unwrap_err()
            .to_string();
        assert!(gone.contains("dropped"), "{gone}");
    }
}

/// A value that a program binds is compared as it is, by key and by plan alike, and assigned where it is stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_compared_keeps_its_value() {
    let twins = scratch().await;
    let session = &twins.tierra;
    session
        .execute("UPDATE t SET n = 20, d = 1.51, day = DATE '2026-01-02' WHERE id = 2")
        .await
        .unwrap();
    let double = Float64Array::new_scalar(1.7);
    let wide = Int64Array::new_scalar(3_000_000_000);
    let mills = Decimal128Array::from(vec![1_505])
        .with_precision_and_scale(4, 3)
        .unwrap();
    let mills = arrow::array::Scalar::new(mills);
    let noon = TimestampMicrosecondArray::new_scalar(1_767_268_800_000_000);
    let doubles = Float64Array::from(vec![1.7, 2.0]);
    for (condition, argument, expected) in [
        ("id = ?", &double as &dyn Datum, &[][..]),
        ("id > ?", &double, &[2]),
        ("id + 0 = ?", &double, &[]),
        ("n < ?", &wide, &[1, 2]),
        ("n = ?", &wide, &[]),
        ("d < ?", &mills, &[1]),
        ("d = ?", &mills, &[]),
        ("day < ?", &noon, &[1]),
        ("day <= ?", &noon, &[1]),
        ("id = ANY(?)", &doubles, &[2]),
        ("n > 0 AND id = ANY(?)", &doubles, &[2]),
        ("id IN (SELECT id FROM t WHERE id < ?)", &double, &[1]),
        ("id * ? > 3", &double, &[2]),
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition}");
        let prepared = session.prepare(&sql).await.unwrap();
        let found = run(session, &prepared, &[argument]).await;
        let mut found: Vec<i64> = found
            .iter()
            .flat_map(|ids| ids.as_primitive::<Int64Type>().values().to_vec())
            .collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{condition}");
    }
    let delete = session.prepare("DELETE FROM t WHERE id = ?").await.unwrap();
    run(session, &delete, &[&double]).await;
    let update = session
        .prepare("UPDATE t SET n = ? WHERE id = 2")
        .await
        .unwrap();
    run(session, &update, &[&double]).await;
    let left = session
        .query("SELECT id, n FROM t ORDER BY id")
        .await
        .unwrap();
    assert_eq!(crate::twins::rows(&left), ["1|10", "2|2"]);
}
