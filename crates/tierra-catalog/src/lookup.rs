//! The rows of tables, made once in a run, and found by the value of a column.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::contents::Declared;
use crate::error::Result;
use crate::session::Session;
use crate::tables;
use crate::value::{Part, Value};

/// The rows of a table that have a value in a column.
type Places = Rc<HashMap<Value, Vec<usize>>>;

/// Tables whose rows are made.
#[derive(Default)]
pub(crate) struct Lookup {
    tables: RefCell<HashMap<u32, Rc<Vec<Part>>>>,
    indexes: RefCell<HashMap<(u32, usize), Places>>,
}

impl Lookup {
    /// The rows of a table.
    pub(crate) fn table(
        &self,
        session: &Session<'_>,
        table: &'static Declared,
    ) -> Result<Rc<Vec<Part>>> {
        if let Some(found) = self.tables.borrow().get(&table.oid) {
            return Ok(Rc::clone(found));
        }
        let rows = Rc::new(tables::rows(table, session.objects));
        session.step(rows.len() as u64)?;
        self.tables.borrow_mut().insert(table.oid, Rc::clone(&rows));
        Ok(rows)
    }

    /// The places of a table's rows that have `key` in a column.
    pub(crate) fn found(
        &self,
        session: &Session<'_>,
        table: &'static Declared,
        column: usize,
        key: &Value,
    ) -> Result<Vec<usize>> {
        if key.is_null() {
            return Ok(Vec::new());
        }
        let known = self
            .indexes
            .borrow()
            .get(&(table.oid, column))
            .map(Rc::clone);
        let places = if let Some(places) = known {
            places
        } else {
            let mut places: HashMap<Value, Vec<usize>> = HashMap::new();
            for (place, row) in self.table(session, table)?.iter().enumerate() {
                places.entry(row[column].clone()).or_default().push(place);
            }
            let places = Rc::new(places);
            let mut indexes = self.indexes.borrow_mut();
            indexes.insert((table.oid, column), Rc::clone(&places));
            places
        };
        Ok(places.get(key).cloned().unwrap_or_default())
    }
}
