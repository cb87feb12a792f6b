//! The row limit of Execute, and what a failed transaction lets pass.

use crate::client::{bind, code_of, execute, kinds, parse, rows_of, tags};
use crate::server::TestServer;

#[test]
fn rows_of_any_kind_come_as_many_as_are_asked_for() {
    let server = TestServer::start();
    let mut client = server.connect();
    for table in ["a", "b", "c"] {
        client.rows(&format!("CREATE TABLE {table} (n BIGINT)"));
    }
    let open = |sql: &str| [parse("", sql, &[]), bind("p", "", 0, &[], &[])].concat();
    let names =
        "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relnamespace = 2200 ORDER BY 1";
    client.rows("BEGIN");
    let messages = client.run(&[open(names), execute("p", 2), execute("p", 2)]);
    assert_eq!(kinds(&messages), "12DDsDCZ");
    assert_eq!(rows_of(&messages), [["a"], ["b"], ["c"]]);
    client.rows("ROLLBACK; BEGIN");
    let messages = client.run(&[
        open("SHOW server_encoding"),
        execute("p", 1),
        execute("p", 1),
    ]);
    assert_eq!(
        (kinds(&messages).as_str(), tags(&messages)),
        ("12DsCZ", vec!["SHOW".to_owned()])
    );
    client.rows("ROLLBACK; BEGIN");
    let messages = client.run(&[
        open("SELECT current_user"),
        execute("p", 0),
        execute("p", 0),
    ]);
    assert_eq!(kinds(&messages), "12DCCZ");
    client.rows("ROLLBACK; BEGIN");
    client.rows("DECLARE c CURSOR FOR SELECT value FROM generate_series(1, 9)");
    let messages = client.run(&[
        open("FETCH 5 FROM c"),
        execute("p", 2),
        execute("p", 2),
        execute("p", 2),
    ]);
    assert_eq!(
        (kinds(&messages).as_str(), tags(&messages)),
        ("12DDsDDsDCZ", vec!["FETCH 5".to_owned()])
    );
    assert_eq!(client.rows("FETCH ALL FROM c").len(), 4);
    let messages = client.run(&[bind("m", "", 0, &[], &[])]);
    assert_eq!(code_of(&messages), None);
    client.rows("ROLLBACK");
}

#[test]
fn in_a_failed_transaction_only_its_end_is_bound() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.run(&[
        parse("one", "SELECT 1", &[]),
        parse("show", "SHOW server_encoding", &[]),
        parse("back", "ROLLBACK TO SAVEPOINT a", &[]),
        parse("end", "ROLLBACK", &[]),
    ]);
    client.rows("BEGIN");
    client.rows("SAVEPOINT a");
    for name in ["one", "show"] {
        assert_eq!(client.code("SELECT nosuch"), "42703");
        let messages = client.run(&[bind("", name, 0, &[], &[])]);
        assert_eq!(
            (kinds(&messages).as_str(), code_of(&messages).as_deref()),
            ("EZ", Some("25P02"))
        );
        assert_eq!(
            kinds(&client.run(&[bind("", "back", 0, &[], &[]), execute("", 0)])),
            "2CZ"
        );
    }
    assert_eq!(client.code("SELECT nosuch"), "42703");
    assert_eq!(
        kinds(&client.run(&[bind("", "end", 0, &[], &[]), execute("", 0)])),
        "2CZ"
    );
}
