//! Tables that a program registers are read where they lie, by one session, and hide nothing that is there.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use tierra_sql::Session;

use crate::twins::Twins;

fn numbers(from: i64, to: i64) -> RecordBatch {
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    RecordBatch::try_from_iter([("n", n)]).unwrap()
}

async fn number(session: &Session, sql: &str) -> i64 {
    let batches = session.query(sql).await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_session_reads_them() {
    let twins = Twins::new();
    let session = &twins.tierra;
    let (a, b) = (numbers(0, 20_000), numbers(20_000, 20_010));
    session
        .register("Frame", a.schema(), &[a.clone(), b])
        .unwrap();
    assert_eq!(
        number(session, "SELECT sum(n) FROM frame").await,
        20_009 * 20_010 / 2
    );
    let batches = session.query("SELECT n FROM Frame").await.unwrap();
    let found = batches.iter().flat_map(|batch| {
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    });
    // Several threads read them, so without ORDER BY they come in any order.
    let mut found: Vec<i64> = found.collect();
    found.sort_unstable();
    assert!(found.into_iter().eq(0..20_010));
    session
        .sql("CREATE TABLE t AS SELECT n, n * 2 AS m FROM frame")
        .await
        .unwrap();
    assert_eq!(
        number(session, "SELECT count(*) FROM t JOIN frame USING (n)").await,
        20_010
    );
    let other = Session::new(session.database().clone(), &Default::default()).unwrap();
    other.query("SELECT * FROM frame").await.unwrap_err();
    let listed = "SELECT count(*) FROM information_schema.tables WHERE table_name = 'frame'";
    assert_eq!(number(session, listed).await, 1);
    assert_eq!(number(&other, listed).await, 0);
    session.register("frame", a.schema(), &[]).unwrap();
    assert_eq!(number(session, "SELECT count(*) FROM frame").await, 0);
    assert!(session.unregister("FRAME") && !session.unregister("frame"));
    session.query("SELECT * FROM frame").await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_have_the_form_of_stored_values_and_cannot_be_written() {
    let twins = Twins::new();
    let session = &twins.tierra;
    let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
    let at: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_999, -1]));
    let batch = RecordBatch::try_from_iter([("z", zeros), ("at", at)]).unwrap();
    session.register("r", batch.schema(), &[batch]).unwrap();
    assert_eq!(number(session, "SELECT count(DISTINCT z) FROM r").await, 1);
    let found = session.query("SELECT at FROM r").await.unwrap();
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    assert_eq!(found[0].column(0).data_type(), &micros);
    let written = session
        .sql("INSERT INTO r SELECT * FROM r")
        .await
        .unwrap_err();
    assert!(
        written.to_string().contains("cannot be written"),
        "{written}"
    );
    session.sql("CREATE TABLE there (n BIGINT)").await.unwrap();
    let taken = session
        .register("there", numbers(0, 1).schema(), &[])
        .unwrap_err();
    assert!(taken.to_string().contains("has a table 'there'"), "{taken}");
    session
        .register("tierra_x", numbers(0, 1).schema(), &[])
        .unwrap_err();
    let text: ArrayRef = Arc::new(arrow::array::StringArray::from(vec!["x"]));
    let text = RecordBatch::try_from_iter([("n", text)]).unwrap();
    session
        .register("mixed", numbers(0, 1).schema(), &[text])
        .unwrap_err();
}
