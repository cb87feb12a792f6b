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
