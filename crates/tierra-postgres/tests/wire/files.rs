//! A server that was not told otherwise lets nobody name its files.

use tierra_sql::SessionOptions;

use crate::server::{TestServer, open_to_all};
use tierra_postgres::Options;

#[test]
fn files_of_the_server_are_refused() {
    let options = open_to_all();
    let server = TestServer::with(Options {
        session: SessionOptions {
            refuses_files: true,
            ..options.session
        },
        ..options
    });
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT)");
    let dir = server.scratch.path().display();
    let read = server.scratch.path().join("read.csv");
    std::fs::write(&read, "n\n1\n").unwrap();
    for sql in [
        format!("COPY t TO '{dir}/a.csv'"),
        format!("COPY t TO '{dir}/a.parquet'"),
        format!("COPY (SELECT 1) TO '{dir}/a.parquet' STORED AS PARQUET"),
        format!("EXPLAIN ANALYZE COPY t TO '{dir}/a.parquet'"),
        format!("COPY t FROM '{dir}/read.csv'"),
        format!("SELECT * FROM '{dir}/read.csv'"),
        format!("INSERT INTO t SELECT * FROM '{dir}/read.csv'"),
        format!("CREATE TABLE u AS SELECT * FROM '{dir}/read.csv'"),
        format!("INSERT INTO '{dir}/read.csv' VALUES (2)"),
        format!("CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '{dir}/read.csv'"),
        format!("CREATE TIER b AT '{dir}/b.pool'"),
        format!("SET datafusion.runtime.temp_directory = '{dir}'"),
        "SELECT * FROM '/etc'".to_owned(),
    ] {
        client.code(&sql);
    }
    // Nobody learns which files there are.
    let [there, not_there] = ["read.csv", "nosuch.csv"].map(|name| {
        let messages = client.query(&format!("SELECT * FROM '{dir}/{name}'"));
        let message = crate::client::field(&messages[0].1, b'M');
        message.replace(name, "")
    });
    assert_eq!(there, not_there);
    let mut files: Vec<_> = std::fs::read_dir(server.scratch.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["db", "read.csv"]);
    assert_eq!(std::fs::read_to_string(&read).unwrap(), "n\n1\n");
}

#[test]
fn a_server_that_allows_files_reads_and_writes_them() {
    let server = TestServer::start();
    let mut client = server.connect();
    let dir = server.scratch.path().display();
    client.rows(&format!("COPY (SELECT 7 AS n) TO '{dir}/a.csv'"));
    assert_eq!(
        client.rows(&format!("SELECT n FROM '{dir}/a.csv'")),
        [["7"]]
    );
}
