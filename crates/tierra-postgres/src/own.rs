//! Statements that PostgreSQL has and SQL here has not: settings, cursors, COPY through the connection.
//!
//! They are told by their tokens. Whatever is none of them is the session's.

use std::sync::Arc;

use tierra_catalog::Question;
use tierra_sql::{Lexeme, Statement};

use crate::command::Tag;
use crate::copy::{CopyIn, CopyOut};
use crate::error::Fault;
use crate::question::question;
use crate::words::Words;

/// A statement that the server answers itself.
pub(crate) enum Own {
    /// BEGIN, which is only a warning within a transaction that was begun.
    Begin {
        reads_only: bool,
    },
    /// COMMIT or ROLLBACK, which is only a warning outside a transaction.
    End(&'static str),
    /// ABORT, which the session does not know.
    Abort,
    Set {
        name: String,
        /// `None` is the default.
        values: Option<Vec<String>>,
        is_local: bool,
    },
    Show(String),
    /// `None` is all.
    Reset(Option<String>),
    Discard,
    /// `None` is all.
    Deallocate(Option<String>),
    Declare {
        name: String,
        /// Whether it outlives its transaction.
        is_held: bool,
        query: Arc<Statement>,
    },
    Fetch(Fetch),
    /// `None` is all.
    Close(Option<String>),
    SetTransaction(Modes),
    CopyIn(CopyIn),
    CopyOut(CopyOut),
    /// A statement that is true without doing anything; its tag.
    Accepted(&'static str),
    /// SELECT of `pg_cancel_backend(n)`, with the name of its column.
    Cancel {
        name: String,
        process: i32,
    },
    /// A query of the system catalog.
    Catalog(Question),
}

/// What is said of a transaction, beside its isolation: that is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modes {
    pub(crate) reads_only: Option<bool>,
}

/// FETCH or MOVE.
pub(crate) struct Fetch {
    pub(crate) name: String,
    /// `None` is all.
    pub(crate) most: Option<u64>,
    /// Whether the rows are only passed over.
    pub(crate) moves: bool,
}

impl Fetch {
    pub(crate) fn tag(&self) -> Tag {
        Tag::Counted(if self.moves { "MOVE" } else { "FETCH" })
    }
}

impl Own {
    /// Whether the session parses it, too.
    pub(crate) fn is_of_session(&self) -> bool {
        matches!(self, Self::Begin { .. } | Self::End(_))
    }

    /// Whether it belongs to a transaction. The others are the same in any, and begin or end one themselves.
    pub(crate) fn needs_transaction(&self) -> bool {
        !matches!(
            self,
            Self::Begin { .. }
                | Self::End(_)
                | Self::Abort
                | Self::Set {
                    is_local: false,
                    ..
                }
                | Self::Show(_)
                | Self::Reset(_)
                | Self::Accepted(_)
        )
    }

    /// The tag of its rows.
    pub(crate) fn tag(&self) -> Tag {
        match self {
            Self::Show(_) => Tag::Plain("SHOW"),
            Self::Fetch(fetch) => fetch.tag(),
            _ => Tag::Select,
        }
    }

    /// Whether it may run in a transaction that has failed.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self, Self::End(_) | Self::Abort)
    }

    /// The statement, if it is one of these.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>, Fault> {
        let lexemes = statement.lexemes();
        let Some(Lexeme::Word {
            text,
            quoted: false,
        }) = lexemes.first()
        else {
            let begins = lexemes.first().is_some_and(|lexeme| lexeme.is_mark("("));
            return match begins {
                true => Ok(question(statement)?.map(Self::Catalog)),
                false => Ok(None),
            };
        };
        let mut words = Words::new(lexemes, 1);
        Ok(Some(match text.as_str() {
            "begin" => {
                let _ = words.next_is("work") || words.next_is("transaction");
                begin(words)?
            }
            "start" if words.next_is("transaction") => begin(words)?,
            "commit" | "end" => Self::End("COMMIT"),
            "abort" => {
                let _ = words.next_is("work") || words.next_is("transaction");
                words.end()?;
                Self::Abort
            }
            // ROLLBACK TO a savepoint is the session's.
            "rollback" if !lexemes.iter().any(|lexeme| lexeme.is("to")) => Self::End("ROLLBACK"),
            "set" => return set(words),
            "show" => return Ok(show(words)),
            "reset" => return reset(words),
            "discard" => match words.name()?.as_str() {
                "all" => Self::Discard,
                "plans" | "sequences" | "temp" | "temporary" => Self::Accepted("DISCARD"),
                _ => {
                    return Err(Fault::syntax(
                        "DISCARD is followed by ALL, PLANS, SEQUENCES or TEMP",
                    ));
                }
            },
            "deallocate" => {
                words.next_is("prepare");
                Self::Deallocate(words.name_or_all()?)
            }
            "close" => Self::Close(words.name_or_all()?),
            "declare" => declare(statement, words)?,
            "fetch" => Self::Fetch(fetch(words, false)?),
            "move" => Self::Fetch(fetch(words, true)?),
            "copy" => return copy(statement),
            // Nobody notifies.
            "unlisten" => Self::Accepted("UNLISTEN"),
            "with" | "values" => return Ok(question(statement)?.map(Self::Catalog)),
            "select" => {
                return match cancel(words) {
                    Some(own) => Ok(Some(own)),
                    None => Ok(question(statement)?.map(Self::Catalog)),
                };
            }
            _ => return Ok(None),
        }))
    }
}

/// `pg_cancel_backend(n)`, selected alone. `words` are behind SELECT.
fn cancel(mut words: Words<'_>) -> Option<Own> {
    const FUNCTION: &str = "pg_cancel_backend";
    if words.next_is("pg_catalog") && !words.next_is_mark(".") {
        return None;
    }
    if !words.next_is(FUNCTION) || !words.next_is_mark("(") {
        return None;
    }
    let Some(Lexeme::Number(process)) = words.next() else {
        return None;
    };
    let process = process.parse().ok()?;
    if !words.next_is_mark(")") {
        return None;
    }
    let is_named = words.next_is("as");
    let name = match words.next() {
        None if !is_named => FUNCTION.to_owned(),
        name => name?.name()?.to_owned(),
    };
    words
        .peek()
        .is_none()
        .then_some(Own::Cancel { name, process })
}

fn begin(words: Words<'_>) -> Result<Own, Fault> {
    let has_modes = words.peek().is_some();
    Ok(Own::Begin {
        reads_only: has_modes && modes(words)?.reads_only == Some(true),
    })
}

fn set(mut words: Words<'_>) -> Result<Option<Own>, Fault> {
    let is_local = words.next_is("local");
    if !is_local && words.next_is("session") {
        if words.next_is("characteristics") {
            return characteristics(words).map(Some);
        }
        if words.next_is("authorization") {
            return match words.next_is("default") {
                true => Ok(Some(Own::Accepted("SET"))),
                false => Err(Fault::unsupported("SET SESSION AUTHORIZATION")),
            };
        }
    }
    if !is_local && words.next_is("transaction") {
        if words.next_is("snapshot") {
            return Err(Fault::unsupported("SET TRANSACTION SNAPSHOT"));
        }
        return Ok(Some(Own::SetTransaction(modes(words)?)));
    }
    if words.next_is("role") {
        return match words.next_is("none") || words.next_is("default") {
            true => Ok(Some(Own::Accepted("SET"))),
            false => Err(Fault::unsupported("SET ROLE")),
        };
    }
    let name = if words.next_is("time") {
        words.next_is("zone");
        "timezone".to_owned()
    } else if words.next_is("names") {
        "client_encoding".to_owned()
    } else {
        let name = words.name()?;
        if words.next_is_mark(".") {
            // Settings with a point are the session's.
            return Ok(None);
        }
        if !words.next_is("to") && !words.next_is_mark("=") {
            words.next();
            return Err(words.expected("TO or ="));
        }
        name
    };
    if words.next_is("default") || (name == "timezone" && words.next_is("local")) {
        words.end()?;
        return Ok(Some(Own::Set {
            name,
            values: None,
            is_local,
        }));
    }
    let mut values = Vec::new();
    loop {
        let sign = if words.next_is_mark("-") { "-" } else { "" };
        values.push(match words.next() {
            Some(Lexeme::Word { text, .. } | Lexeme::Text(text) | Lexeme::Number(text)) => {
                format!("{sign}{text}")
            }
            _ => return Err(words.expected("a value")),
        });
        if !words.next_is_mark(",") {
            break;
        }
    }
    words.end()?;
    Ok(Some(Own::Set {
        name,
        values: Some(values),
        is_local,
    }))
}

/// `SET SESSION CHARACTERISTICS AS TRANSACTION ..`: of the transactions to come, which all have the same isolation.
fn characteristics(mut words: Words<'_>) -> Result<Own, Fault> {
    for word in ["as", "transaction"] {
        if !words.next_is(word) {
            words.next();
            return Err(words.expected("AS TRANSACTION"));
        }
    }
    match modes(words)?.reads_only {
        Some(true) => {
            Err(Fault::unsupported("READ ONLY for transactions to come")
                .with_hint("BEGIN READ ONLY"))
        }
        _ => Ok(Own::Accepted("SET")),
    }
}

/// The modes of a transaction, up to the end. One that is weaker than what every transaction has is as good as that.
fn modes(mut words: Words<'_>) -> Result<Modes, Fault> {
    let mut reads_only = None;
    loop {
        if words.next_is("isolation") {
            if !words.next_is("level") {
                words.next();
                return Err(words.expected("LEVEL"));
            }
            if words.next_is("serializable") {
                return Err(Fault::unsupported("ISOLATION LEVEL SERIALIZABLE")
                    .with_hint("every transaction has its own snapshot: REPEATABLE READ"));
            }
            let is_known = match words.next() {
                Some(lexeme) if lexeme.is("repeatable") => words.next_is("read"),
                Some(lexeme) if lexeme.is("read") => {
                    words.next_is("committed") || words.next_is("uncommitted")
                }
                _ => false,
            };
            if !is_known {
                return Err(words.expected("an isolation level"));
            }
        } else if words.next_is("read") {
            reads_only = Some(words.next_is("only"));
            if reads_only == Some(false) && !words.next_is("write") {
                words.next();
                return Err(words.expected("ONLY or WRITE"));
            }
        } else {
            words.next_is("not");
            // It is about SERIALIZABLE alone.
            if !words.next_is("deferrable") {
                words.next();
                return Err(words.expected("a mode of a transaction"));
            }
        }
        if !words.next_is_mark(",") && words.peek().is_none() {
            return Ok(Modes { reads_only });
        }
    }
}

fn show(mut words: Words<'_>) -> Option<Own> {
    if words.next_is("transaction") {
        words.next_is("isolation");
        return words
            .next_is("level")
            .then(|| Own::Show("transaction_isolation".to_owned()));
    }
    if words.next_is("time") {
        return words
            .next_is("zone")
            .then(|| Own::Show("timezone".to_owned()));
    }
    let name = words.next()?.name()?;
    // SHOW ALL, TABLES, COLUMNS, FUNCTIONS and settings with a point are the session's.
    let is_own =
        words.peek().is_none() && !matches!(name, "all" | "tables" | "columns" | "functions");
    is_own.then(|| Own::Show(name.to_owned()))
}

fn reset(mut words: Words<'_>) -> Result<Option<Own>, Fault> {
    if words.next_is("all") {
        return Ok(Some(Own::Reset(None)));
    }
    if words.next_is("role") {
        return Ok(Some(Own::Accepted("RESET")));
    }
    if words.next_is("session") {
        return match words.next_is("authorization") {
            true => Ok(Some(Own::Accepted("RESET"))),
            false => Err(words.expected("AUTHORIZATION")),
        };
    }
    let name = words.name()?;
    Ok(words.peek().is_none().then_some(Own::Reset(Some(name))))
}

fn declare(statement: &Statement, mut words: Words<'_>) -> Result<Own, Fault> {
    let name = words.name()?;
    loop {
        if words.next_is("scroll") {
            return Err(Fault::unsupported("a cursor that goes back").with_hint("NO SCROLL"));
        }
        if words.next_is("no") {
            words.next_is("scroll");
        } else if words.next_is("binary") {
            return Err(Fault::unsupported("BINARY of a cursor")
                .with_hint("ask for the binary format of FETCH"));
        } else if !words.next_is("insensitive") && !words.next_is("asensitive") {
            break;
        }
    }
    if !words.next_is("cursor") {
        words.next();
        return Err(words.expected("CURSOR"));
    }
    let mut is_held = false;
    if words.next_is("with") {
        is_held = true;
        words.next_is("hold");
    } else if words.next_is("without") {
        words.next_is("hold");
    }
    if !words.next_is("for") {
        words.next();
        return Err(words.expected("FOR"));
    }
    let query = statement.part(words.place()..statement.lexemes().len());
    Ok(Own::Declare {
        name,
        is_held,
        query: Arc::new(query),
    })
}

fn fetch(mut words: Words<'_>, moves: bool) -> Result<Fetch, Fault> {
    let backward = || Fault::unsupported("a cursor that goes back");
    let mut most = Some(1);
    let is_forward = words.next_is("forward");
    match words.peek() {
        Some(lexeme) if lexeme.is("all") => {
            words.next();
            most = None;
        }
        Some(lexeme) if lexeme.is("next") && !is_forward => {
            words.next();
        }
        Some(Lexeme::Number(digits)) => {
            words.next();
            most = Some(
                digits
                    .parse()
                    .map_err(|_| words.expected("a number of rows"))?,
            );
        }
        Some(lexeme)
            if ["backward", "prior", "first", "last", "absolute", "relative"]
                .iter()
                .any(|word| lexeme.is(word)) =>
        {
            return Err(backward());
        }
        Some(lexeme) if lexeme.is_mark("-") => return Err(backward()),
        _ => {}
    }
    if !words.next_is("from") {
        words.next_is("in");
    }
    let name = words.name()?;
    words.end()?;
    Ok(Fetch { name, most, moves })
}

/// COPY from or to the client. COPY to a file is the session's.
fn copy(statement: &Statement) -> Result<Option<Own>, Fault> {
    if let Some(copy) = CopyIn::of(statement)? {
        return Ok(Some(Own::CopyIn(copy)));
    }
    Ok(CopyOut::of(statement)?.map(Own::CopyOut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(sql: &str) -> Result<Option<Own>, &'static str> {
        let mut statements = tierra_sql::statements(sql).unwrap();
        Own::of(&statements.remove(0)).map_err(|fault| fault.code)
    }

    #[test]
    fn settings_are_read_in_all_their_forms() {
        let set = |sql| match own(sql) {
            Ok(Some(Own::Set {
                name,
                values,
                is_local,
            })) => (name, values.map(|all| all.join("|")), is_local),
            _ => panic!("{sql}"),
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(
            set("SET DateStyle = 'ISO'"),
            ("datestyle".into(), text("ISO"), false)
        );
        assert_eq!(
            set("set session search_path to \"$user\", public"),
            ("search_path".into(), text("$user|public"), false)
        );
        assert_eq!(
            set("SET LOCAL extra_float_digits = -1"),
            ("extra_float_digits".into(), text("-1"), true)
        );
        assert_eq!(
            set("SET TIME ZONE DEFAULT"),
            ("timezone".into(), None, false)
        );
        assert_eq!(
            set("SET NAMES 'utf8'"),
            ("client_encoding".into(), text("utf8"), false)
        );
        for sql in [
            "SET tierra.threads = 2",
            "SHOW tierra.threads",
            "SHOW TABLES",
            "RESET tierra.threads",
            "SELECT 1",
            "ROLLBACK TO SAVEPOINT a",
        ] {
            assert!(matches!(own(sql), Ok(None)), "{sql}");
        }
        for sql in [
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
            "SET ROLE NONE",
            "UNLISTEN *",
        ] {
            assert!(matches!(own(sql), Ok(Some(Own::Accepted(_)))), "{sql}");
        }
        for sql in [
            "SET x",
            "SET x =",
            "SET x = 1 2",
            "DISCARD",
            "CLOSE",
            "FETCH 1 FROM",
            "DECLARE a FOR SELECT 1",
            "SET TRANSACTION",
            "SET TRANSACTION FOO",
            "SET TRANSACTION ISOLATION LEVEL",
            "SET TRANSACTION ISOLATION LEVEL READ",
            "SET TRANSACTION READ ONLY READ",
            "SET TRANSACTION READ ONLY, ",
            "SET SESSION CHARACTERISTICS AS READ ONLY",
        ] {
            assert_eq!(own(sql).err(), Some("42601"), "{sql}");
        }
        for sql in [
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET TRANSACTION SNAPSHOT '1'",
            "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        ] {
            assert_eq!(own(sql).err(), Some("0A000"), "{sql}");
        }
        for (sql, reads_only) in [
            ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", None),
            ("SET TRANSACTION READ ONLY, NOT DEFERRABLE", Some(true)),
            (
                "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED READ WRITE",
                Some(false),
            ),
        ] {
            let Ok(Some(Own::SetTransaction(modes))) = own(sql) else {
                panic!("{sql}")
            };
            assert_eq!(modes.reads_only, reads_only, "{sql}");
        }
    }

    #[test]
    fn cancelling_is_selected_alone() {
        let cancel = |sql| match own(sql) {
            Ok(Some(Own::Cancel { name, process })) => Some((name, process)),
            _ => None,
        };
        let named = |name: &str| Some((name.to_owned(), 7));
        assert_eq!(
            cancel("SELECT pg_cancel_backend(7)"),
            named("pg_cancel_backend")
        );
        assert_eq!(
            cancel("SELECT pg_catalog.pg_cancel_backend(7) AS \"C\""),
            named("C")
        );
        for other in [
            "SELECT pg_cancel_backend(7), 1",
            "SELECT pg_cancel_backend(7) AS",
            "SELECT pg_cancel_backend()",
        ] {
            assert_eq!(cancel(other), None, "{other}");
        }
    }

    #[test]
    fn cursors_go_forward() {
        let fetch = |sql| match own(sql) {
            Ok(Some(Own::Fetch(Fetch { name, most, moves }))) => (name, most, moves),
            _ => panic!("{sql}"),
        };
        assert_eq!(fetch("FETCH c"), ("c".into(), Some(1), false));
        assert_eq!(fetch("FETCH NEXT FROM c"), ("c".into(), Some(1), false));
        assert_eq!(
            fetch("FETCH FORWARD 10 FROM \"C\""),
            ("C".into(), Some(10), false)
        );
        assert_eq!(fetch("MOVE FORWARD ALL IN c"), ("c".into(), None, true));
        assert_eq!(own("FETCH BACKWARD 1 FROM c").err(), Some("0A000"));
        let declared = own("DECLARE a NO SCROLL CURSOR WITH HOLD FOR SELECT 1, 'x'");
        let Ok(Some(Own::Declare {
            name,
            is_held: true,
            query,
        })) = declared
        else {
            panic!()
        };
        assert_eq!(
            (name.as_str(), query.text().as_str()),
            ("a", "SELECT 1 , 'x'")
        );
    }
}
