//! Rows on their way to the client.

use bytes::{BufMut, BytesMut};

use crate::connection::{Connection, Stop};
use crate::error::Fault;
use crate::statement::{Cursor, Formats};
use crate::values::Field;
use crate::values::column::Column;
use crate::wire::messages::Put;

/// The most columns that a row on the wire can have.
const COLUMNS_MOST: usize = i16::MAX as usize;

impl Connection {
    /// Tells the client which columns follow.
    pub(crate) fn put_fields(&mut self, fields: &[Field], formats: &Formats) -> Result<(), Fault> {
        check_columns(fields.len())?;
        self.wire.output().rows(fields, |place| formats.at(place));
        Ok(())
    }

    /// Sends rows, at most `most`; returns how many.
    pub(crate) async fn send_rows(
        &mut self,
        cursor: &mut Cursor,
        formats: &Formats,
        most: Option<u64>,
    ) -> Result<u64, Stop> {
        self.pass_rows(cursor, most, |columns, row, output| {
            put_row(columns, row, formats, output)
        })
        .await
    }

    /// Hands rows to `put`, at most `most`, and sends what it writes; returns how many.
    pub(crate) async fn pass_rows(
        &mut self,
        cursor: &mut Cursor,
        most: Option<u64>,
        mut put: impl FnMut(&[Column], usize, &mut BytesMut),
    ) -> Result<u64, Stop> {
        let mut passed = 0;
        cursor.set_aside(false);
        loop {
            while cursor.next < cursor.len && most != Some(passed) {
                put(&cursor.columns, cursor.next, self.wire.output());
                cursor.next += 1;
                passed += 1;
                self.send_if_full().await?;
            }
            if most == Some(passed) || !self.next_batch(cursor).await? {
                cursor.set_aside(true);
                return Ok(passed);
            }
        }
    }
}

/// Fails if a row has too many columns for the wire.
pub(crate) fn check_columns(columns: usize) -> Result<(), Fault> {
    match columns <= COLUMNS_MOST {
        true => Ok(()),
        false => Err(Fault::new(
            "54011",
            format!("a row has {columns} columns; the most is {COLUMNS_MOST}"),
        )),
    }
}

/// Adds the message of a row.
pub(crate) fn put_row(columns: &[Column], row: usize, formats: &Formats, output: &mut BytesMut) {
    output.framed(b'D', |body| {
        body.put_i16(columns.len() as i16);
        for (place, column) in columns.iter().enumerate() {
            column.put(row, formats.at(place), body);
        }
    });
}
