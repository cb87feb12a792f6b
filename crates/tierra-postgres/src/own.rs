//! Statements that PostgreSQL has and SQL here has not: settings, cursors, COPY through the connection.
//!
//! They are told by their tokens. Whatever is none of them is the session's.

use std::sync::Arc;

use tierra_sql::{Lexeme, Statement};

use crate::catalog::Question;
use crate::copy::{CopyIn, CopyOut};
use crate::error::Fault;
use crate::facts::{self, Fact};
use crate::words::Words;

/// A statement that the server answers itself.
pub(crate) enum Own {
    /// BEGIN, which is only a warning within a transaction.
    Begin,
    /// COMMIT or ROLLBACK, which is only a warning outside a transaction.
    End(&'static str),
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
    CopyIn(CopyIn),
    CopyOut(CopyOut),
    /// A statement that is true without doing anything; its tag.
    Accepted(&'static str),
    /// SELECT of facts about the server, each with the name of its column.
    Facts(Vec<(String, Fact)>),
    /// A query of the system catalog.
    Catalog(Question),
}

/// FETCH or MOVE.
pub(crate) struct Fetch {
    pub(crate) name: String,
    /// `None` is all.
    pub(crate) most: Option<u64>,
    /// Whether the rows are only passed over.
    pub(crate) moves: bool,
}

impl Own {
    /// Whether it may run in a transaction that has failed.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self, Self::End(_))
    }

    /// The statement, if it is one of these.
    pub(crate) fn of(statement: &Statement) -> Result<Option<Self>, Fault> {
        let lexemes = statement.lexemes();
        let Some(Lexeme::Word {
            text,
            quoted: false,
        }) = lexemes.first()
        else {
            return Ok(None);
        };
        let mut words = Words::new(lexemes, 1);
        Ok(Some(match text.as_str() {
            "begin" => Self::Begin,
            "start" if words.next_is("transaction") => Self::Begin,
            "commit" | "end" => Self::End("COMMIT"),
            "abort" => Self::End("ROLLBACK"),
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
            "select" => {
                let facts = facts::of(words).map(Self::Facts);
                return Ok(facts.or_else(|| Question::of(statement).map(Self::Catalog)));
            }
            _ => return Ok(None),
        }))
    }
}

fn set(mut words: Words<'_>) -> Result<Option<Own>, Fault> {
    let is_local = words.next_is("local");
    if !is_local && words.next_is("session") {
        if words.next_is("characteristics") {
            // Of the transactions to come: they all have the same isolation.
            return isolation(words, "SET").map(Some);
        }
        if words.next_is("authorization") {
            return match words.next_is("default") {
                true => Ok(Some(Own::Accepted("SET"))),
                false => Err(Fault::unsupported("SET SESSION AUTHORIZATION")),
            };
        }
    }
    if words.next_is("transaction") {
        return isolation(words, "SET").map(Some);
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

/// `ISOLATION LEVEL ..` and the like of SET TRANSACTION: what every transaction is anyway.
fn isolation(words: Words<'_>, tag: &'static str) -> Result<Own, Fault> {
    let rest = words.rest();
    if rest.iter().any(|lexeme| lexeme.is("serializable")) {
        return Err(Fault::unsupported("ISOLATION LEVEL SERIALIZABLE")
            .with_hint("every transaction has its own snapshot: REPEATABLE READ"));
    }
    if rest
        .windows(2)
        .any(|two| two[0].is("read") && two[1].is("only"))
    {
        return Err(
            Fault::unsupported("READ ONLY for transactions to come").with_hint("BEGIN READ ONLY")
        );
    }
    Ok(Own::Accepted(tag))
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
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
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
        ] {
            assert_eq!(own(sql).err(), Some("42601"), "{sql}");
        }
        assert_eq!(
            own("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE").err(),
            Some("0A000")
        );
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
