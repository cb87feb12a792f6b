//! Cursors: DECLARE, FETCH, MOVE and CLOSE, and what they share with portals.
//!
//! A cursor's query runs when the cursor is declared, so its rows are those of that moment. One WITH HOLD that outlives its transaction
//! has its rows in memory from COMMIT on; ROLLBACK of the transaction that declared it ends it.

use std::sync::Arc;

use arrow::array::{Datum, RecordBatch};
use futures::StreamExt;
use tierra_sql::{Outcome, TransactionState};

use crate::command::Tag;
use crate::connection::{Connection, Stop};
use crate::error::Fault;
use crate::extended::check_room;
use crate::own::Fetch;
use crate::rows::check_columns;
use crate::statement::{Cursor, Formats, Planned, Portal, State, Work};
use crate::values::argument::Argument;
use crate::values::column::Column;
use crate::values::{Field, Format, oid};

/// The most bytes of rows that a connection keeps for its cursors WITH HOLD.
const HELD_MOST_BYTES: usize = 256 << 20;

impl Connection {
    /// Takes the next batch of `cursor`; `false` at its end.
    pub(crate) async fn next_batch(&mut self, cursor: &mut Cursor) -> Result<bool, Stop> {
        cursor.columns = Vec::new();
        (cursor.next, cursor.len) = (0, 0);
        if let Some(answer) = cursor.answer.take() {
            cursor.len = answer.rows.len();
            cursor.columns = Column::of_answer(answer, cursor.fields.len());
            return Ok(true);
        }
        let batch = match cursor.ready.pop_front() {
            Some(batch) => Some(batch),
            None => self.computed(cursor).await?,
        };
        let Some(batch) = batch else {
            return Ok(false);
        };
        cursor.columns = Column::all(&batch)?;
        cursor.len = batch.num_rows();
        Ok(true)
    }

    /// The next batch that the query of `cursor` computes.
    async fn computed(&mut self, cursor: &mut Cursor) -> Result<Option<RecordBatch>, Stop> {
        let Some(rows) = &mut cursor.rows else {
            return Ok(None);
        };
        let next = async { rows.next().await.transpose() };
        let next = self.watched(next).await;
        if !matches!(next, Ok(Some(_))) {
            cursor.rows = None;
        }
        next
    }

    fn no_cursor(name: &str) -> Fault {
        Fault::new("34000", format!("cursor \"{name}\" does not exist"))
    }

    /// The columns of a cursor.
    pub(crate) fn fields_of_cursor(&self, name: &str) -> Result<Option<Arc<[Field]>>, Fault> {
        match self.portals.get(name) {
            None => Err(Self::no_cursor(name)),
            Some(portal) => Ok(match &portal.state {
                State::Rows(cursor) => Some(cursor.fields.clone()),
                _ => portal.planned.fields.clone(),
            }),
        }
    }

    /// Declares a cursor.
    pub(crate) async fn declare(
        &mut self,
        name: &str,
        is_held: bool,
        query: Arc<Planned>,
        arguments: Vec<Argument>,
    ) -> Result<(), Stop> {
        let in_none = self.session.transaction() == TransactionState::None;
        if !is_held && in_none {
            return Err(Fault::new(
                "25P01",
                "DECLARE CURSOR can only be used in transaction blocks",
            )
            .into());
        }
        if query.fields.is_none() {
            return Err(Fault::new("42P11", "the cursor's statement has no rows").into());
        }
        if matches!(query.tag, Tag::Insert | Tag::Counted(_)) {
            return Err(Fault::new("42P11", "the cursor's statement changes rows").into());
        }
        if self.portals.contains_key(name) {
            return Err(Fault::new("42P03", format!("cursor \"{name}\" already exists")).into());
        }
        check_room(name, &self.portals, "open cursors")?;
        let mut portal = Portal {
            is_held,
            is_new: true,
            ..Portal::new(query, arguments, Formats::TEXT)
        };
        self.open(&mut portal).await?;
        if in_none {
            self.keep(&mut portal).await?;
        }
        if let State::Rows(cursor) = &portal.state {
            cursor.set_aside(true);
        }
        self.portals.insert(name.to_owned(), portal);
        self.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Sends the rows of FETCH, or passes those of MOVE, for a client that was told of the columns `told`, or is told now. Returns how
    /// many they are.
    pub(crate) async fn fetch(
        &mut self,
        fetch: &Fetch,
        formats: &Formats,
        told: Option<&[Field]>,
    ) -> Result<u64, Stop> {
        let name = &fetch.name;
        let found = self.portals.remove(name);
        let mut portal = found.ok_or_else(|| Self::no_cursor(name))?;
        self.open(&mut portal).await?;
        let passed = match &mut portal.state {
            State::Rows(cursor) if fetch.moves => {
                self.pass_rows(cursor, fetch.most, |_, _, _| {}).await?
            }
            State::Rows(cursor) => {
                let formats = match told {
                    Some(told) => agreed(Some(told), &cursor.fields, formats)?,
                    None => {
                        self.put_fields(&cursor.fields, formats)?;
                        formats.clone()
                    }
                };
                self.send_rows(cursor, &formats, fetch.most).await?
            }
            State::Ready | State::Fetching(_) | State::Done => {
                if let (None, false) = (told, fetch.moves) {
                    self.put_fields(
                        portal.planned.fields.as_deref().unwrap_or_default(),
                        formats,
                    )?;
                }
                0
            }
        };
        self.portals.insert(name.clone(), portal);
        Ok(passed)
    }

    /// Closes a cursor; `None` is all.
    pub(crate) fn close(&mut self, name: Option<&str>) -> Result<(), Fault> {
        let Some(name) = name else {
            self.portals.clear();
            self.complete("CLOSE CURSOR ALL");
            return Ok(());
        };
        match self.portals.remove(name) {
            None => Err(Self::no_cursor(name)),
            Some(_) => {
                self.complete("CLOSE CURSOR");
                Ok(())
            }
        }
    }

    /// Runs the statement of a portal, if that was not done; returns its tag if it has no rows.
    pub(crate) async fn open(&mut self, portal: &mut Portal) -> Result<Option<String>, Stop> {
        let planned = Arc::clone(&portal.planned);
        if !matches!(portal.state, State::Ready) {
            return Ok(None);
        }
        portal.state = State::Done;
        let arguments = std::mem::take(&mut portal.arguments);
        let cursor = match &planned.work {
            Work::Sql(prepared) => {
                let session = Arc::clone(&self.session);
                let run = {
                    let arguments: Vec<_> = arguments.iter().map(|one| one as &dyn Datum).collect();
                    prepared.run(&session, &arguments)
                };
                match self.watched(run).await? {
                    Outcome::Done(done) => return Ok(Some(Tag::of_done(&done))),
                    Outcome::Rows(rows) => match (prepared.schema(), &planned.fields) {
                        (Some(schema), Some(fields)) if Arc::ptr_eq(schema, rows.schema()) => {
                            Cursor::of_rows(rows, Arc::clone(fields))
                        }
                        _ => Cursor::new(rows),
                    },
                }
            }
            Work::Catalog(query) => self.catalog_rows(query, &arguments).await?,
            Work::Own(own, _) => match self.batch_of(own)? {
                Some(batch) => Cursor::of_batch(batch),
                None => return Err(Fault::new("34000", "the cursor has no rows").into()),
            },
            Work::Empty | Work::Declare { .. } => {
                return Err(Fault::new("34000", "the cursor has no rows").into());
            }
        };
        check_columns(cursor.fields.len())?;
        portal.formats = agreed(planned.fields.as_deref(), &cursor.fields, &portal.formats)?;
        portal.state = State::Rows(Box::new(cursor));
        Ok(None)
    }

    /// Keeps the rows of the cursors WITH HOLD that the open transaction declared: what it sees ends with it.
    pub(crate) async fn keep_held(&mut self) -> Result<(), Stop> {
        let portals = self.portals.iter();
        let held = portals.filter(|(_, portal)| portal.is_held && portal.is_new);
        let names: Vec<String> = held.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(mut portal) = self.portals.remove(&name) {
                self.keep(&mut portal).await?;
                self.portals.insert(name, portal);
            }
        }
        Ok(())
    }

    async fn keep(&mut self, portal: &mut Portal) -> Result<(), Stop> {
        portal.is_new = false;
        let State::Rows(cursor) = &mut portal.state else {
            return Ok(());
        };
        cursor.set_aside(false);
        let others = self.portals.values().map(|portal| match &portal.state {
            State::Rows(cursor) => cursor.ready_bytes(),
            _ => 0,
        });
        let mut bytes = others.sum::<usize>() + cursor.ready_bytes();
        while let Some(batch) = self.computed(cursor).await? {
            bytes += batch.get_array_memory_size();
            if bytes > HELD_MOST_BYTES {
                return Err(Fault::new(
                    "53200",
                    "the cursors WITH HOLD of a connection keep at most 256 MiB of rows",
                )
                .with_hint("FETCH within the transaction, or CREATE TABLE .. AS")
                .into());
            }
            cursor.ready.push_back(batch);
        }
        Ok(())
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
