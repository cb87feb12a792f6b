//! Statements that are parsed once and bound to arguments: Parse, Bind, Describe, Execute and Close.

use std::sync::Arc;

use arrow::array::Datum;
use arrow::datatypes::DataType;
use tierra_sql::{Outcome, Statement};

use crate::connection::{Connection, Stop, UNNAMED};
use crate::error::Fault;
use crate::own::Own;
use crate::statement::{Cursor, Formats, Parameter, Planned, Portal, State, Tag, Work};
use crate::values::argument::Argument;
use crate::values::{Field, Format, fields_of, oid, oid_of, type_of};
use crate::wire::frame::{Bind, Message, Target};
use crate::wire::messages::Put;

/// The most statements, and the most portals, of a connection.
const NAMES_MOST: usize = 1_000;

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
        self.check_room(self.statements.len(), "prepared statements")?;
        let mut statements = tierra_sql::statements(text)?;
        let planned = match (statements.pop(), statements.len()) {
            (None, _) => Planned {
                work: Work::Empty,
                parameters: Vec::new(),
                fields: None,
                tag: Tag::Select,
            },
            (Some(statement), 0) => {
                self.start_clock();
                self.plan(statement, types).await?
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

    fn check_room(&self, count: usize, what: &str) -> Result<(), Fault> {
        match count < NAMES_MOST {
            true => Ok(()),
            false => Err(Fault::new(
                "54000",
                format!("there are {NAMES_MOST} {what}, the most of a connection"),
            )),
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
                let query = query.part(0..query.lexemes().len());
                let query = self.plan_sql(query, types).await?;
                let parameters = query.parameters.iter().map(|parameter| Parameter {
                    oid: parameter.oid,
                    inferred: parameter.inferred.clone(),
                });
                Ok(Planned {
                    parameters: parameters.collect(),
                    fields: None,
                    tag: Tag::Plain("DECLARE CURSOR"),
                    work: Work::Declare {
                        name,
                        is_held,
                        query: Arc::new(query),
                    },
                })
            }
            Some(own) => {
                if !own.ends_transaction() {
                    self.check_transaction()?;
                }
                Ok(Planned {
                    parameters: Vec::new(),
                    fields: self.fields_of_own(&own)?,
                    tag: Tag::Select,
                    work: Work::Own(own, statement),
                })
            }
        }
    }

    async fn plan_sql(&mut self, statement: Statement, types: &[u32]) -> Result<Planned, Stop> {
        let tag = Tag::of(&statement);
        let declared: Vec<Option<DataType>> = types.iter().map(|oid| open_type(*oid)).collect();
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
            tag,
            work: Work::Sql(prepared),
        })
    }

    fn bind(&mut self, bind: Bind) -> Result<(), Fault> {
        let planned = self.statement(&bind.statement)?;
        if bind.portal != UNNAMED && self.portals.contains_key(&bind.portal) {
            return Err(Fault::new(
                "42P03",
                format!("cursor \"{}\" already exists", bind.portal),
            ));
        }
        self.check_room(self.portals.len(), "open cursors")?;
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
        let columns = planned.fields.as_ref().map_or(0, Vec::len);
        // A statement without rows may be asked for them in any formats.
        let formats = match columns {
            0 => Formats::TEXT,
            columns => Formats::of(&bind.result_formats, columns)?,
        };
        self.portals
            .insert(bind.portal, Portal::new(planned, arguments, formats));
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
        match &planned.fields {
            Some(fields) => self.put_fields(fields, &formats),
            None => {
                self.wire.output().no_data();
                Ok(())
            }
        }
    }

    async fn execute(&mut self, name: String, most: u64) -> Result<(), Stop> {
        self.start_clock();
        // While it runs no other message sees it, and after an error none will.
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        self.run_portal(&mut portal, (most > 0).then_some(most))
            .await?;
        self.portals.insert(name, portal);
        Ok(())
    }

    async fn run_portal(&mut self, portal: &mut Portal, most: Option<u64>) -> Result<(), Stop> {
        let planned = Arc::clone(&portal.planned);
        match &planned.work {
            Work::Empty => self.wire.output().empty_query(),
            Work::Own(own, statement) => {
                once(portal)?;
                self.answer(own, statement, &portal.formats, false).await?;
            }
            Work::Declare {
                name,
                is_held,
                query,
            } => {
                once(portal)?;
                let arguments = std::mem::take(&mut portal.arguments);
                self.declare(
                    name,
                    *is_held,
                    Portal::new(Arc::clone(query), arguments, Formats::TEXT),
                )?;
            }
            Work::Sql(_) => {
                if let Some(tag) = self.open(portal).await? {
                    self.wire.output().complete(&tag);
                    return Ok(());
                }
                let State::Rows(cursor) = &mut portal.state else {
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

    /// Runs the statement of a portal, if that was not done; returns its tag if it has no rows.
    pub(crate) async fn open(&mut self, portal: &mut Portal) -> Result<Option<String>, Stop> {
        let planned = Arc::clone(&portal.planned);
        let Work::Sql(prepared) = &planned.work else {
            return Err(Fault::new("34000", "the cursor has no rows").into());
        };
        if !matches!(portal.state, State::Ready) {
            return Ok(None);
        }
        portal.state = State::Done;
        let arguments = std::mem::take(&mut portal.arguments);
        let session = Arc::clone(&self.session);
        let run = {
            let arguments: Vec<_> = arguments.iter().map(|one| one as &dyn Datum).collect();
            prepared.run(&session, &arguments)
        };
        match self.watched(run).await? {
            Outcome::Done(done) => Ok(Some(Tag::of_done(&done))),
            Outcome::Rows(rows) => {
                let found = fields_of(rows.schema());
                portal.formats = agreed(planned.fields.as_deref(), &found, &portal.formats)?;
                portal.state = State::Rows(Box::new(Cursor::new(rows)));
                Ok(None)
            }
        }
    }
}

/// The formats in which the columns `found` can be sent to a client who was told of the columns `told`. A column that was said to be
/// text, because its type was not known, is sent as text.
fn agreed(told: Option<&[Field]>, found: &[Field], formats: &Formats) -> Result<Formats, Fault> {
    let changed = || {
        Fault::new("0A000", "cached plan must not change result type")
            .with_hint("prepare the statement again")
    };
    let told = told
        .filter(|told| told.len() == found.len())
        .ok_or_else(changed)?;
    if told
        .iter()
        .zip(found)
        .all(|(told, found)| told.oid == found.oid)
    {
        return Ok(formats.clone());
    }
    let each = told.iter().zip(found).enumerate();
    let each = each.map(|(place, (told, found))| match told.oid {
        told if told == found.oid => Ok(formats.at(place)),
        oid::TEXT => Ok(Format::Text),
        _ => Err(changed()),
    });
    each.collect::<Result<_, _>>().map(Formats::Each)
}

/// The type for a parameter whose type the statement leaves open.
fn open_type(declared: u32) -> Option<DataType> {
    match declared {
        // Its digits are those of the value.
        oid::NUMERIC => None,
        declared => type_of(declared),
    }
}

fn no_portal(name: &str) -> Fault {
    Fault::new("34000", format!("portal \"{name}\" does not exist"))
}

fn once(portal: &mut Portal) -> Result<(), Fault> {
    match std::mem::replace(&mut portal.state, State::Done) {
        State::Ready => Ok(()),
        _ => Err(Fault::new("55000", "the portal cannot be run anymore")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_to_be_text_is_sent_as_text() {
        let field = |oid| Field {
            name: String::new(),
            oid,
            size: 0,
            modifier: -1,
        };
        let binary = Formats::All(Format::Binary);
        let told = [field(oid::TEXT), field(oid::INT4)];
        let found = [field(oid::NUMERIC), field(oid::INT4)];
        let expected = Formats::Each(vec![Format::Text, Format::Binary]);
        assert_eq!(agreed(Some(&told), &found, &binary).unwrap(), expected);
        assert_eq!(agreed(Some(&told), &told, &binary).unwrap(), binary);
        let other = [field(oid::TEXT), field(oid::INT8)];
        assert!(agreed(Some(&told), &other, &binary).is_err());
        assert!(agreed(None, &found, &binary).is_err());
    }
}
