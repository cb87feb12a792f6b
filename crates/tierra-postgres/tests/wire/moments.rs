//! A moment or an interval that a client declares is one where it is reckoned with.

use crate::client::{bind, code_of, describe, execute, parse, rows_of};
use crate::server::TestServer;

const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const INTERVAL: u32 = 1186;

#[test]
fn a_declared_moment_is_no_interval() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE m (id BIGINT PRIMARY KEY, ts TIMESTAMP, dt DATE)");
    client.rows(
        "INSERT INTO m VALUES (1, TIMESTAMP '2024-01-01 12:00:00', DATE '2024-01-01'),
         (2, TIMESTAMP '2024-01-03 12:00:00', DATE '2024-01-03')",
    );
    for (sql, ty, argument, expected) in [
        (
            "SELECT id FROM m WHERE ts > $1 - INTERVAL '1 day'",
            TIMESTAMP,
            "2024-01-03 00:00:00",
            "2",
        ),
        (
            "SELECT id FROM m WHERE ts > $1 - INTERVAL '1 day'",
            TIMESTAMPTZ,
            "2024-01-03 00:00:00+00",
            "2",
        ),
        (
            "SELECT id FROM m WHERE ts > $1 - INTERVAL '1 day'",
            DATE,
            "2024-01-03",
            "2",
        ),
        (
            "SELECT id FROM m WHERE dt > $1 - INTERVAL '1 day'",
            DATE,
            "2024-01-03",
            "2",
        ),
        (
            "SELECT id FROM m WHERE dt > $1 - INTERVAL '1 day'",
            TIMESTAMP,
            "2024-01-03 00:00:00",
            "2",
        ),
        (
            "SELECT id FROM m WHERE ts + INTERVAL '1 day' < $1",
            TIMESTAMP,
            "2024-01-03 00:00:00",
            "1",
        ),
        (
            "SELECT id FROM m WHERE ts < INTERVAL '1 day' + $1",
            TIMESTAMP,
            "2024-01-01 00:00:00",
            "1",
        ),
        (
            "SELECT ts - $1 FROM m WHERE id = 1",
            TIMESTAMP,
            "2023-12-31 00:00:00",
            "1 day 12:00:00",
        ),
        (
            "SELECT $1 + INTERVAL '1 day'",
            DATE,
            "2024-02-28",
            "2024-02-29",
        ),
        (
            "SELECT $1 + INTERVAL '1 day'",
            TIMESTAMP,
            "2024-02-28 01:00:00",
            "2024-02-29 01:00:00",
        ),
        (
            "SELECT $1 - INTERVAL '1 day'",
            TIMESTAMPTZ,
            "2024-03-01 01:00:00+01",
            "2024-02-29 00:00:00+00",
        ),
        (
            "SELECT id FROM m WHERE ts = $1",
            TIMESTAMP,
            "2024-01-03 12:00:00",
            "2",
        ),
        (
            "SELECT ts - $1 FROM m WHERE id = 1",
            INTERVAL,
            "1 day, 2:00:00",
            "2023-12-31 10:00:00",
        ),
        (
            "SELECT id FROM m WHERE ts > TIMESTAMP '2024-01-01' + $1",
            INTERVAL,
            "1 mon -29 days",
            "2",
        ),
        ("SELECT $1 * 2", INTERVAL, "12:00", "24:00:00"),
        (
            "SELECT id FROM m WHERE ts - TIMESTAMP '2024-01-01' > $1",
            INTERVAL,
            "2 days 11:59:59.5",
            "2",
        ),
    ] {
        let messages = client.run(&[
            parse("", sql, &[ty]),
            describe(b'S', ""),
            bind("", "", 0, &[Some(argument.as_bytes())], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages), None, "{sql} {ty}: {messages:?}");
        assert_eq!(messages[1].1[2..], ty.to_be_bytes(), "{sql} {ty}");
        assert_eq!(rows_of(&messages), [[expected]], "{sql} {ty}");
    }
}
