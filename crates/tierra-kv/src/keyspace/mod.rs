//! What is stored: sixteen databases of keys with strings, hashes and sorted sets, in two tiers of memory.
//!
//! ```text
//!  Db ─┬─ Store ─┬─ 16 x Table: RecordTable (key → record), expiries
//!      │         ├─ Heap: every record, near or far, placed by the policy
//!      │         └─ Larges: the tables of large hashes and sorted sets
//!      ├─ Migration: hot records are promoted, cold ones demoted
//!      └─ DeferredFrees: what was unlinked is freed later
//! ```
//!
//! Everything here belongs to one thread. A key is hashed once: [`Key`] keeps its location, so
//! a write after a lookup goes there directly. Keys of requests that have arrived together are
//! found together ([`Db::find_many`]), as one group of lookups that hide each other's misses, near and
//! far. Time is set once a tick ([`Keyspace::set_now`]), and an entry whose time has come is gone for all clients from
//! then on.
//!
//! By-score and by-lex ranges of sorted sets are ranges of ranks: [`Db::zset_below_score`] and
//! [`Db::zset_below_member`] say where they begin and end.

mod bulk_build;
mod chooser;
mod db;
mod deferred;
mod duplicate;
mod entry;
mod eviction;
mod expiry;
mod expiry_queue;
mod hash;
mod headroom;
mod heap;
mod key;
mod large;
mod lookup;
mod member;
mod migration;
mod order;
mod packed;
mod parts;
mod prefetch;
mod record;
mod settings;
mod store;
mod string;
mod table;
#[cfg(test)]
mod tests;
mod window;
mod zset;

use std::sync::Arc;

use tierra_index::RecordTable;
use tierra_memory::slab::{RecordMemory, RecordMemoryOptions, TierUse};
use tierra_memory::{FarSource, RegionError, Speed};

pub use bulk_build::BuildError;
pub use db::Db;
pub use entry::{Expiry, Kind, LiveEntry};
pub use eviction::{Eviction, Room};
pub use hash::HashIter;
pub use heap::MemoryFull;
pub use key::{Found, Key};
pub use record::KEY_BYTES_MAX;
pub use settings::{Policy, Settings};
pub use table::{DATABASES, DbId};
pub use tierra_memory::placement::Migrations;
pub use window::{WINDOW_KEYS, WindowStats};
pub use zset::ZsetRange;

use chooser::Chooser;
use heap::Heap;

/// How a keyspace begins.
#[derive(Clone, Debug, Default)]
pub struct KeyspaceOptions {
    /// Where records go. All of it can be changed later.
    pub settings: Settings,
    /// Where far memory comes from.
    pub far: FarSource,
    /// Whether the tables of keys, fields and members are in far memory as well.
    pub far_tables: bool,
    /// Bytes of far memory that records may hold; 0 for as much as there is.
    pub far_bytes: u64,
}

/// The figures of memory for INFO.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Records in near memory.
    pub near: TierUse,
    /// Records in far memory.
    pub far: TierUse,
    /// Bytes of tables, orders and queues.
    pub table_bytes: u64,
    /// How much of that is far: tables, if they are to be.
    pub far_table_bytes: u64,
    /// Lookups in groups.
    pub windows: WindowStats,
    /// Records moved between tiers.
    pub migrations: Migrations,
}

/// All databases of one shard.
pub struct Keyspace {
    db: Db,
}

impl Keyspace {
    /// Sixteen empty databases.
    ///
    /// # Errors
    /// Where not even addresses can be had, or for a node or directory that cannot be far memory.
    pub fn new(options: &KeyspaceOptions) -> Result<Keyspace, RegionError> {
        let memory = RecordMemory::new(&RecordMemoryOptions {
            near_bytes: options.settings.near_bytes,
            far_bytes: if options.far_bytes == 0 {
                u64::MAX
            } else {
                options.far_bytes
            },
            far: options.far.clone(),
        })?;
        let heap = Heap::new(memory, Chooser::new(options.settings.clone()));
        let table = if options.far_tables {
            RecordTable::in_far(Arc::new(options.far.clone()))
        } else {
            RecordTable::new()
        };
        Ok(Keyspace {
            db: Db::new(heap, table),
        })
    }

    /// A database.
    ///
    /// # Panics
    /// Where there is none of that number; SELECT refuses those.
    #[inline]
    pub fn db(&mut self, id: DbId) -> &mut Db {
        self.db.select(usize::from(id));
        &mut self.db
    }

    /// The database selected last, to read from.
    #[inline]
    pub fn selected(&self) -> &Db {
        &self.db
    }

    /// The number of keys of a database, including expired ones that have not been accessed since.
    pub fn len_of(&self, id: DbId) -> usize {
        self.db.store.tables[usize::from(id)].records.len()
    }

    /// How many keys of a database will expire.
    pub fn expiring_of(&self, id: DbId) -> usize {
        self.db.store.tables[usize::from(id)].expiring
    }

    /// Exchanges the contents of two databases.
    pub fn swap(&mut self, a: DbId, b: DbId) {
        self.db.store.tables.swap(usize::from(a), usize::from(b));
        self.db.forget_found();
    }

    /// Removes all keys of all databases.
    pub fn clear(&mut self) {
        self.db.clear_all();
    }

    /// The number of expired keys removed on access since the last call.
    pub fn take_expired(&mut self) -> u64 {
        std::mem::take(&mut self.db.expired)
    }

    /// Frees some of what [`Db::unlink`] and expiry have left, some microseconds' worth. Whether there is more: to be called
    /// again now and then, until there is not.
    pub fn free_some(&mut self) -> bool {
        self.db.free_some()
    }

    /// Copies a value and its expiry to another key, whose own is replaced. False where there is nothing to copy.
    ///
    /// # Errors
    /// Where there is no memory for the copy; nothing has changed then.
    pub fn copy(
        &mut self,
        from: (DbId, &Key<'_>),
        to: (DbId, &Key<'_>),
    ) -> Result<bool, MemoryFull> {
        let Some(entry) = self.db(from.0).find(from.1) else {
            return Ok(false);
        };
        let copy = self.db.duplicate(entry, to.1.bytes)?;
        let db = self.db(to.0);
        db.remove(to.1);
        db.put(to.1, copy);
        Ok(true)
    }

    /// Gives a value and its expiry to another database that has no such key, without copying it. False where there is
    /// nothing to move.
    pub fn move_to(&mut self, from: (DbId, &Key<'_>), to: DbId) -> bool {
        let Some(entry) = self.db(from.0).find(from.1) else {
            return false;
        };
        self.db.forget(entry);
        self.db(to).put(&Key::new(from.1.bytes), entry.record);
        true
    }

    /// Says what time it is, in milliseconds since 1970.
    pub fn set_now(&mut self, now_ms: u64) {
        self.db.now_ms = now_ms;
    }

    /// Whether keys whose time has come stay until this is said otherwise. They are not found, and none may be written to meanwhile.
    pub fn keep_expired(&mut self, keeps: bool) {
        self.db.keep_expired(keeps);
    }

    /// The time last set.
    pub fn now(&self) -> u64 {
        self.db.now_ms
    }

    /// Bytes of keys, values and tables: [`used_bytes`](Self::used_bytes) without the room that there is between records.
    /// What is deleted counts no more at once, whether pages become empty by it or not; a large value that is unlinked counts less and
    /// less as it is freed.
    pub fn stored_bytes(&self) -> u64 {
        self.db.stored_bytes()
    }

    /// Bytes of memory taken by keys, values and tables.
    pub fn used_bytes(&self) -> u64 {
        self.db.used_bytes()
    }

    /// Does a bounded share of what has to be done in the background, about a millisecond at most: to be called
    /// ten times a second, and again at once, when there is nothing else to do, as long as it returns `true`.
    pub fn tick(&mut self) -> bool {
        self.db.tick()
    }

    /// Where the memory is.
    pub fn report(&self) -> Report {
        Report {
            near: self.db.store.heap.memory.used(Speed::Near),
            far: self.db.store.heap.memory.used(Speed::Far),
            table_bytes: self.db.table_bytes(),
            far_table_bytes: self.db.far_table_bytes(),
            windows: self.db.windows,
            migrations: self.db.migration.mover.rounds.done(),
        }
    }

    /// The names of the settings that say where records go.
    pub fn settings() -> &'static [&'static str] {
        &settings::NAMES
    }

    /// The value of such a setting.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.db.store.heap.chooser.settings.get(name)
    }

    /// Changes such a setting.
    ///
    /// # Errors
    /// What is wrong with the value, or that it does not go together with others.
    pub fn set_setting(&mut self, name: &str, value: &str) -> Result<(), String> {
        let mut settings = self.placement().clone();
        settings.set(name, value)?;
        settings.check().map_err(|(_, why)| why)?;
        self.set_placement(settings);
        Ok(())
    }

    /// All of these settings.
    pub fn placement(&self) -> &Settings {
        &self.db.store.heap.chooser.settings
    }

    /// Changes all of them. Where they do not [go together](Settings::check), the least threshold is what holds.
    pub fn set_placement(&mut self, settings: Settings) {
        let heap = &mut self.db.store.heap;
        let is_other_policy = heap.chooser.settings.policy != settings.policy;
        let near_bytes = settings.near_bytes;
        heap.chooser = Chooser::new(settings);
        if is_other_policy {
            self.db.migration.restart();
            while heap.memory.cancel_evacuation(Speed::Near) {}
            heap.shortfall_bytes = 0;
        }
        heap.memory.set_limit(Speed::Near, near_bytes);
    }

    /// Whether requests are looked up in groups; on unless a measurement wants to know what it is worth.
    pub fn set_window(&mut self, on: bool) {
        self.db.has_window = on;
    }
}
