//! Statements that were parsed, and portals: statements with their arguments, and the rows that are left.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use bytes::Bytes;
use tierra_catalog::{Answer, Query};
use tierra_sql::{Prepared, Rows, Statement};

use crate::command::Tag;
use crate::error::Fault;
use crate::own::Own;
use crate::values::argument::Argument;
use crate::values::column::Column;
use crate::values::{Field, Format, fields_of};

/// A parsed statement.
pub(crate) struct Planned {
    pub(crate) work: Work,
    pub(crate) parameters: Vec<Parameter>,
    /// The columns; `None` if it has no rows.
    pub(crate) fields: Option<Arc<[Field]>>,
    /// The message that describes the columns, in the formats in which it was first asked for: clients ask each time that they run it.
    pub(crate) described: OnceLock<(Formats, Bytes)>,
    /// The first word of the tag of its rows.
    pub(crate) tag: Tag,
    /// Whether it may run in a transaction that has failed.
    pub(crate) ends_transaction: bool,
    /// Those of its text.
    pub(crate) bytes: usize,
}

/// What there is to do.
pub(crate) enum Work {
    /// Nothing.
    Empty,
    Own(Own, Statement),
    Sql(Prepared),
    /// A query of the system catalog.
    Catalog(Arc<Query>),
    /// DECLARE of this query.
    Declare {
        name: String,
        is_held: bool,
        query: Arc<Planned>,
    },
}

/// A parameter: its type on the wire, and the type that the statement gives it.
pub(crate) struct Parameter {
    pub(crate) oid: u32,
    pub(crate) inferred: DataType,
}

/// The formats of columns or parameters: all alike, or one each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Formats {
    All(Format),
    Each(Vec<Format>),
}

impl Formats {
    pub(crate) const TEXT: Self = Self::All(Format::Text);

    /// The formats of `count` values.
    pub(crate) fn of(codes: &[i16], count: usize) -> Result<Self, Fault> {
        let format = |code: &i16| {
            Format::of_code(*code)
                .ok_or_else(|| Fault::new("22023", format!("there is no format {code}")))
        };
        match codes {
            [] => Ok(Self::TEXT),
            [one] => format(one).map(Self::All),
            each if each.len() == count => each
                .iter()
                .map(format)
                .collect::<Result<_, _>>()
                .map(Self::Each),
            each => Err(Fault::protocol(format!(
                "{} formats for {count} values",
                each.len()
            ))),
        }
    }

    pub(crate) fn at(&self, place: usize) -> Format {
        match self {
            Self::All(format) => *format,
            Self::Each(each) => each.get(place).copied().unwrap_or(Format::Text),
        }
    }
}

/// A statement with its arguments.
pub(crate) struct Portal {
    pub(crate) planned: Arc<Planned>,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) formats: Formats,
    pub(crate) state: State,
    /// Whether it outlives its transaction.
    pub(crate) is_held: bool,
    /// Whether the open transaction has declared it.
    pub(crate) is_new: bool,
    /// Those of its arguments.
    pub(crate) bytes: usize,
}

/// How far a portal is.
pub(crate) enum State {
    Ready,
    Rows(Box<Cursor>),
    /// FETCH, of which so many rows were sent.
    Fetching(u64),
    Done,
}

impl Portal {
    pub(crate) fn new(planned: Arc<Planned>, arguments: Vec<Argument>, formats: Formats) -> Self {
        Self {
            planned,
            arguments,
            formats,
            state: State::Ready,
            is_held: false,
            is_new: false,
            bytes: 0,
        }
    }
}

/// Rows that are being sent.
pub(crate) struct Cursor {
    /// Rows of the system catalog, before they are sent.
    pub(crate) answer: Option<Answer>,
    /// Batches that come before those of `rows`.
    pub(crate) ready: VecDeque<RecordBatch>,
    /// The rows of a query that has not ended.
    pub(crate) rows: Option<Rows>,
    pub(crate) fields: Arc<[Field]>,
    /// The batch that is being sent, and the next of its rows.
    pub(crate) columns: Vec<Column>,
    pub(crate) next: usize,
    pub(crate) len: usize,
}

impl Cursor {
    /// The rows of a query.
    pub(crate) fn new(rows: Rows) -> Self {
        let fields = fields_of(rows.schema());
        Self::of_rows(rows, fields)
    }

    /// The rows of a query whose columns are known.
    pub(crate) fn of_rows(rows: Rows, fields: Arc<[Field]>) -> Self {
        Self {
            fields,
            answer: None,
            ready: VecDeque::new(),
            rows: Some(rows),
            columns: Vec::new(),
            next: 0,
            len: 0,
        }
    }

    /// Rows that are there.
    pub(crate) fn of_batch(batch: RecordBatch) -> Self {
        Self {
            fields: fields_of(&batch.schema()),
            answer: None,
            ready: VecDeque::from([batch]),
            rows: None,
            columns: Vec::new(),
            next: 0,
            len: 0,
        }
    }

    /// Rows of the system catalog.
    pub(crate) fn of_answer(fields: Arc<[Field]>, answer: Answer) -> Self {
        Self {
            fields,
            answer: Some(answer),
            ready: VecDeque::new(),
            rows: None,
            columns: Vec::new(),
            next: 0,
            len: 0,
        }
    }

    /// Says whether the client does something else than read. Then cancelling is not about this query.
    pub(crate) fn set_aside(&self, is_aside: bool) {
        if let Some(rows) = &self.rows {
            rows.set_aside(is_aside);
        }
    }

    /// Bytes of the rows that are there.
    pub(crate) fn ready_bytes(&self) -> usize {
        let batches = self.ready.iter();
        let ready = batches.map(RecordBatch::get_array_memory_size);
        ready.sum::<usize>() + self.answer.as_ref().map_or(0, Answer::bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_none_one_or_each() {
        assert_eq!(Formats::of(&[], 3).unwrap(), Formats::TEXT);
        assert_eq!(Formats::of(&[1], 3).unwrap().at(2), Format::Binary);
        let each = Formats::of(&[0, 1], 2).unwrap();
        assert_eq!((each.at(0), each.at(1)), (Format::Text, Format::Binary));
        assert_eq!(Formats::of(&[0, 1], 3).unwrap_err().code, "08P01");
        assert_eq!(Formats::of(&[2], 1).unwrap_err().code, "22023");
    }
}
