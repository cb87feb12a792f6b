//! A panic in any task that plans or executes a statement is an error of that statement.

use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use tierra_engine::{Database, DatabaseOptions};

use super::{Session, SessionOptions};

/// `panics()`: it panics for each row, or in the planner if that folds it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Panics {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Panics {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        panic!("{} it does", self.name)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_fails_its_statement_alone() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::create(&dir.path().join("db"), &DatabaseOptions::default()).unwrap();
    let session = Session::new(database, &SessionOptions::default()).unwrap();
    for (name, volatility) in [
        ("folds", Volatility::Immutable),
        ("runs", Volatility::Volatile),
    ] {
        let signature = Signature::any(1, volatility);
        session
            .context
            .register_udf(Panics { name, signature }.into());
    }
    session
        .execute("CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
        .await
        .unwrap();
    let prepare = "PREPARE p AS SELECT id FROM t WHERE id > $1 + folds(1)";
    session.execute(prepare).await.unwrap();
    for (sql, said) in [
        ("SELECT folds(1)", "folds it does"),
        ("SELECT id FROM t WHERE folds(1) = id", "folds it does"),
        ("EXECUTE p(1)", "folds it does"),
        ("SELECT runs(id) FROM t", "runs it does"),
        ("SELECT max(runs(id)) FROM t GROUP BY id", "runs it does"),
        (
            "SELECT a.id FROM t a JOIN t b ON runs(a.id) = b.id",
            "runs it does",
        ),
        ("INSERT INTO t SELECT runs(id) FROM t", "runs it does"),
        (
            "CREATE TABLE u AS SELECT runs(id) AS id FROM t",
            "runs it does",
        ),
        ("EXPLAIN ANALYZE SELECT runs(id) FROM t", "runs it does"),
    ] {
        let error = session.query(sql).await.unwrap_err();
        // If several partitions share a task's panic, only its text arrives.
        let text = error.to_string();
        assert!(
            text.contains(said) && (text.contains("defect") || text.contains("panicked")),
            "{sql}: {error}"
        );
        let rows = session.query("SELECT count(*) AS n FROM t").await.unwrap();
        assert_eq!(
            format!("{:?}", rows[0].column(0)),
            "PrimitiveArray<Int64>\n[\n  2,\n]",
            "{sql}"
        );
    }
    // An error or an answer, depending on the planner.
    let _ = session
        .execute("PREPARE v AS SELECT DISTINCT ON ($1) id FROM t")
        .await;
    session.execute("INSERT INTO t VALUES (3)").await.unwrap();
    assert!(session.query("SELECT * FROM u").await.is_err());
}
