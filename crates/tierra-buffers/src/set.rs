//! The buffers of a directory: opening, allocating, finding.
//!
//! Invariant: all handles of a buffer share one [`Inner`], so that one append to it is under way at a time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tierra_engine::{Database, DatabaseOptions, Table};

use crate::buffer::{Buffer, Inner};
use crate::columns;
use crate::error::Error;

/// How a directory of buffers is opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Of the database that the directory is: near memory for copies, the place and size of the first pool, and more.
    pub engine: DatabaseOptions,
    /// Tiers besides the first, which is `far`: a name and the file or device of its pool. Those that the database does not have are
    /// added; those that it has stay where they are.
    pub tiers: Vec<(String, PathBuf)>,
}

/// Whether a buffer has a copy in near memory besides its replicas. The copy is volatile and made in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Near {
    /// While there is room, the buffers that are read most.
    #[default]
    IfRoom,
    /// Before others.
    First,
    /// Not at all.
    Never,
}

/// The buffers of a directory. Clones are the same set. All methods may be called by several threads at once.
#[derive(Clone, Debug)]
pub struct Buffers(Arc<Shared>);

/// What a set and its buffers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) database: Arc<Database>,
    /// The buffers that have a handle, by the ids of their tables.
    known: Mutex<HashMap<u64, Weak<Inner>>>,
}

impl Shared {
    pub(crate) fn check_process(&self) -> Result<(), Error> {
        match self.database.is_forked() {
            true => Err(Error::Forked),
            false => Ok(()),
        }
    }

    /// Held while a name gets another meaning.
    pub(crate) fn known(&self) -> MutexGuard<'_, HashMap<u64, Weak<Inner>>> {
        // Changes are single calls.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffers {
    /// Opens the buffers of a directory, or makes the directory. One process opens it at a time.
    ///
    /// # Errors
    /// [`Error::Open`], [`Error::Tier`].
    pub fn open(dir: &Path, options: &Options) -> Result<Buffers, Error> {
        let database = Database::open_or_create(dir, &options.engine)?;
        let mut known: Vec<String> = database.tiers().into_iter().map(|tier| tier.name).collect();
        known.extend(database.missing_tiers().into_iter().map(|(name, _)| name));
        for (name, pool) in &options.tiers {
            // `near` is no tier of pools, which the engine says.
            if *name == known[0] || !known.contains(name) {
                database.add_tier(name, pool)?;
                known.push(name.clone());
            }
        }
        Ok(Buffers(Arc::new(Shared {
            database,
            known: Mutex::default(),
        })))
    }

    /// The database that the buffers are tables of: scrubbing, faults, backups, tiers.
    pub fn engine(&self) -> &Arc<Database> {
        &self.0.database
    }

    /// Makes an empty buffer; durable on return.
    ///
    /// A replica is a tier, or `tier/encoding`: `["far/static", "b/dynamic"]`. The first one is written first. Without an encoding it is
    /// the one that fits the values. Values that cannot be encoded as asked are plain. No size is told: pools grow with what is
    /// written.
    ///
    /// # Errors
    /// [`Error::Table`]: the name is taken, a tier or an encoding is unknown, a tier is missing or full.
    pub fn allocate(&self, name: &str, replicas: &[&str], near: Near) -> Result<Buffer, Error> {
        self.0.check_process()?;
        let near = match near {
            Near::IfRoom => None,
            Near::First => Some(true),
            Near::Never => Some(false),
        };
        let (spec, replicas) = (columns::spec(name, near), columns::placement(replicas));
        let mut known = self.0.known();
        let table = self.0.database.create_table_in(spec, replicas)?;
        Ok(self.handle(table, &mut known))
    }

    /// The buffer of that name.
    ///
    /// # Errors
    /// [`Error::Unknown`], [`Error::NotABuffer`].
    pub fn buffer(&self, name: &str) -> Result<Buffer, Error> {
        self.0.check_process()?;
        let mut known = self.0.known();
        let name = || name.to_owned();
        let table = self.0.database.table(&name());
        let table = table.ok_or_else(|| Error::Unknown { name: name() })?;
        match columns::is_buffer(table.spec()) {
            true => Ok(self.handle(table, &mut known)),
            false => Err(Error::NotABuffer { name: name() }),
        }
    }

    /// The names of all buffers, sorted.
    pub fn names(&self) -> Vec<String> {
        let database = &self.0.database;
        let is_one = |name: &String| {
            let table = database.table(name);
            table.is_some_and(|table| columns::is_buffer(table.spec()))
        };
        database.tables().into_iter().filter(is_one).collect()
    }

    /// Stops writing: later calls that write fail. Everything appended is durable already. Readers go on; the directory can be opened
    /// again when these, all buffers and all sets of it are dropped.
    pub fn close(&self) {
        self.0.database.close();
    }

    fn handle(&self, table: Arc<Table>, known: &mut HashMap<u64, Weak<Inner>>) -> Buffer {
        known.retain(|_, inner| inner.strong_count() > 0);
        let id = table.id();
        if let Some(inner) = known.get(&id).and_then(Weak::upgrade) {
            return Buffer(inner);
        }
        let inner = Arc::new(Inner::new(self.0.clone(), table));
        known.insert(id, Arc::downgrade(&inner));
        Buffer(inner)
    }
}
