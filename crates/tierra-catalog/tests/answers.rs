//! What tools ask is answered as PostgreSQL 15 answers it.
//!
//! `queries/` has what they send, `answers/` what is answered here, and whether that is the same as PostgreSQL's answer was: `compare`
//! compares again. Where it differs, it is a difference that `docs/serve.md` tells of.

use std::path::Path;

mod tables;

/// The numbers of tables, which queries have in the place of their names.
fn placed(query: &str) -> String {
    let found = tables::answer("SELECT oid, relname FROM pg_class WHERE relnamespace = 2200");
    let mut query = query.to_owned();
    for (oid, name) in found.lines().filter_map(|line| line.split_once('\t')) {
        query = query.replace(&format!("@{name}@"), oid);
    }
    query
}

#[test]
fn tools_are_answered_as_before() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files: Vec<_> = std::fs::read_dir(folder.join("queries"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let start = text
            .find("\n")
            .filter(|_| text.starts_with("--"))
            .map_or(0, |at| at + 1);
        let queries: Vec<&str> = text[start..]
            .split("\n;\n")
            .filter(|query| !query.trim().is_empty())
            .collect();
        let answers =
            std::fs::read_to_string(folder.join("answers").join(format!("{name}.txt"))).unwrap();
        let answers: Vec<&str> = answers
            .split("\n;\n")
            .filter(|answer| !answer.is_empty())
            .collect();
        assert_eq!(queries.len(), answers.len(), "{name}");
        for (query, answer) in queries.iter().zip(answers) {
            let (verdict, expected) = answer.split_once('\n').unwrap();
            assert!(["same", "other", "error"].contains(&verdict), "{verdict}");
            assert_eq!(tables::answer(&placed(query)), expected, "{name}: {query}");
        }
    }
}

/// No query takes more than some seconds and some hundred MB, whatever its values are.
#[test]
fn queries_that_would_take_too_much_fail() {
    let long = "(SELECT repeat('x', 1000000) AS x) AS l, generate_series(1, 100000), pg_am";
    for query in [
        format!("SELECT x FROM {long}"),
        format!("SELECT array_agg(x) FROM {long}"),
        format!("SELECT length(string_agg(x, '')) FROM {long}"),
        format!("SELECT count(*) FROM (SELECT x FROM {long} ORDER BY x) AS q"),
        format!("SELECT count(*) FROM (SELECT DISTINCT x FROM {long}) AS q"),
        format!(
            "SELECT length(concat({})) FROM {long}",
            vec!["x"; 2000].join(", ")
        ),
        format!("SELECT {} FROM {long}", vec!["1"; 3000].join(", ")),
        "SELECT repeat('a', 1000000) LIKE '%' || repeat('a', 500000) || 'b', version()".to_owned(),
        "SELECT repeat('a', 1000000) ~ '(a{1,100}){1,50}b', version()".to_owned(),
        "SELECT translate(repeat('a', 1000000), repeat('b', 1000000), ''), version()".to_owned(),
        "SELECT ARRAY(SELECT generate_series(1, 200000)) @> ARRAY(SELECT generate_series(1, 200000)), version()".to_owned(),
        "SELECT 'a'::char(10000000), version()".to_owned(),
    ] {
        let answer = tables::answer(&query);
        assert!(
            answer.starts_with("ERROR"),
            "{query}: {}",
            &answer[..answer.len().min(99)]
        );
    }
}

/// What is compared twice is copied: an expression of these, one within another, would grow without end.
#[test]
fn expressions_that_grow_without_end_are_refused() {
    let case = " WHEN 1 THEN 1 WHEN 2 THEN 2 END".repeat(30);
    for query in [
        format!(
            "SELECT {}1 BETWEEN 0 AND 1{}, version()",
            "(".repeat(40),
            ") BETWEEN false AND true".repeat(40)
        ),
        format!("SELECT {}1{case}, version()", "CASE ".repeat(30)),
    ] {
        assert!(tables::answer(&query).starts_with("ERROR 54001"), "{query}");
    }
}

/// A user who may only read has no other privileges, and a name that is not there has none at all.
#[test]
fn readers_have_few_privileges() {
    let mut contents = tables::contents();
    contents.reads_only = true;
    let query = "SELECT has_table_privilege('everything', 'SELECT'), has_table_privilege('everything', 'INSERT'), \
        has_table_privilege('everything', 'INSERT, SELECT'), has_table_privilege('everything', 'SELECT WITH GRANT OPTION'), \
        has_any_column_privilege(current_user, 'everything', 'REFERENCES'), has_schema_privilege('public', 'USAGE'), \
        has_schema_privilege('public', 'CREATE'), has_database_privilege('tierra', 'TEMP')";
    let question = tierra_catalog::Question::of(query).unwrap().unwrap();
    let answer = question.plan(&[]).unwrap().answer(&contents, &[]).unwrap();
    let texts: Vec<_> = answer.texts().remove(0).into_iter().flatten().collect();
    assert_eq!(texts.join(""), "tftfftff");
}

/// Names of WITH are those of the queries that they belong to.
#[test]
fn names_of_with_end_with_their_query() {
    let is_one = |sql: &str| tierra_catalog::Question::of(sql).map(|question| question.is_some());
    for query in [
        "WITH pg_class AS (SELECT relname FROM pg_class) SELECT * FROM pg_class",
        "WITH t AS (WITH t AS (SELECT 1 AS n) SELECT n FROM t) SELECT n, 'pg_am'::regclass FROM t",
        "SELECT (WITH t AS (SELECT relname FROM pg_class) SELECT count(*) FROM t)",
    ] {
        assert_eq!(is_one(query), Ok(true), "{query}");
    }
    for query in [
        "WITH pg_class AS (SELECT n FROM t) SELECT n FROM pg_class",
        "WITH t AS (SELECT n FROM t) SELECT n, version() FROM t",
        "SELECT (WITH t AS (SELECT 1 AS n) SELECT n FROM t), version() FROM t",
    ] {
        assert_eq!(is_one(query), Ok(false), "{query}");
    }
    let mixed = "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) AS s, t, pg_class";
    assert_eq!(is_one(mixed).unwrap_err().code, "0A000");
}

/// PostgreSQL cuts names after 63 bytes; here they are longer.
#[test]
fn long_names_are_found() {
    let name = "n".repeat(100);
    let mut contents = tables::contents();
    contents.tables[2].name.clone_from(&name);
    let query = format!("SELECT length(relname) FROM pg_class WHERE relname = '{name}'");
    let question = tierra_catalog::Question::of(&query).unwrap().unwrap();
    let answer = question.plan(&[]).unwrap().answer(&contents, &[]).unwrap();
    assert_eq!(answer.texts(), [[Some("100".to_owned())]]);
}
