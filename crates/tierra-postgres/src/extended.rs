//! Statements that are parsed once and bound to arguments: Parse, Bind, Describe, Execute and Close.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use bytes::{BufMut, Bytes, BytesMut};
use tierra_sql::Statement;

use crate::command::{Tag, command, is_for_rows};
use crate::connection::{Connection, Stop, UNNAMED};
use crate::error::Fault;
use crate::own::{Fetch, Own};
use crate::rows::check_columns;
use crate::statement::{Formats, Parameter, Planned, Portal, State, Work};
use crate::values::argument::Argument;
use crate::values::{fields_of, oid, oid_of, type_of};
use crate::wire::frame::{Bind, Message, Target};
use crate::wire::messages::Put;

/// The most statements, and the most portals, of a connection.
const NAMES_MOST: usize = 1_000;
/// The most bytes of their texts and arguments.
const TEXTS_MOST_BYTES: usize = 256 << 20;

impl Connection {
    /// Answers a message of this kind.
    pub(crate) async fn extended(&mut self, message: Message) -> Result<(), Stop> {
        match message {
            Message::Parse { name, text, types } => self.parse(name, &text, &types).await,
            Message::Bind(bind) => Ok(self.bind(bind)?),
            Message::Describe(target, name) => Ok(self.describe(target, &name)?),
            Message::Execute { portal, most } => self.execute(portal, most).await,
            Message::Close(target, name) => {
                match target {
                    Target::Statement => drop(self.statements.remove(&name)),
                    Target::Portal => drop(self.portals.remove(&name)),
                }
                self.wire.output().close_complete();
                Ok(())
            }
            _ => Err(Fault::protocol("a message that does not belong here").into()),
        }
    }

    async fn parse(&mut self, name: String, text: &str, types: &[u32]) -> Result<(), Stop> {
        if name != UNNAMED && self.statements.contains_key(&name) {
            return Err(Fault::new(
                "42P05",
                format!("prepared statement \"{name}\" already exists"),
            )
            .into());
        }
        check_room(&name, &self.statements, "prepared statements")?;
        self.statements.remove(&name);
        self.check_texts(text.len())?;
        let mut statements = self.session.statements(text)?;
        let planned = match (statements.pop(), statements.len()) {
            (None, _) => Planned {
                work: Work::Empty,
                parameters: Vec::new(),
                fields: None,
                described: OnceLock::new(),
                tag: Tag::Select,
                ends_transaction: false,
                bytes: text.len(),
            },
            (Some(statement), 0) => {
                self.start_clock();
                let command = command(statement.lexemes());
                Planned {
                    ends_transaction: matches!(command, "commit" | "end" | "rollback" | "abort"),
                    bytes: text.len(),
                    ..self.plan(statement, types).await?
                }
            }
            _ => {
                return Err(Fault::syntax(
                    "cannot insert multiple commands into a prepared statement",
                )
                .into());
            }
        };
        self.statements.insert(name, Arc::new(planned));
        self.wire.output().parse_complete();
        Ok(())
    }

    /// Fails if there is no room for so many bytes more.
    fn check_texts(&self, more: usize) -> Result<(), Fault> {
        let statements = self.statements.values().map(|planned| planned.bytes);
        let portals = self.portals.values().map(|portal| portal.bytes);
        let bytes = statements.chain(portals).fold(more, usize::saturating_add);
        match bytes <= TEXTS_MOST_BYTES {
            true => Ok(()),
            false => Err(Fault::new(
                "54000",
                "the statements and arguments of a connection take at most 256 MiB",
            )
            .with_hint("DEALLOCATE and CLOSE those that are not needed")),
        }
    }

    /// Plans a statement whose parameters have these types; 0 where the statement is to say.
    pub(crate) async fn plan(
        &mut self,
        statement: Statement,
        types: &[u32],
    ) -> Result<Planned, Stop> {
        match Own::of(&statement)? {
            None => self.plan_sql(statement, types).await,
            Some(Own::Declare {
                name,
                is_held,
                query,
            }) => {
                let query = self.plan_query(&query, types).await?;
                let parameters = query.parameters.iter().map(|parameter| Parameter {
                    oid: parameter.oid,
                    inferred: parameter.inferred.clone(),
                });
                Ok(Planned {
                    parameters: parameters.collect(),
                    fields: None,
                    described: OnceLock::new(),
                    tag: Tag::Plain("DECLARE CURSOR"),
                    ends_transaction: false,
                    bytes: 0,
                    work: Work::Declare {
                        name,
                        is_held,
                        query: Arc::new(query),
                    },
                })
            }
            Some(Own::Catalog(question)) => self.plan_catalog(&question, types),
            Some(own) => self.plan_own(own, statement),
        }
    }

    /// Plans the query of a cursor.
    pub(crate) async fn plan_query(
        &mut self,
        query: &Statement,
        types: &[u32],
    ) -> Result<Planned, Stop> {
        let query = query.part(0..query.lexemes().len());
        match Own::of(&query)? {
            // What is planned as rows may still change some: EXECUTE, EXPLAIN ANALYZE.
            None if !is_for_cursor(&query) => {
                Err(Fault::syntax("a cursor is for SELECT, VALUES or SHOW").into())
            }
            None => self.plan_sql(query, types).await,
            Some(Own::Catalog(question)) => self.plan_catalog(&question, types),
            Some(own @ (Own::Show(_) | Own::Cancel { .. })) => self.plan_own(own, query),
            Some(_) => Err(Fault::syntax("a cursor is for a query").into()),
        }
    }

    fn plan_own(&mut self, own: Own, statement: Statement) -> Result<Planned, Stop> {
        if !own.ends_transaction() {
            self.check_transaction()?;
        }
        Ok(Planned {
            parameters: Vec::new(),
            fields: self.fields_of_own(&own)?,
            described: OnceLock::new(),
            tag: own.tag(),
            ends_transaction: own.ends_transaction(),
            bytes: 0,
            work: Work::Own(own, statement),
        })
    }

    async fn plan_sql(&mut self, statement: Statement, types: &[u32]) -> Result<Planned, Stop> {
        let tag = Tag::of(&statement, &self.session);
        // No function takes a SMALLINT, which drivers declare for small numbers.
        let declared = types.iter().map(|oid| match type_of(*oid) {
            Some(DataType::Int16) => Some(DataType::Int32),
            other => other,
        });
        let declared: Vec<Option<DataType>> = declared.collect();
        let session = Arc::clone(&self.session);
        let prepared = self
            .watched(session.prepare_statement(statement, &declared))
            .await?;
        let inferred = prepared.parameters().iter().cloned();
        let parameters = inferred.enumerate().map(|(place, inferred)| Parameter {
            oid: match types.get(place).copied() {
                None | Some(0 | oid::UNKNOWN) => oid_of(&inferred),
                Some(declared) => declared,
            },
            inferred,
        });
        Ok(Planned {
            parameters: parameters.collect(),
            fields: prepared.schema().map(|schema| fields_of(schema)),
            described: OnceLock::new(),
            tag,
            ends_transaction: false,
            bytes: 0,
            work: Work::Sql(prepared),
        })
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Fault> {
        let planned = self.statement(&bind.statement)?;
        if !planned.ends_transaction {
            self.check_transaction()?;
        }
        if bind.portal != UNNAMED && self.portals.contains_key(&bind.portal) {
            return Err(Fault::new(
                "42P03",
                format!("cursor \"{}\" already exists", bind.portal),
            ));
        }
        check_room(&bind.portal, &self.portals, "open cursors")?;
        self.portals.remove(&bind.portal);
        let bytes = bind.arguments.iter().flatten().map(Bytes::len).sum();
        self.check_texts(bytes)?;
        let count = planned.parameters.len();
        if bind.arguments.len() != count {
            return Err(Fault::protocol(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {count}",
                bind.arguments.len(),
                bind.statement
            )));
        }
        let formats = Formats::of(&bind.formats, count)?;
        let arguments = bind.arguments.into_iter().zip(&planned.parameters);
        let arguments = arguments.enumerate().map(|(place, (value, parameter))| {
            let argument =
                Argument::of(parameter.oid, &parameter.inferred, formats.at(place), value);
            argument.map_err(|fault| Fault {
                message: format!("parameter ${}: {}", place + 1, fault.message),
                ..fault
            })
        });
        let arguments = arguments.collect::<Result<_, _>>()?;
        let columns = planned.fields.as_ref().map_or(0, |fields| fields.len());
        // A statement without rows may be asked for them in any formats.
        let formats = match columns {
            0 => Formats::TEXT,
            columns => Formats::of(&bind.result_formats, columns)?,
        };
        let portal = Portal {
            bytes,
            ..Portal::new(planned, arguments, formats)
        };
        self.portals.insert(bind.portal, portal);
        self.wire.output().bind_complete();
        Ok(())
    }

    fn statement(&self, name: &str) -> Result<Arc<Planned>, Fault> {
        let found = self.statements.get(name).cloned();
        found.ok_or_else(|| {
            Fault::new(
                "26000",
                format!("prepared statement \"{name}\" does not exist"),
            )
        })
    }

    fn describe(&mut self, target: Target, name: &str) -> Result<(), Fault> {
        let (planned, formats) = match target {
            Target::Statement => {
                let planned = self.statement(name)?;
                let types = planned.parameters.iter().map(|parameter| parameter.oid);
                self.wire.output().parameters(types.collect());
                (planned, Formats::TEXT)
            }
            Target::Portal => {
                let portal = self.portals.get(name).ok_or_else(|| no_portal(name))?;
                (Arc::clone(&portal.planned), portal.formats.clone())
            }
        };
        let Some(fields) = &planned.fields else {
            self.wire.output().no_data();
            return Ok(());
        };
        check_columns(fields.len())?;
        let (first, message) = planned.described.get_or_init(|| {
            let mut message = BytesMut::new();
            message.rows(fields, |place| formats.at(place));
            (formats.clone(), message.freeze())
        });
        match *first == formats {
            true => self.wire.output().put_slice(message),
            false => self.put_fields(fields, &formats)?,
        }
        Ok(())
    }

    async fn execute(&mut self, name: String, most: u64) -> Result<(), Stop> {
        self.start_clock();
        // While it runs no other message sees it, and after an error none will.
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        portal.bytes = 0;
        self.run_portal(&mut portal, (most > 0).then_some(most))
            .await?;
        self.portals.insert(name, portal);
        Ok(())
    }

    async fn run_portal(&mut self, portal: &mut Portal, most: Option<u64>) -> Result<(), Stop> {
        let planned = Arc::clone(&portal.planned);
        if !planned.ends_transaction {
            self.check_transaction()?;
        }
        match &planned.work {
            Work::Empty => self.wire.output().empty_query(),
            Work::Own(Own::Fetch(fetch), _) => self.run_fetch(fetch, portal, most).await?,
            Work::Own(own, statement) if planned.fields.is_none() => {
                once(portal)?;
                self.answer(own, statement).await?;
            }
            Work::Declare {
                name,
                is_held,
                query,
            } => {
                once(portal)?;
                let arguments = std::mem::take(&mut portal.arguments);
                self.declare(name, *is_held, Arc::clone(query), arguments)
                    .await?;
            }
            Work::Own(..) | Work::Sql(_) | Work::Catalog(_) => {
                if let Some(tag) = self.open(portal).await? {
                    self.wire.output().complete(&tag);
                    return Ok(());
                }
                let State::Rows(cursor) = &mut portal.state else {
                    if planned.fields.is_none() {
                        return Err(done().into());
                    }
                    // All rows were sent before.
                    self.wire.output().complete(&planned.tag.after(0));
                    return Ok(());
                };
                let sent = self.send_rows(cursor, &portal.formats, most).await?;
                if most == Some(sent) {
                    self.wire.output().portal_suspended();
                } else {
                    portal.state = State::Done;
                    self.wire.output().complete(&planned.tag.after(sent));
                }
            }
        }
        Ok(())
    }

    /// Runs FETCH or MOVE. A client that asks for fewer rows than FETCH does gets the next ones with the next Execute.
    async fn run_fetch(
        &mut self,
        fetch: &Fetch,
        portal: &mut Portal,
        most: Option<u64>,
    ) -> Result<(), Stop> {
        let planned = Arc::clone(&portal.planned);
        let told = planned.fields.as_deref().unwrap_or_default();
        let sent = match std::mem::replace(&mut portal.state, State::Done) {
            State::Ready => 0,
            State::Fetching(sent) => sent,
            State::Rows(_) | State::Done => return Err(done().into()),
        };
        let most = most.filter(|_| !fetch.moves);
        let left = fetch.most.map(|rows| rows.saturating_sub(sent));
        let part = Fetch {
            name: fetch.name.clone(),
            most: left.into_iter().chain(most).min(),
            moves: fetch.moves,
        };
        let passed = self.fetch(&part, &portal.formats, Some(told)).await?;
        if most == Some(passed) {
            portal.state = State::Fetching(sent + passed);
            self.wire.output().portal_suspended();
        } else {
            self.complete(&fetch.tag().after(sent + passed));
        }
        Ok(())
    }
}

/// Whether a statement that is the session's is one that a cursor may be for. One that changes rows is told so later.
fn is_for_cursor(query: &Statement) -> bool {
    let changes = ["insert", "update", "delete", "merge"];
    let command = command(query.lexemes());
    is_for_rows(query.lexemes()) || changes.contains(&command) || command == "show"
}

/// Fails if there are as many as there may be, besides the one without a name.
pub(crate) fn check_room<T>(name: &str, all: &HashMap<String, T>, what: &str) -> Result<(), Fault> {
    let named = all.len() - usize::from(all.contains_key(UNNAMED));
    match name == UNNAMED || named < NAMES_MOST {
        true => Ok(()),
        false => Err(Fault::new(
            "54000",
            format!("there are {NAMES_MOST} {what}, the most of a connection"),
        )),
    }
}

fn no_portal(name: &str) -> Fault {
    Fault::new("34000", format!("portal \"{name}\" does not exist"))
}

fn once(portal: &mut Portal) -> Result<(), Fault> {
    match std::mem::replace(&mut portal.state, State::Done) {
        State::Ready => Ok(()),
        _ => Err(done()),
    }
}

fn done() -> Fault {
    Fault::new("55000", "the portal cannot be run anymore")
}
