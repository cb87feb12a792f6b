//! Statements that are parsed once: arguments, portals, and what an error leaves.

use crate::client::{
    bind, code_of, describe, execute, field, kinds, message, parse, rows_of, state, tags, texts,
    values,
};
use crate::server::TestServer;

const INT2: u32 = 21;
const INT8: u32 = 20;
const TEXT: u32 = 25;

#[test]
fn parameters_and_rows_are_described_before_they_run() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT PRIMARY KEY, s VARCHAR, d DECIMAL(9, 2))");
    client.rows("INSERT INTO t VALUES (1, 'a', 1.5), (2, NULL, NULL)");
    let messages = client.run(&[
        parse("q", "SELECT s, d FROM t WHERE id = $1", &[]),
        describe(b'S', "q"),
        bind("", "q", 0, &[Some(b"1")], &[0]),
        describe(b'P', ""),
        execute("", 0),
    ]);
    assert_eq!(kinds(&messages), "1tT2TDCZ");
    assert_eq!(messages[1].1, [&[0, 1][..], &INT8.to_be_bytes()].concat());
    assert_eq!(rows_of(&messages), [["a", "1.50"]]);
    // Again, with another argument, in binary both ways.
    let messages = client.run(&[
        bind("", "q", 1, &[Some(&2_i64.to_be_bytes())], &[1]),
        execute("", 0),
        bind("", "q", 1, &[Some(&1_i64.to_be_bytes())], &[0, 1]),
        execute("", 0),
        bind("", "q", 1, &[None], &[]),
        execute("", 0),
    ]);
    assert_eq!(kinds(&messages), "2DC2DC2CZ");
    assert_eq!(values(&messages[1].1), [None, None]);
    let numeric = [0, 2, 0, 0, 0, 0, 0, 2, 0, 1, 0x13, 0x88];
    assert_eq!(
        values(&messages[4].1),
        [Some(b"a".to_vec()), Some(numeric.to_vec())]
    );
    // Types that the client declares are its own.
    let messages = client.run(&[
        parse("", "SELECT s FROM t WHERE id = $1", &[INT2]),
        describe(b'S', ""),
        bind("", "", 1, &[Some(&1_i16.to_be_bytes())], &[]),
        execute("", 0),
    ]);
    assert_eq!(messages[1].1, [&[0, 1][..], &INT2.to_be_bytes()].concat());
    assert_eq!(rows_of(&messages), [["a"]]);
    let messages = client.run(&[
        parse("", "INSERT INTO t VALUES ($1, $2, $3)", &[]),
        describe(b'S', ""),
        bind("", "", 0, &[Some(b"3"), Some(b"c"), Some(b"2.345")], &[]),
        execute("", 0),
    ]);
    assert_eq!(
        (kinds(&messages).as_str(), tags(&messages)),
        ("1tn2CZ", vec!["INSERT 0 1".to_owned()])
    );
    assert_eq!(client.rows("SELECT d FROM t WHERE id = 3"), [["2.35"]]);
}

#[test]
fn lists_are_arrays() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (id BIGINT, s VARCHAR)");
    client.rows("INSERT INTO t VALUES (1, 'a'), (2, 'b,c'), (3, 'd')");
    let wanted = |argument: &'static [u8], sql, types: &[u32]| {
        vec![
            parse("", sql, types),
            describe(b'S', ""),
            bind("", "", 0, &[Some(argument)], &[]),
            execute("", 0),
        ]
    };
    let messages = client.run(&wanted(
        b"{1,3,NULL}",
        "SELECT s FROM t WHERE id = ANY($1) ORDER BY id",
        &[],
    ));
    assert_eq!(
        messages[1].1,
        [&[0, 1][..], &1016_u32.to_be_bytes()].concat()
    );
    assert_eq!(rows_of(&messages), [["a"], ["d"]]);
    let messages = client.run(&wanted(
        b"{\"b,c\"}",
        "SELECT id FROM t WHERE s = ANY($1)",
        &[1009],
    ));
    assert_eq!(rows_of(&messages), [["2"]]);
    let mut binary = Vec::new();
    for word in [1_u32, 0, INT8, 2, 1, 8] {
        binary.extend(word.to_be_bytes());
    }
    binary.extend(1_i64.to_be_bytes());
    binary.extend(8_u32.to_be_bytes());
    binary.extend(2_i64.to_be_bytes());
    let messages = client.run(&[
        parse("", "SELECT count(*) FROM t WHERE id = ANY($1)", &[]),
        bind("", "", 1, &[Some(&binary)], &[]),
        execute("", 0),
    ]);
    assert_eq!(rows_of(&messages), [["2"]]);
}

#[test]
fn portals_are_suspended_and_survive_sync_in_a_transaction() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("BEGIN");
    let series = "SELECT value FROM generate_series(1, 5)";
    let messages = client.run(&[
        parse("", series, &[]),
        bind("p", "", 0, &[], &[]),
        execute("p", 2),
    ]);
    assert_eq!(kinds(&messages), "12DDsZ");
    let messages = client.run(&[execute("p", 2), execute("p", 0), execute("p", 0)]);
    assert_eq!(kinds(&messages), "DDsDCCZ");
    assert_eq!(tags(&messages), ["SELECT 1", "SELECT 0"]);
    client.rows("COMMIT");
    assert_eq!(
        code_of(&client.run(&[execute("p", 0)])).as_deref(),
        Some("34000")
    );
    // pgwire takes these numbers for lengths of memory.
    for most in [i32::MAX, i32::MIN, -1] {
        let messages = client.run(&[
            parse("", series, &[]),
            bind("", "", 0, &[], &[]),
            execute("", most),
        ]);
        assert_eq!(kinds(&messages), "12DDDDDCZ");
    }
}

#[test]
fn after_an_error_everything_up_to_sync_is_passed_over() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT)");
    let insert = "INSERT INTO t VALUES (1)";
    let messages = client.run(&[
        parse("", "SELECT nosuch", &[]),
        parse("", insert, &[]),
        bind("", "", 0, &[], &[]),
        execute("", 0),
    ]);
    assert_eq!(
        (kinds(&messages).as_str(), code_of(&messages).as_deref()),
        ("EZ", Some("42703"))
    );
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
    // A fault that the session does not see fails the transaction, too.
    client.rows("BEGIN");
    client.rows("INSERT INTO t VALUES (7)");
    let messages = client.run(&[
        parse("", "SELECT n FROM t WHERE n = $1", &[]),
        bind("", "", 0, &[Some(b"x")], &[]),
    ]);
    assert_eq!(
        (code_of(&messages).as_deref(), state(&messages)),
        (Some("22P02"), 'E')
    );
    assert!(field(&messages[1].1, b'M').contains("$1"));
    client.rows("COMMIT");
    assert_eq!(client.rows("SELECT count(*) FROM t"), [["0"]]);
}

#[test]
fn counts_that_do_not_match_are_errors() {
    let server = TestServer::start();
    let mut client = server.connect();
    let two = parse("", "SELECT 1 AS a, 2 AS b, 3 AS c", &[]);
    let fails = |client: &mut crate::client::Client, messages: &[Vec<u8>], code: &str| {
        assert_eq!(code_of(&client.run(messages)).as_deref(), Some(code));
    };
    // pgwire reads behind the end of this list.
    fails(
        &mut client,
        &[two.clone(), bind("", "", 0, &[], &[1, 1])],
        "08P01",
    );
    fails(
        &mut client,
        &[two.clone(), bind("", "", 0, &[Some(b"1")], &[])],
        "08P01",
    );
    fails(&mut client, &[two, bind("", "", 0, &[], &[7])], "22023");
    fails(&mut client, &[bind("", "nosuch", 0, &[], &[])], "26000");
    fails(
        &mut client,
        &[parse("", "SELECT 1; SELECT 2", &[])],
        "42601",
    );
    fails(
        &mut client,
        &[parse("a", "SELECT 1", &[]), parse("a", "SELECT 1", &[])],
        "42P05",
    );
    fails(&mut client, &[describe(b'P', "nosuch")], "34000");
    let messages = client.run(&[
        message(b'C', &[&b"S"[..], &texts(&["a"])].concat()),
        message(b'C', &[&b"S"[..], &texts(&["nosuch"])].concat()),
        parse("a", "SELECT 1", &[]),
    ]);
    assert_eq!(kinds(&messages), "331Z");
    client.rows("CREATE TABLE t (n BIGINT)");
    let messages = client.run(&[
        parse("", "INSERT INTO t VALUES (1)", &[]),
        bind("", "", 0, &[], &[]),
        execute("", 0),
        execute("", 0),
    ]);
    assert_eq!(
        (kinds(&messages).as_str(), code_of(&messages).as_deref()),
        ("12CEZ", Some("55000"))
    );
    let messages = client.run(&[
        parse("e", "", &[]),
        describe(b'S', "e"),
        bind("", "e", 0, &[], &[1]),
        execute("", 0),
    ]);
    assert_eq!(kinds(&messages), "1tn2IZ");
}

#[test]
fn the_server_s_own_statements_can_be_prepared() {
    let server = TestServer::start();
    let mut client = server.connect();
    let run = |sql: &str| {
        vec![
            parse("", sql, &[]),
            bind("", "", 0, &[], &[]),
            describe(b'P', ""),
            execute("", 0),
        ]
    };
    assert_eq!(kinds(&client.run(&run("BEGIN"))), "12nCZ");
    let messages = client.run(&[
        parse(
            "",
            "DECLARE c CURSOR FOR SELECT value FROM generate_series(1, 5) WHERE value <= $1",
            &[INT8],
        ),
        bind("", "", 1, &[Some(&3_i64.to_be_bytes())], &[]),
        execute("", 0),
        describe(b'P', "c"),
    ]);
    assert_eq!(kinds(&messages), "12CTZ");
    let messages = client.run(&[
        parse("", "FETCH FORWARD 2 FROM c", &[]),
        bind("", "", 0, &[], &[1]),
        describe(b'P', ""),
        execute("", 0),
    ]);
    assert_eq!(kinds(&messages), "12TDDCZ");
    assert_eq!(values(&messages[3].1), [Some(1_i64.to_be_bytes().to_vec())]);
    assert_eq!(
        rows_of(&client.run(&run("SHOW transaction_isolation"))),
        [["repeatable read"]]
    );
    assert_eq!(kinds(&client.run(&run("COMMIT"))), "12nCZ");
    client.run(&[parse("named", "SELECT 1", &[])]);
    assert_eq!(tags(&client.query("DEALLOCATE named")), ["DEALLOCATE"]);
    assert_eq!(client.code("DEALLOCATE named"), "26000");
}

/// What the planner cannot know beforehand is text, in both formats.
#[test]
fn a_parameter_of_any_type_is_text_unless_declared() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (types, format, argument, expected) in [
        (&[][..], 0, &b"abc"[..], &b"abc"[..]),
        (&[TEXT][..], 1, b"abc", b"abc"),
        (&[INT8][..], 0, b"12", b"12"),
    ] {
        let messages = client.run(&[
            parse("", "SELECT $1 AS x", types),
            bind("", "", format, &[Some(argument)], &[]),
            execute("", 0),
        ]);
        assert_eq!(code_of(&messages), None, "{messages:?}");
        assert_eq!(values(&messages[2].1), [Some(expected.to_vec())]);
    }
    let messages = client.run(&[
        parse("", "SELECT $1 AS x", &[1700]),
        describe(b'S', ""),
        bind("", "", 0, &[Some(b"0.123456789012345678901")], &[1]),
        execute("", 0),
    ]);
    assert_eq!(
        values(&messages[4].1),
        [Some(b"0.123456789012345678901".to_vec())]
    );
}
