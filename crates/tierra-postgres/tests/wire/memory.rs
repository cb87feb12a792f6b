//! What a text takes before it runs is a part of the memory of queries.

use tierra_postgres::Options;
use tierra_sql::SessionOptions;

use crate::client::{code_of, field, parse};
use crate::server::{TestServer, memory, open_to_all, resident_bytes};

fn rows(count: usize) -> String {
    vec!["(1)"; count].join(",")
}

#[test]
fn long_texts_are_refused_before_they_are_read() {
    let _memory = memory();
    let options = open_to_all();
    let session = SessionOptions {
        query_memory_bytes: Some(64 << 20),
        ..options.session.clone()
    };
    let server = TestServer::with(Options { session, ..options });
    let mut client = server.connect();
    client.rows("CREATE TABLE g (n BIGINT)");
    let before = resident_bytes();
    let long = rows(500_000);
    for sql in [
        format!("INSERT INTO g VALUES {long}"),
        format!("VALUES {long}"),
        format!("SELEC {long}"),
        format!("-- ' \nVALUES {long}"),
        // Its tokens fit, its plan does not.
        format!("VALUES {}", rows(20_000)),
    ] {
        let messages = client.query(&sql);
        assert_eq!(code_of(&messages).as_deref(), Some("53200"));
        let told = field(&messages[0].1, b'M');
        assert!(
            told.contains("COPY") && told.contains("tierra.query_memory"),
            "{told}"
        );
        let messages = client.run(&[parse("", &sql, &[])]);
        assert_eq!(code_of(&messages).as_deref(), Some("53200"));
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 1 << 30, "{grown} bytes");
    // What is prepared is counted as long as it is there.
    let some = format!("SELECT count(*) FROM (VALUES {}) AS v", rows(3_000));
    for name in ["a", "b"] {
        assert_eq!(code_of(&client.run(&[parse(name, &some, &[])])), None);
    }
    let mut failed = 0;
    for name in ["c", "d", "e"] {
        failed += usize::from(code_of(&client.run(&[parse(name, &some, &[])])).is_some());
    }
    assert!(failed > 0);
    client.rows("DISCARD ALL");
    assert_eq!(code_of(&client.run(&[parse("c", &some, &[])])), None);
    // A long value is one word, and so is a long list.
    assert_eq!(
        client.rows(&format!("SELECT length('{}')", "it is ".repeat(1_000_000)))[0],
        ["6000000"]
    );
    let list = vec!["1"; 50_000].join(",");
    assert_eq!(
        client.rows(&format!("SELECT count(*) FROM g WHERE n IN ({list})")),
        [["0"]]
    );
}

#[test]
fn ten_thousand_rows_are_no_long_text() {
    let _memory = memory();
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE g (n BIGINT)");
    client.rows(&format!("INSERT INTO g VALUES {}", rows(10_000)));
    assert_eq!(client.rows("SELECT count(*) FROM g"), [["10000"]]);
}
