//! One buffer: what is appended to it, what is known of it.
//!
//! Invariant: the value at position `p` was the `p`-th to be appended, and never changes.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use tierra_engine::{Projection, ReadPattern, ReplicaInfo, ScanError, Table};

use crate::columns::VALUE;
use crate::error::Error;
use crate::order::Orders;
use crate::reader::Reader;
use crate::set::Shared;

/// A buffer. Clones are the same buffer. All methods may be called by several threads at once; appends wait for each other.
#[derive(Clone, Debug)]
pub struct Buffer(pub(crate) Arc<Inner>);

/// What all handles of a buffer share.
#[derive(Debug)]
pub(crate) struct Inner {
    shared: Arc<Shared>,
    pub(crate) table: Arc<Table>,
    pub(crate) values: Projection,
    /// Held from the choice of positions to their commit.
    appending: Mutex<()>,
    pub(crate) orders: Orders,
}

impl Inner {
    pub(crate) fn new(shared: Arc<Shared>, table: Arc<Table>) -> Inner {
        Inner {
            shared,
            values: table.projection(&[VALUE]),
            table,
            appending: Mutex::default(),
            orders: Orders::default(),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.table.spec().name.clone()
    }
}

/// What a buffer consists of at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Values.
    pub count: u64,
    /// Those of them that are not in replicas yet: in the log of each tier, and unpacked in near memory.
    pub staged: u64,
    /// The replicas, the one that is written first at the head: tier, encodings and stored bytes of each.
    pub replicas: Vec<ReplicaInfo>,
}

impl Buffer {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.table.spec().name
    }

    /// Appends values in this order: all of them, durable in all tiers on return, or none. Returns the position of the first.
    ///
    /// One call is one commit, so that a program that appends single values and can wait collects them. Few values are staged: written
    /// to a log in each tier, and encoded when 2^20 have come together or [`Buffer::pack`] is called. 65,536 and more are encoded at
    /// once. Blocks.
    ///
    /// # Errors
    /// [`Error::Append`]: a tier is full or fails. [`Error::Deleted`].
    pub fn append(&self, values: &[i64]) -> Result<u64, Error> {
        let Inner {
            table, appending, ..
        } = &*self.0;
        self.check()?;
        // It guards no data.
        let _alone = appending.lock().unwrap_or_else(PoisonError::into_inner);
        let first = table.snapshot().rows();
        if values.is_empty() {
            return Ok(first);
        }
        let end = i64::try_from(first).ok();
        let end = end.and_then(|first| first.checked_add_unsigned(values.len() as u64));
        let Some(end) = end else {
            return Err(Error::Positions {
                name: self.0.name(),
            });
        };
        let positions: ArrayRef = Arc::new(Int64Array::from_iter_values(first as i64..end));
        let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let batch = RecordBatch::try_new(table.schema(), vec![positions, values]);
        let batch = batch.map_err(|source| ScanError::Arrow {
            table: self.0.name(),
            source,
        })?;
        table.append(&[batch])?;
        Ok(first)
    }

    /// Encodes what is staged. Happens by itself when 2^20 values are staged. Blocks.
    ///
    /// # Errors
    /// [`Error::Table`]: a tier is full or fails; the values stay staged.
    pub fn pack(&self) -> Result<(), Error> {
        self.check()?;
        Ok(self.0.table.seal()?)
    }

    /// A reader of all values that are there now, and of none that come later. Of each part of the buffer it reads the replica that
    /// suits `pattern`.
    ///
    /// # Errors
    /// [`Error::Deleted`], [`Error::Scan`], [`Error::Order`].
    pub fn reader(&self, pattern: ReadPattern) -> Result<Reader, Error> {
        self.check()?;
        Reader::new(self.clone(), pattern)
    }

    /// What it consists of now.
    ///
    /// # Errors
    /// [`Error::Deleted`].
    pub fn info(&self) -> Result<Info, Error> {
        self.check()?;
        let snapshot = self.0.table.snapshot();
        Ok(Info {
            name: self.0.name(),
            count: snapshot.rows(),
            staged: snapshot.tail_rows(),
            replicas: snapshot.replicas(VALUE),
        })
    }

    /// Deletes it, with all replicas; durable on return. Readers go on; the space is free when the last one is dropped. Other calls of
    /// its handles fail. Blocks.
    ///
    /// # Errors
    /// [`Error::Deleted`], [`Error::Table`].
    pub fn delete(&self) -> Result<(), Error> {
        // No other call allocates a buffer of this name meanwhile.
        let _known = self.0.shared.known();
        self.check()?;
        Ok(self.0.shared.database.drop_table(self.name())?)
    }

    /// Fails if the buffer is no more, or the process is not that which opened it.
    fn check(&self) -> Result<(), Error> {
        let Inner { shared, table, .. } = &*self.0;
        shared.check_process()?;
        let now = shared.database.table(self.name());
        match now.is_some_and(|now| now.id() == table.id()) {
            true => Ok(()),
            false => Err(Error::Deleted {
                name: self.0.name(),
            }),
        }
    }
}
