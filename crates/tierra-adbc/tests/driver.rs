//! What the driver promises to whoever calls it from Rust: an end in any order, and no panic. `driver.py` has what a driver manager sees.

use std::sync::Arc;

use adbc_core::error::Status;
use adbc_core::options::{OptionDatabase, OptionStatement, OptionValue};
use adbc_core::{Connection, Database, Driver, Optionable, Statement};
use arrow::array::{AsArray, Int64Array, RecordBatch, RecordBatchReader};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use tempfile::TempDir;
use tierra_adbc::{TierraConnection, TierraDatabase, TierraDriver};

fn open(dir: &TempDir) -> TierraDatabase {
    let path = dir.path().join("db").display().to_string();
    let options = [(OptionDatabase::from("path"), OptionValue::from(path))];
    TierraDriver.new_database_with_opts(options).unwrap()
}

fn run(connection: &mut TierraConnection, sql: &str) -> Option<i64> {
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query(sql).unwrap();
    statement.execute_update().unwrap()
}

fn rows(reader: impl RecordBatchReader) -> usize {
    reader.map(|batch| batch.unwrap().num_rows()).sum()
}

/// Rows of one column, of which reading panics.
struct Bad(SchemaRef);

impl Iterator for Bad {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        panic!("no rows today");
    }
}

impl RecordBatchReader for Bad {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.0)
    }
}

fn numbers() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

#[test]
fn rows_outlive_what_they_came_from() {
    let dir = TempDir::new().unwrap();
    let database = open(&dir);
    let mut connection = database.new_connection().unwrap();
    run(&mut connection, "CREATE TABLE t (n BIGINT)");
    let inserted = run(
        &mut connection,
        "INSERT INTO t SELECT value FROM generate_series(1, 300000)",
    );
    assert_eq!(inserted, Some(300_000));
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT n FROM t").unwrap();
    let reader = statement.execute().unwrap();
    drop(database);
    drop(connection);
    drop(statement);
    assert_eq!(rows(reader), 300_000);
    // The last of them closed the database, which can be opened in any other way now.
    let path = dir.path().join("db");
    let other = tierra::Database::open(path).unwrap();
    assert_eq!(other.sql("SELECT * FROM t").unwrap().row_count(), 300_000);
}

#[test]
fn a_panic_of_a_producer_is_an_error_of_the_call() {
    let dir = TempDir::new().unwrap();
    let database = open(&dir);
    let mut connection = database.new_connection().unwrap();
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query("SELECT ?").unwrap();
    statement.bind_stream(Box::new(Bad(numbers()))).unwrap();
    let error = statement.execute().err().unwrap();
    assert_eq!(error.status, Status::InvalidData);
    assert!(error.message.contains("no rows today"), "{error}");

    let table = (OptionStatement::TargetTable, OptionValue::from("t"));
    statement.set_option(table.0, table.1).unwrap();
    statement.bind_stream(Box::new(Bad(numbers()))).unwrap();
    statement.execute_update().unwrap_err();
    let missing = connection.get_table_schema(None, None, "t").unwrap_err();
    assert_eq!(missing.status, Status::NotFound);
    // The driver goes on.
    let batch = RecordBatch::try_new(numbers(), vec![Arc::new(Int64Array::from(vec![7]))]);
    statement.bind(batch.unwrap()).unwrap();
    assert_eq!(statement.execute_update().unwrap(), Some(1));
    statement.set_sql_query("SELECT n FROM t").unwrap();
    let answer = statement.execute().unwrap().next().unwrap().unwrap();
    assert_eq!(answer.column(0).as_primitive::<Int64Type>().value(0), 7);
}

#[test]
fn a_zero_in_a_name_or_in_a_message_reaches_no_c_string() {
    let dir = TempDir::new().unwrap();
    let database = open(&dir);
    let mut connection = database.new_connection().unwrap();
    let mut statement = connection.new_statement().unwrap();
    for sql in ["SELECT 1 AS \"a\0b\"", "SELECT * FROM \"a\0b\""] {
        statement.set_sql_query(sql).unwrap();
        let error = statement.execute().err().unwrap();
        assert!(!error.message.contains('\0'), "{error:?}");
    }
    statement.set_sql_query("SELECT 1 AS \"a\0b\"").unwrap();
    statement.execute_schema().unwrap_err();
}
