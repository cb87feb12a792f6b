//! The window between a request's arrival and its execution: all keys of a batch are looked up as one group.
//!
//! A batch is what has arrived on all connections, cut at [`REQUESTS`] requests and as many keys, so that
//! what is fetched for the last of them has not left the cache before it is used.

use crate::catalog::{BLOCKING, PAUSING, ResolvedCommand};
use crate::context::Shared;
use crate::keyspace::{DbId, Found, Keyspace, WINDOW_KEYS};
use crate::protocol::Request;

/// The most requests of a batch.
pub(super) const REQUESTS: usize = 128;

/// A request that waits for its batch.
pub(super) struct Pending {
    pub(super) slot: usize,
    pub(super) request: Request,
    pub(super) resolved: ResolvedCommand,
    /// The database in which its keys are looked up.
    pub(super) db: DbId,
    /// The range of its keys' lookup results in the batch: start and count.
    found: (u32, u32),
}

/// The requests that are executed together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) requests: Vec<Pending>,
    found: Vec<Found>,
    keys: usize,
    /// Their connections.
    pub(super) members: Vec<usize>,
}

impl Batch {
    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= REQUESTS || self.keys >= WINDOW_KEYS
    }

    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.found.clear();
        self.members.clear();
        self.keys = 0;
    }

    /// Moves the requests from `first` on, which there was no time for, to the end of another batch.
    pub(super) fn postpone(&mut self, first: usize, late: &mut Batch) {
        let found = late.found.len() as u32;
        late.found.append(&mut self.found);
        late.requests
            .extend(self.requests.drain(first..).map(|pending| Pending {
                found: (pending.found.0 + found, pending.found.1),
                ..pending
            }));
    }

    /// Adds a request. `looked_up` says whether its keys are to be looked up, because it will be executed. Returns whether it
    /// has to be executed before the next request of its connection is parsed.
    #[inline]
    pub(super) fn add(
        &mut self,
        shared: &Shared,
        slot: usize,
        request: Request,
        resolved: ResolvedCommand,
        db: DbId,
        looked_up: bool,
    ) -> bool {
        let (mut keys, mut is_barrier) = (0, false);
        if let ResolvedCommand::Command(id) = resolved {
            let command = shared.catalog.get(id).command;
            is_barrier = command.flags & (BLOCKING | PAUSING) != 0;
            if looked_up && command.keys.first != 0 && command.takes(request.count as usize) {
                keys = command
                    .keys
                    .indices(request.count as usize)
                    .len()
                    .min(WINDOW_KEYS - self.keys);
            }
        }
        self.requests.push(Pending {
            slot,
            request,
            resolved,
            db,
            found: (0, keys as u32),
        });
        self.keys += keys;
        is_barrier
    }

    /// The lookup results of a request's keys, if they were looked up in this database.
    #[inline]
    pub(super) fn found(&self, index: usize, db: DbId) -> &[Found] {
        let pending = &self.requests[index];
        let (first, count) = (pending.found.0 as usize, pending.found.1 as usize);
        if pending.db == db {
            self.found.get(first..first + count).unwrap_or_default()
        } else {
            &[]
        }
    }

    /// Looks up all keys: those of one database that follow each other are one group.
    pub(super) fn look_up(&mut self, shared: &Shared, keyspace: &mut Keyspace) {
        let mut group: [&[u8]; WINDOW_KEYS] = [&[]; WINDOW_KEYS];
        let (mut len, mut db) = (0, 0);
        for pending in &mut self.requests {
            let (ResolvedCommand::Command(id), wanted @ 1..) =
                (pending.resolved, pending.found.1 as usize)
            else {
                continue;
            };
            let Some(connection) = &shared.connections[pending.slot] else {
                pending.found.1 = 0;
                continue;
            };
            if pending.db != db && len > 0 {
                keyspace.db(db).find_many(&group[..len], &mut self.found);
                len = 0;
            }
            db = pending.db;
            pending.found.0 = (self.found.len() + len) as u32;
            let args = connection.args(pending.request);
            for index in shared
                .catalog
                .get(id)
                .command
                .keys
                .indices(args.len())
                .take(wanted)
            {
                group[len] = args.at(index);
                len += 1;
            }
        }
        if len > 0 {
            keyspace.db(db).find_many(&group[..len], &mut self.found);
        }
    }
}
