//! A full disk is told as PostgreSQL tells it; what was committed stays, and the server goes on.

use tierra_engine::DatabaseOptions;

use crate::client::code_of;
use crate::server::{TestServer, open_to_all};

#[test]
fn what_finds_no_room_is_53100_and_undone() {
    let database = DatabaseOptions {
        capacity_bytes: Some(64 << 20),
        ..DatabaseOptions::default()
    };
    let server = TestServer::of(open_to_all(), &database);
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY, x DOUBLE PRECISION)");
    let mut rows = 0;
    // Numbers without a pattern: eight bytes each.
    let refused = loop {
        let sql = format!(
            "INSERT INTO t SELECT value, sin(value) FROM generate_series({}, {}) AS s(value)",
            rows + 1,
            rows + 500_000
        );
        let messages = client.query(&sql);
        match code_of(&messages) {
            None => rows += 500_000,
            Some(code) => break code,
        }
        assert!(rows < 64 << 20, "more than fits");
    };
    assert_eq!(refused, "53100");
    let count = [[rows.to_string()]];
    assert_eq!(client.rows("SELECT count(*) FROM t"), count);
    assert_eq!(server.connect().rows("SELECT max(id) FROM t"), count);

    client.rows("DROP TABLE t");
    client.rows("CREATE TABLE u (id BIGINT PRIMARY KEY)");
    client.rows("INSERT INTO u VALUES (7)");
    assert_eq!(client.rows("SELECT id FROM u"), [["7"]]);
}
