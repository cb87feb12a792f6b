//! Values: every type as text and binary.

use crate::client::{bind, code_of, execute, parse, values};
use crate::server::TestServer;

#[test]
fn every_type_arrives_as_text_and_binary() {
    let server = TestServer::start();
    let mut client = server.connect();
    let most = "99999999999999999999999999999999999999";
    let days = |days: i32| days.to_be_bytes().to_vec();
    for (sql, text, binary) in [
        ("TRUE", "t", vec![1]),
        ("CAST(-7 AS INTEGER)", "-7", (-7_i32).to_be_bytes().to_vec()),
        (
            "CAST(9223372036854775807 AS BIGINT)",
            "9223372036854775807",
            i64::MAX.to_be_bytes().to_vec(),
        ),
        ("CAST(0.1 AS DOUBLE)", "0.1", 0.1_f64.to_be_bytes().to_vec()),
        (
            "CAST('NaN' AS DOUBLE)",
            "NaN",
            f64::NAN.to_be_bytes().to_vec(),
        ),
        (
            "CAST(1e300 AS DOUBLE)",
            "1e+300",
            1e300_f64.to_be_bytes().to_vec(),
        ),
        (
            "CAST('-123.45' AS DECIMAL(9, 2))",
            "-123.45",
            vec![0, 2, 0, 0, 0x40, 0, 0, 2, 0, 123, 0x11, 0x94],
        ),
        ("CAST('2000-01-02' AS DATE)", "2000-01-02", days(1)),
        ("CAST('0001-01-01' AS DATE)", "0001-01-01", days(-730_119)),
        (
            "CAST('2000-01-01 00:00:00.5' AS TIMESTAMP)",
            "2000-01-01 00:00:00.5",
            500_000_i64.to_be_bytes().to_vec(),
        ),
        ("'é\"'", "é\"", "é\"".as_bytes().to_vec()),
        ("''", "", vec![]),
    ] {
        let sql = format!("SELECT {sql} AS x");
        assert_eq!(client.rows(&sql), [[text]], "{sql}");
        let messages = client.run(&[
            parse("", &sql, &[]),
            bind("", "", 0, &[], &[1]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages), None, "{sql}");
        assert_eq!(values(&messages[2].1), [Some(binary)], "{sql}");
    }
    client.rows("CREATE TABLE d (d DECIMAL(38, 0))");
    for text in [most, &format!("-{most}"), "0", "10000", "12345678"] {
        client.rows("TRUNCATE d");
        let messages = client.run(&[
            parse("", "INSERT INTO d VALUES ($1)", &[]),
            bind("", "", 0, &[Some(text.as_bytes())], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages), None);
        assert_eq!(client.rows("SELECT d FROM d"), [[text]]);
        // All digits, there and back in binary.
        let messages = client.run(&[
            parse("", "SELECT d FROM d", &[]),
            bind("", "", 0, &[], &[1]),
            execute("", 0),
        ]);
        let binary = values(&messages[2].1)[0].clone().unwrap();
        let messages = client.run(&[
            parse("", "SELECT count(*) FROM d WHERE d = $1", &[1700]),
            bind("", "", 1, &[Some(&binary)], &[]),
            execute("", 0),
        ]);
        assert_eq!(values(&messages[2].1), [Some(b"1".to_vec())], "{text}");
    }
}

/// As PostgreSQL 15 has them, beyond the 292 years that nanoseconds reach.
#[test]
fn differences_of_timestamps_have_days() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (later, earlier, text, days, us) in [
        ("2024-01-01", "1600-01-01", "154863 days", 154_863, 0),
        ("1600-01-01", "2024-01-01", "-154863 days", -154_863, 0),
        (
            "9999-12-31 23:59:59.999999",
            "0001-01-01",
            "3652058 days 23:59:59.999999",
            3_652_058,
            86_399_999_999,
        ),
        (
            "2024-01-03 01:00:00",
            "2024-01-01",
            "2 days 01:00:00",
            2,
            3_600_000_000,
        ),
        (
            "2024-01-01",
            "2024-01-03 01:00:00",
            "-2 days -01:00:00",
            -2,
            -3_600_000_000_i64,
        ),
    ] {
        let sql = format!("SELECT TIMESTAMP '{later}' - TIMESTAMP '{earlier}' AS x");
        assert_eq!(client.rows(&sql), [[text]]);
        let messages = client.run(&[
            parse("", &sql, &[]),
            bind("", "", 0, &[], &[1]),
            execute("", 0),
        ]);
        let binary = [&us.to_be_bytes()[..], &i32::to_be_bytes(days), &[0; 4]].concat();
        assert_eq!(values(&messages[2].1), [Some(binary)], "{sql}");
        let copied = client.query(&format!("COPY ({sql}) TO STDOUT"));
        assert_eq!(copied[1].1, format!("{text}\n").as_bytes());
    }
}

#[test]
fn bytes_are_read_as_text_in_both_forms() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (text, expected) in [("\\x00ff", "\\x00ff"), ("a\\\\\\001", "\\x615c01")] {
        let messages = client.run(&[
            parse("", "SELECT $1 AS x", &[17]),
            bind("", "", 0, &[Some(text.as_bytes())], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages), None);
        assert_eq!(values(&messages[2].1), [Some(expected.as_bytes().to_vec())]);
    }
}

/// Texts of drivers, and moments that no calendar here has.
#[test]
fn moments_are_read_as_postgresql_reads_them() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE m (d DATE, t TIMESTAMP)");
    let mut insert = |d: &str, t: &str| {
        let messages = client.run(&[
            parse("", "INSERT INTO m VALUES ($1, $2)", &[]),
            bind("", "", 0, &[Some(d.as_bytes()), Some(t.as_bytes())], &[]),
            execute("", 0),
        ]);
        code_of(&messages)
    };
    assert_eq!(
        insert("2024-02-29 +01", "2024-02-29 12:00:00+00:53:28"),
        None
    );
    assert_eq!(insert("infinity", "2024-02-29").as_deref(), Some("22008"));
    assert_eq!(insert("2024-02-29", "-infinity").as_deref(), Some("22008"));
    assert_eq!(
        client.rows("SELECT * FROM m"),
        [["2024-02-29", "2024-02-29 12:00:00"]]
    );
    for infinite in [i32::MIN, i32::MAX] {
        let messages = client.run(&[
            parse("", "INSERT INTO m (d) VALUES ($1)", &[1082]),
            bind("", "", 1, &[Some(&infinite.to_be_bytes())], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages).as_deref(), Some("22008"));
    }
}

#[test]
fn a_text_has_no_zero() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE z (s VARCHAR)");
    for format in [0, 1] {
        let messages = client.run(&[
            parse("", "INSERT INTO z VALUES ($1)", &[25]),
            bind("", "", format, &[Some(b"a\0b")], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages).as_deref(), Some("22021"));
    }
    client.send(&crate::client::query("COPY z FROM STDIN"));
    assert_eq!(client.read().unwrap().0, b'G');
    client.send(&crate::client::message(b'd', b"a\\000b\n"));
    client.send(&crate::client::message(b'c', b""));
    assert_eq!(code_of(&client.until_ready()).as_deref(), Some("22021"));
}

#[test]
fn null_of_every_type_is_null() {
    let server = TestServer::start();
    let mut client = server.connect();
    for ty in [
        "BOOLEAN",
        "INTEGER",
        "BIGINT",
        "DOUBLE",
        "DECIMAL(9, 2)",
        "DATE",
        "TIMESTAMP",
        "VARCHAR",
    ] {
        let sql = format!("SELECT CAST(NULL AS {ty}) AS x");
        for format in [0, 1] {
            let messages = client.run(&[
                parse("", &sql, &[]),
                bind("", "", 0, &[], &[format]),
                execute("", 0),
            ]);
            assert_eq!(values(&messages[2].1), [None], "{ty}");
        }
    }
    assert_eq!(client.rows("SELECT NULL"), [["NULL"]]);
}
