//! What a statement does, by its words: what it is called when it is done, and whether it is one for rows.

use tierra_sql::{Done, Lexeme, Session, Statement};

/// What a statement is called when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Select,
    Insert,
    Counted(&'static str),
    Plain(&'static str),
}

impl Tag {
    /// The tag of a statement that gives rows, in this session: EXECUTE has that of its prepared statement.
    pub(crate) fn of(statement: &Statement, session: &Session) -> Self {
        match (command(statement.lexemes()), statement.lexemes().get(1)) {
            ("execute", Some(name)) => {
                let command = name.name().and_then(|name| session.prepared_command(name));
                Self::of_command(&command.unwrap_or_default().to_lowercase())
            }
            (command, _) => Self::of_command(command),
        }
    }

    fn of_command(command: &str) -> Self {
        match command {
            "insert" => Self::Insert,
            "update" => Self::Counted("UPDATE"),
            "delete" => Self::Counted("DELETE"),
            "merge" => Self::Counted("MERGE"),
            "explain" => Self::Plain("EXPLAIN"),
            "show" => Self::Plain("SHOW"),
            "describe" | "desc" => Self::Plain("DESCRIBE"),
            _ => Self::Select,
        }
    }

    /// The tag after so many rows.
    pub(crate) fn after(self, rows: u64) -> String {
        match self {
            Self::Select => format!("SELECT {rows}"),
            Self::Insert => format!("INSERT 0 {rows}"),
            Self::Counted(command) => format!("{command} {rows}"),
            Self::Plain(command) => command.to_owned(),
        }
    }

    /// The tag of a statement that gives no rows.
    pub(crate) fn of_done(done: &Done) -> String {
        match (done.command, done.rows) {
            ("INSERT", rows) => Self::Insert.after(rows.unwrap_or(0)),
            ("TRUNCATE" | "TRUNCATE TABLE", _) => "TRUNCATE TABLE".to_owned(),
            (command, Some(rows)) => Self::Counted(command).after(rows),
            (command, None) => command.to_owned(),
        }
    }
}

/// Words that say what a statement does, behind WITH.
const COMMANDS: &[&str] = &[
    "select", "values", "from", "table", "insert", "update", "delete", "merge",
];

/// The word that says what a statement does: the first one, and of WITH the one behind its queries.
pub(crate) fn command(lexemes: &[Lexeme]) -> &str {
    let first = lexemes.iter().position(|lexeme| lexeme.name().is_some());
    let Some(first) = first else {
        return "";
    };
    if !lexemes[first].is("with") {
        return lexemes[first].name().unwrap_or_default();
    }
    let mut depth = 0;
    let outside = lexemes[first..].iter().filter(|lexeme| {
        depth += i32::from(lexeme.is_mark("(")) - i32::from(lexeme.is_mark(")"));
        depth == 0
    });
    let mut outside = outside.filter(|lexeme| COMMANDS.iter().any(|command| lexeme.is(command)));
    outside.next().and_then(Lexeme::name).unwrap_or_default()
}

/// Whether a statement is one for rows, as the query of COPY and of a cursor is: it reads, or changes rows and has them back.
pub(crate) fn is_for_rows(lexemes: &[Lexeme]) -> bool {
    match command(lexemes) {
        "select" | "values" | "from" | "table" => true,
        "insert" | "update" | "delete" | "merge" => {
            lexemes.iter().any(|lexeme| lexeme.is("returning"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_postgresql() {
        for (sql, expected, is_query) in [
            ("SELECT 1", "SELECT 2", true),
            ("(VALUES (1))", "SELECT 2", true),
            ("FROM t", "SELECT 2", true),
            ("INSERT INTO t VALUES (1) RETURNING a", "INSERT 0 2", true),
            ("delete from t returning a", "DELETE 2", true),
            ("delete from t", "DELETE 2", false),
            (
                "WITH a AS (SELECT 1), b(x) AS (VALUES (1)) DELETE FROM t RETURNING a",
                "DELETE 2",
                true,
            ),
            ("WITH a AS (SELECT 1) SELECT * FROM a", "SELECT 2", true),
            ("EXPLAIN SELECT 1", "EXPLAIN", false),
            ("DROP TABLE t", "SELECT 2", false),
            ("EXECUTE d", "SELECT 2", false),
        ] {
            let statement = &tierra_sql::statements(sql).unwrap()[0];
            let tag = Tag::of_command(command(statement.lexemes()));
            assert_eq!(tag.after(2), expected, "{sql}");
            assert_eq!(is_for_rows(statement.lexemes()), is_query, "{sql}");
        }
    }
}
