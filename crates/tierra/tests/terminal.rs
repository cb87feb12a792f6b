//! What is stored in a table is shown on a terminal, and not obeyed by it; programs get it as it is.
#![cfg(feature = "cli")]

mod binary;

const COMMANDS: &str =
    "'a' || chr(10) || 'b' || chr(27) || '[2J' || chr(7) || chr(155) || chr(8238)";

#[test]
fn control_characters_of_data_and_names_are_shown() {
    let select = format!("SELECT {COMMANDS} AS \"x\u{1b}[31m\"");
    let shown = binary::tierra(["sql", "-c", &select]).well().out;
    assert!(shown.contains(r"a\nb\x1b[2J\x07\u{9b}\u{202e}"), "{shown}");
    assert!(shown.contains(r"x\x1b[31m"), "{shown}");
    let nested = binary::tierra(["sql", "-c", &format!("SELECT [{COMMANDS}] AS l")])
        .well()
        .out;
    for out in [shown, nested] {
        let is_plain = |c: char| c == '\n' || !c.is_control() && c != '\u{202e}';
        assert!(out.chars().all(is_plain), "{out:?}");
    }
}

#[test]
fn programs_get_what_is_stored() {
    let select = format!("SELECT {COMMANDS} AS x");
    let csv = binary::tierra(["sql", "--format=csv", "-c", &select])
        .well()
        .out;
    assert_eq!(csv, "x\n\"a\nb\u{1b}[2J\u{7}\u{9b}\u{202e}\"\n");
    let json = binary::tierra(["sql", "--format=json", "-c", &select])
        .well()
        .out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["x"], "a\nb\u{1b}[2J\u{7}\u{9b}\u{202e}");
}

#[test]
fn messages_that_quote_data_command_nothing() {
    let cast = format!("SELECT CAST({COMMANDS} AS INTEGER)");
    let missing = "SELECT * FROM \"no\u{1b}[2J\"".to_owned();
    for sql in [cast, missing] {
        let err = binary::tierra(["sql", "-c", &sql])
            .with_error(&[r"\x1b[2J"])
            .err;
        let is_plain = |c: char| c == '\n' || !c.is_control();
        assert!(err.chars().all(is_plain), "{err:?}");
    }
}

/// A plan is lines of text.
#[test]
fn explain_keeps_its_lines() {
    let explain = "EXPLAIN SELECT value FROM generate_series(1, 3) WHERE value > 1";
    let out = binary::tierra(["sql", "-c", explain]).well().out;
    assert!(!out.contains("\\n"), "{out}");
}
