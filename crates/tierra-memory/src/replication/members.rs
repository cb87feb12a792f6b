//! Adding, moving and dropping replicas while the set is written to.
//!
//! 1. [`ReplicaSet::add`]: from now on every write reaches the new copy too, which is not used for reads yet.
//! 2. [`ReplicaSet::catch_up`], between writes and as often as wanted, copies what was there before.
//! 3. The owner publishes the names of [`ReplicaSet::members`], in which the new copy is now.
//!
//! To drop a copy the owner publishes names without it, and then calls [`ReplicaSet::drop_copy`]. To move one
//! is to add one and to drop one: between the two publications, or with one that does both.
//!
//! Invariant: every copy that the owner's published names may name is written to. A copy is named only after it
//! has caught up, and given up only after it is no longer named; so whatever names a crash leaves, their
//! copies have all writes that returned.

use std::sync::Arc;

use super::{Joining, MAX_REPLICAS, Member, ReplicaSet, ReplicationError};
use crate::pool::{Extent, Pool};

impl ReplicaSet {
    /// Begins to add a replica, a log as long as the others, whatever it holds. Writes reach it from now on;
    /// it counts as a copy when [`ReplicaSet::catch_up`] says so.
    ///
    /// # Errors
    /// As [`ReplicaSet::open`], and [`ReplicationError::Joining`] while another one is being added. The set
    /// is as before.
    pub fn add(&mut self, pool: &Arc<Pool>, extent: Extent) -> Result<(), ReplicationError> {
        if self.joining.is_some() {
            return Err(ReplicationError::Joining);
        }
        if self.copies.len() > MAX_REPLICAS {
            return Err(ReplicationError::Copies {
                copies: self.copies.len() + 1,
            });
        }
        let log = self.checked(pool, extent, self.copies.len())?;
        self.copies.push(log);
        self.joining = Some(Joining::default());
        self.copies_changed();
        Ok(())
    }

    /// Copies up to `most_bytes` more to the replica that is being added, durably on return. Whether it has
    /// caught up, and is a copy like the others: also where none is being added.
    ///
    /// # Errors
    /// [`ReplicationError::Pool`]: the set writes no more before it is opened again, or, where the new
    /// replica's pool failed, before [`ReplicaSet::cancel_add`].
    pub fn catch_up(&mut self, most_bytes: u64) -> Result<bool, ReplicationError> {
        let Some(joining) = self.joining else {
            return Ok(true);
        };
        self.refuse_if_poisoned()?;
        let from = joining.equal_bytes;
        let equal_bytes = self.len_bytes.min(from.saturating_add(most_bytes));
        let bytes = &self.master().bytes()[from as usize..equal_bytes as usize];
        let copies = self.written.by_pool();
        copies[copies.len() - 1].catch_up(from, bytes)?;
        self.joining = (equal_bytes < self.len_bytes).then_some(Joining { equal_bytes });
        Ok(self.joining.is_none())
    }

    /// Gives up the replica that is being added, if there is one.
    pub fn cancel_add(&mut self) {
        if self.joining.take().is_some() {
            self.copies.pop();
            self.copies_changed();
        }
    }

    /// The copies that have everything, the master first: the names to publish.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        let members = self.copies[..self.copies()].iter();
        members.map(|log| (Arc::clone(log.pool()), log.extent()))
    }

    /// Writes no longer reach that copy, which **nothing durable may name any more**: after a crash it would be
    /// used. Where it is the master, the first replica is from now on. Returns what the caller may free.
    ///
    /// # Errors
    /// [`ReplicationError::Copies`] if it is the last one, [`ReplicationError::Joining`] while one is being
    /// added, because it may be what that one is copied from.
    ///
    /// # Panics
    /// If there is no such copy.
    pub fn drop_copy(&mut self, copy: usize) -> Result<Member, ReplicationError> {
        if self.joining.is_some() {
            return Err(ReplicationError::Joining);
        }
        if self.copies.len() == 1 {
            return Err(ReplicationError::Copies { copies: 0 });
        }
        let log = self.copies.remove(copy);
        self.copies_changed();
        Ok((Arc::clone(log.pool()), log.extent()))
    }
}
