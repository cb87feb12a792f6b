//! The one template that every composition is generated from.
//!
//! Invariant: on return all copies are durable: what each step flushed is either fenced at once, or is in
//! flight until the one fence at the end.

use super::composition::{Composition, CopyBy, Master, Waits};
use crate::pool::{Below, Persisted, PoolError, Replica, ViaPool};

/// When the master is flushed, as a parameter of functions.
type MasterCode = u8;
const PRE: MasterCode = Master::Pre as MasterCode;
const POST: MasterCode = Master::Post as MasterCode;
const STREAMED: MasterCode = Master::Streamed as MasterCode;

/// Writes one copy, durably: what a worker does.
pub(super) fn write_alone(
    copy: &Replica<ViaPool>,
    streams: bool,
    at: u64,
    bytes: &[u8],
) -> Result<(), PoolError> {
    let composition = Composition {
        master: match streams {
            true => Master::Streamed,
            false => Master::Pre,
        },
        ..Composition::BASIC
    };
    run(composition, std::slice::from_ref(copy), One(at, bytes)).map(drop)
}

/// Places to be written, in turn.
pub(super) trait Places<'b> {
    /// Hands each place over, up to the first that fails.
    fn try_each(
        self,
        write: impl FnMut(u64, &'b [u8]) -> Result<(), PoolError>,
    ) -> Result<(), PoolError>;
}

/// A single place, as most writes have. A loop over an iterator of one makes an update of a word 8 % slower, of
/// a word and three replicas 15 %.
pub(super) struct One<'b>(pub(super) u64, pub(super) &'b [u8]);

impl<'b> Places<'b> for One<'b> {
    #[inline(always)]
    fn try_each(
        self,
        mut write: impl FnMut(u64, &'b [u8]) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        write(self.0, self.1)
    }
}

impl<'b, I: Iterator<Item = (u64, &'b [u8])>> Places<'b> for I {
    #[inline(always)]
    fn try_each(
        mut self,
        mut write: impl FnMut(u64, &'b [u8]) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        self.try_for_each(|(at, bytes)| write(at, bytes))
    }
}

/// Runs a composition on copies, the master first: compiled alone, so that what it leaves out costs nothing.
#[inline(always)]
pub(super) fn run<'b, B: Below>(
    composition: Composition,
    copies: &[Replica<B>],
    places: impl Places<'b>,
) -> Result<Persisted, PoolError> {
    let Composition {
        waits,
        master,
        prefetch,
        copy,
    } = composition;
    match (waits, prefetch) {
        (Waits::Each, false) => choose::<B, _, true, false>(master, copies, copy, places),
        (Waits::Each, true) => choose::<B, _, true, true>(master, copies, copy, places),
        (Waits::Once, false) => choose::<B, _, false, false>(master, copies, copy, places),
        (Waits::Once, true) => choose::<B, _, false, true>(master, copies, copy, places),
    }
}

#[inline(always)]
fn choose<'b, B: Below, P, const EACH: bool, const PREFETCH: bool>(
    master: Master,
    copies: &[Replica<B>],
    copy: CopyBy,
    places: P,
) -> Result<Persisted, PoolError>
where
    P: Places<'b>,
{
    match master {
        Master::Pre => generated::<B, P, EACH, PREFETCH, PRE>(copies, copy, places),
        Master::Post => generated::<B, P, EACH, PREFETCH, POST>(copies, copy, places),
        Master::Streamed => generated::<B, P, EACH, PREFETCH, STREAMED>(copies, copy, places),
    }
}

/// A function of its own for each composition, as the thesis has them: only how bytes get into replicas is
/// asked inside.
#[inline(never)]
fn generated<'b, B: Below, P, const EACH: bool, const PREFETCH: bool, const MASTER: MasterCode>(
    copies: &[Replica<B>],
    copy: CopyBy,
    places: P,
) -> Result<Persisted, PoolError>
where
    P: Places<'b>,
{
    let (master, replicas) = copies.split_first().expect("a set has a master");
    let mut steps = Steps::<B, EACH>::default();
    places.try_each(|at, bytes| {
        if PREFETCH {
            replicas.iter().for_each(|replica| replica.prefetch(at));
        }
        let mut postponed = None;
        if MASTER == STREAMED {
            steps.wait(master, master.stream(at, bytes)?)?;
        } else {
            let stored = master.store(at, bytes);
            match MASTER == PRE {
                true => steps.wait(master, master.flush(stored)?)?,
                false => postponed = Some(stored),
            }
        }
        match copy {
            CopyBy::Stores | CopyBy::Threads(_) => {
                for replica in replicas {
                    let stored = replica.store(at, bytes);
                    steps.wait(replica, replica.flush(stored)?)?;
                }
            }
            CopyBy::Streams => {
                for replica in replicas {
                    steps.wait(replica, replica.stream(at, bytes)?)?;
                }
            }
            CopyBy::Scatter(leave) => {
                Replica::scatter(leave, replicas, at, bytes);
                for replica in replicas {
                    let stored = replica.scattered(at, bytes.len() as u64);
                    steps.wait(replica, replica.flush(stored)?)?;
                }
            }
        }
        if let Some(stored) = postponed {
            steps.wait(master, master.flush(stored)?)?;
        }
        Ok(())
    })?;
    steps.end(master)
}

/// What has been flushed so far.
pub(super) struct Steps<'t, B: Below + 't, const EACH: bool> {
    in_flight: B::InFlight<'t>,
    last: Option<Persisted>,
}

impl<'t, B: Below + 't, const EACH: bool> Default for Steps<'t, B, EACH> {
    fn default() -> Self {
        Steps {
            in_flight: B::InFlight::default(),
            last: None,
        }
    }
}

impl<'t, B: Below, const EACH: bool> Steps<'t, B, EACH> {
    /// Fences now, or leaves it to the one fence.
    #[inline(always)]
    pub(super) fn wait(
        &mut self,
        copy: &'t Replica<B>,
        flushed: B::Flushed,
    ) -> Result<(), PoolError> {
        match EACH {
            true => self.last = Some(copy.fence(flushed)?),
            false => copy.join(&mut self.in_flight, flushed)?,
        }
        Ok(())
    }

    /// Waits for all that was not waited for yet.
    #[inline(always)]
    pub(super) fn end(self, copy: &'t Replica<B>) -> Result<Persisted, PoolError> {
        match self.last {
            // Each was waited for when this one was.
            Some(persisted) => Ok(persisted),
            None => copy.fence_all(self.in_flight),
        }
    }
}
