//! The promise of `tierra.toml`: a database is opened as its file says, unless a flag says
//! otherwise, and a file that makes no sense is shown and nothing touched.
#![cfg(feature = "cli")]

use std::fs;

use tierra::{Database, Error, Options};

mod binary;

#[test]
fn a_database_is_opened_as_its_file_says() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    fs::create_dir(&dir).unwrap();
    let file = "near-memory = \"3M\"\nexecution = \"plain\"\nquery-memory = \"77M\"\nthreads = 3\n";
    fs::write(dir.join("tierra.toml"), file).unwrap();
    let place = dir.display().to_string();

    // A directory with nothing but options in it is vacant.
    let show = |key: &str, arguments: &[&str]| {
        let sql = format!("SHOW tierra.{key}");
        let base = [
            "sql",
            "--create",
            "--db",
            &place,
            "--format=csv",
            "-c",
            &sql,
        ];
        let out = binary::tierra([&base, arguments].concat()).well().out;
        let (_, value) = out.trim().rsplit_once(',').expect("a name and a value");
        value.to_owned()
    };
    assert_eq!(show("execution", &[]), "plain");
    assert_eq!(show("query_memory", &[]), "77M");
    assert_eq!(show("threads", &[]), "3");
    assert_eq!(show("threads", &["--threads", "2"]), "2");

    for threads in ["0", "1025", "many"] {
        let ended = binary::tierra(["sql", "--threads", threads, "-c", "SELECT 1"]);
        assert_eq!(ended.status, 2, "{}", ended.err);
        assert!(
            ended.err.contains("a whole number from 1 to 1024"),
            "{}",
            ended.err
        );
    }

    let other = scratch.path().join("other.toml");
    fs::write(&other, "execution = \"interleaved\"\n").unwrap();
    let other = other.display().to_string();
    assert_eq!(show("execution", &["--config", &other]), "interleaved");

    let near = |database: &Database| database.engine().tiers()[0].capacity_bytes;
    assert_eq!(near(&Database::open(&dir).unwrap()), 3 << 20);
    let options = Options::new().near_memory_bytes(5 << 20);
    assert_eq!(near(&options.open(&dir).unwrap()), 5 << 20);
}

#[test]
fn a_file_that_makes_no_sense_is_shown_and_nothing_touched() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("tierra.toml");
    fs::write(&file, "threads = 2\nnaer-memory = \"3M\"\n").unwrap();
    let error = Database::create(scratch.path()).unwrap_err();
    assert!(matches!(error, Error::Config(_)));
    let message = error.to_string();
    for part in [
        &*file.display().to_string(),
        "tierra.toml:2:1:",
        "near-memory",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1);
    let missing = scratch.path().join("missing.toml");
    let error = Options::new()
        .config(&missing)
        .create(scratch.path())
        .unwrap_err();
    assert!(error.to_string().contains("missing.toml"), "{error}");
}
