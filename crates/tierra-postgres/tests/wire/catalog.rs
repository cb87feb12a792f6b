//! Queries of the system catalog are answered as a whole, or not at all.

use crate::server::TestServer;

#[test]
fn clauses_that_are_not_known_are_not_passed_over() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.rows("CREATE TABLE t (n BIGINT)");
    let tables = "SELECT c.relname FROM pg_catalog.pg_class c";
    assert_eq!(client.rows(tables), [["t"]]);
    assert_eq!(
        client.rows(&format!("{tables} WHERE c.relkind IN ('r','')")),
        [["t"]]
    );
    let none: [[&str; 1]; 0] = [];
    assert_eq!(
        client.rows(&format!("{tables} WHERE c.relkind IN ('v','')")),
        none
    );
    for clause in [
        "EXCEPT SELECT 't'",
        "OFFSET 1",
        "FETCH FIRST 0 ROWS ONLY",
        "WHERE c.relkind IN ('v') OR 1 = 1",
        "NATURAL JOIN pg_catalog.pg_proc p",
        "LEFT JOIN pg_catalog.pg_namespace n ON true OFFSET 1",
    ] {
        let code = client.code(&format!("{tables} {clause}"));
        assert!(
            ["42P01", "0A000"].contains(&code.as_str()),
            "{clause}: {code}"
        );
    }
}
