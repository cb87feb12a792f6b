//! What drivers ask a server about itself: `SELECT version(), current_schema()`.
//!
//! Statements that consist of nothing else are answered here, with the answers that drivers expect of PostgreSQL. In any other
//! statement these are functions as the planner knows them, or unknown.

use tierra_sql::Lexeme;

use crate::words::Words;

/// A fact about the server or the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Version,
    Schema,
    Database,
    User,
    Process,
    /// A setting.
    Setting(String),
    /// Whether the statement of this connection was cancelled, by its number.
    Cancel(i32),
    /// A function without a result, of which there is nothing to do.
    Nothing,
    False,
}

/// The facts that a statement selects, with the names of their columns, if it selects nothing else. `words` are behind SELECT.
pub(crate) fn of(mut words: Words<'_>) -> Option<Vec<(String, Fact)>> {
    let mut facts = Vec::new();
    loop {
        let (name, fact) = fact(&mut words)?;
        let is_named = words.next_is("as");
        let name = match words.peek() {
            Some(lexeme @ Lexeme::Word { quoted, .. })
                if is_named || *quoted || !lexeme.is("from") =>
            {
                words.next();
                lexeme.name()?.to_owned()
            }
            _ if is_named => return None,
            _ => name.to_owned(),
        };
        facts.push((name, fact));
        if !words.next_is_mark(",") {
            break;
        }
    }
    words.peek().is_none().then_some(facts)
}

fn fact(words: &mut Words<'_>) -> Option<(&'static str, Fact)> {
    if words.next_is("pg_catalog") && !words.next_is_mark(".") {
        return None;
    }
    for (name, fact) in [
        ("current_user", Fact::User),
        ("session_user", Fact::User),
        ("user", Fact::User),
        ("current_catalog", Fact::Database),
    ] {
        if words.next_is(name) {
            // They are written without brackets.
            return (!words.next_is_mark("(")).then_some((name, fact));
        }
    }
    let (name, fact) = [
        ("version", Fact::Version),
        ("current_schema", Fact::Schema),
        ("current_database", Fact::Database),
        ("pg_backend_pid", Fact::Process),
        ("pg_advisory_unlock_all", Fact::Nothing),
        ("pg_is_in_recovery", Fact::False),
    ]
    .into_iter()
    .find(|(name, _)| words.next_is(name))
    .or_else(|| {
        let found = ["current_setting", "pg_cancel_backend"];
        let name = found.into_iter().find(|name| words.next_is(name))?;
        Some((name, Fact::Nothing))
    })?;
    if !words.next_is_mark("(") {
        return (name == "current_schema").then_some((name, fact));
    }
    let fact = match (name, words.peek()) {
        ("current_setting", Some(Lexeme::Text(setting))) => {
            words.next();
            Fact::Setting(setting.clone())
        }
        ("pg_cancel_backend", Some(Lexeme::Number(number))) => {
            words.next();
            Fact::Cancel(number.parse().ok()?)
        }
        ("current_setting" | "pg_cancel_backend", _) => return None,
        _ => fact,
    };
    words.next_is_mark(")").then_some((name, fact))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(sql: &str) -> Option<Vec<(String, Fact)>> {
        let statements = tierra_sql::statements(sql).unwrap();
        of(Words::new(statements[0].lexemes(), 1))
    }

    #[test]
    fn only_statements_of_facts_alone_are_answered() {
        let one = |name: &str, fact| Some(vec![(name.to_owned(), fact)]);
        assert_eq!(
            facts("select pg_catalog.version()"),
            one("version", Fact::Version)
        );
        assert_eq!(
            facts("SELECT current_schema() AS \"S\""),
            one("S", Fact::Schema)
        );
        assert_eq!(
            facts("SELECT current_schema"),
            one("current_schema", Fact::Schema)
        );
        assert_eq!(
            facts("SELECT current_setting('server_version_num') v"),
            one("v", Fact::Setting("server_version_num".into()))
        );
        assert_eq!(
            facts("SELECT pg_cancel_backend(7)"),
            one("pg_cancel_backend", Fact::Cancel(7))
        );
        assert_eq!(facts("SELECT current_user, version()").unwrap().len(), 2);
        for other in [
            "SELECT 1",
            "SELECT version() FROM t",
            "SELECT version() || 'x'",
            "SELECT user()",
            "SELECT version",
            "SELECT upper(version())",
            "SELECT current_setting('a', true)",
            "SELECT version() AS",
            "SELECT",
        ] {
            assert_eq!(facts(other), None, "{other}");
        }
    }
}
