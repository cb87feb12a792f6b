//! The one template that every composition is generated from.
//!
//! Invariant: on return all copies are durable: what each step flushed is either fenced at once, or is in
//! flight until the one fence at the end.

use super::ReplicaSet;
use super::method::{Composition, CopyBy, Master, Waits};
use crate::pool::{Flushed, InFlight, Persisted, Place, PoolError, Unpersisted};

impl ReplicaSet {
    /// Runs a composition, compiled alone: what it leaves out costs nothing.
    pub(super) fn replicate(
        &self,
        composition: Composition,
        at: u64,
        bytes: &[u8],
    ) -> Result<Persisted, PoolError> {
        let Composition {
            waits,
            master,
            prefetch,
            copy,
        } = composition;
        match (waits, master, prefetch) {
            (Waits::Each, Master::Pre, false) => self.run::<true, true, false>(copy, at, bytes),
            (Waits::Each, Master::Pre, true) => self.run::<true, true, true>(copy, at, bytes),
            (Waits::Each, Master::Post, false) => self.run::<true, false, false>(copy, at, bytes),
            (Waits::Each, Master::Post, true) => self.run::<true, false, true>(copy, at, bytes),
            (Waits::Once, Master::Pre, false) => self.run::<false, true, false>(copy, at, bytes),
            (Waits::Once, Master::Pre, true) => self.run::<false, true, true>(copy, at, bytes),
            (Waits::Once, Master::Post, false) => self.run::<false, false, false>(copy, at, bytes),
            (Waits::Once, Master::Post, true) => self.run::<false, false, true>(copy, at, bytes),
        }
    }

    fn run<const EACH: bool, const PRE: bool, const PREFETCH: bool>(
        &self,
        copy: CopyBy,
        at: u64,
        bytes: &[u8],
    ) -> Result<Persisted, PoolError> {
        let (master, replicas) = (self.master(), self.replicas());
        let mut steps = Steps::<EACH> {
            in_flight: InFlight::none(),
        };
        if PREFETCH {
            replicas.iter().for_each(|replica| replica.prefetch(at));
        }
        let stored = master.store(at, bytes);
        let mut postponed = None;
        match PRE {
            true => steps.flush(master, stored)?,
            false => postponed = Some(stored),
        }
        match copy {
            CopyBy::Stores => {
                for replica in replicas {
                    steps.flush(replica, replica.store(at, bytes))?;
                }
            }
            CopyBy::Streams => {
                for replica in replicas {
                    let streamed = replica.stream(at, bytes);
                    steps.wait(replica, streamed.map_err(|e| replica.failed(e))?)?;
                }
            }
            CopyBy::Scatter(leave) => {
                for (replica, stored) in replicas
                    .iter()
                    .zip(Place::scatter(leave, replicas, at, bytes))
                {
                    steps.flush(replica, stored)?;
                }
            }
        }
        if let Some(stored) = postponed {
            steps.flush(master, stored)?;
        }
        steps.in_flight.fence().map_err(|e| master.failed(e))
    }
}

/// What has been flushed so far.
pub(super) struct Steps<'p, const EACH: bool> {
    pub(super) in_flight: InFlight<'p>,
}

impl<'p, const EACH: bool> Steps<'p, EACH> {
    pub(super) fn flush(
        &mut self,
        place: &Place,
        stored: Unpersisted<'p>,
    ) -> Result<(), PoolError> {
        let flushed = stored.flush().map_err(|e| place.failed(e))?;
        self.wait(place, flushed)
    }

    /// Fences now, or leaves it to the one fence.
    fn wait(&mut self, place: &Place, flushed: Flushed<'p>) -> Result<(), PoolError> {
        let waited = match EACH {
            true => flushed.fence().map(drop),
            false => self.in_flight.add(place, flushed),
        };
        waited.map_err(|e| place.failed(e))
    }
}
