//! The one template that every composition is generated from.
//!
//! Invariant: on return all copies are durable: what each step flushed is either fenced at once, or is in
//! flight until the one fence at the end, or until that of several sets ([`Later`]).

use super::composition::{Composition, CopyBy, Master, Waits};
use crate::pool::{PersistLayer, Persisted, PoolError, Replica, ViaPool};

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
    run(
        composition,
        std::slice::from_ref(copy),
        SingleWrite(at, bytes),
    )
    .map(drop)
}

/// A list of writes, done in order.
pub(super) trait WriteList<'b> {
    /// Calls `write` for each, up to the first that fails.
    fn try_each(
        self,
        write: impl FnMut(u64, &'b [u8]) -> Result<(), PoolError>,
    ) -> Result<(), PoolError>;
}

/// A single write, the most common case. A loop over an iterator of one makes an update of a word 8 % slower, of
/// a word and three replicas 15 %.
pub(super) struct SingleWrite<'b>(pub(super) u64, pub(super) &'b [u8]);

impl<'b> WriteList<'b> for SingleWrite<'b> {
    #[inline(always)]
    fn try_each(
        self,
        mut write: impl FnMut(u64, &'b [u8]) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        write(self.0, self.1)
    }
}

impl<'b, I: Iterator<Item = (u64, &'b [u8])>> WriteList<'b> for I {
    #[inline(always)]
    fn try_each(
        mut self,
        mut write: impl FnMut(u64, &'b [u8]) -> Result<(), PoolError>,
    ) -> Result<(), PoolError> {
        self.try_for_each(|(at, bytes)| write(at, bytes))
    }
}

/// When what is in flight at the end of a write is waited for.
pub(super) trait Fence<'t, B: PersistLayer> {
    /// What the caller has then.
    type Done;

    /// What is in flight already.
    fn begin(&mut self) -> B::InFlight<'t>;

    fn end<const EACH: bool>(self, steps: Steps<'t, B, EACH>) -> Result<Self::Done, PoolError>;
}

/// At its end.
pub(super) struct AtEnd;

impl<'t, B: PersistLayer> Fence<'t, B> for AtEnd {
    type Done = Persisted;

    #[inline(always)]
    fn begin(&mut self) -> B::InFlight<'t> {
        B::InFlight::default()
    }

    #[inline(always)]
    fn end<const EACH: bool>(self, steps: Steps<'t, B, EACH>) -> Result<Persisted, PoolError> {
        steps.end()
    }
}

/// Later, with what others have in flight.
pub(super) struct Later<'i, 't, B: PersistLayer>(pub(super) &'i mut B::InFlight<'t>);

impl<'t, B: PersistLayer> Fence<'t, B> for Later<'_, 't, B> {
    type Done = ();

    fn begin(&mut self) -> B::InFlight<'t> {
        std::mem::take(self.0)
    }

    fn end<const EACH: bool>(self, steps: Steps<'t, B, EACH>) -> Result<(), PoolError> {
        *self.0 = steps.in_flight;
        Ok(())
    }
}

/// Runs a composition on copies, the master first: compiled alone, so that what it leaves out costs nothing.
#[inline(always)]
pub(super) fn run<'b, B: PersistLayer>(
    composition: Composition,
    copies: &[Replica<B>],
    writes: impl WriteList<'b>,
) -> Result<Persisted, PoolError> {
    run_until(composition, copies, writes, AtEnd)
}

/// The same with another fence.
#[inline(always)]
pub(super) fn run_until<'b, 't, B: PersistLayer, F: Fence<'t, B>>(
    composition: Composition,
    copies: &'t [Replica<B>],
    writes: impl WriteList<'b>,
    fence: F,
) -> Result<F::Done, PoolError> {
    let Composition {
        waits,
        master,
        prefetch,
        copy,
    } = composition;
    match (waits, prefetch) {
        (Waits::Each, false) => choose::<B, _, F, true, false>(master, copies, copy, writes, fence),
        (Waits::Each, true) => choose::<B, _, F, true, true>(master, copies, copy, writes, fence),
        (Waits::Once, false) => {
            choose::<B, _, F, false, false>(master, copies, copy, writes, fence)
        }
        (Waits::Once, true) => choose::<B, _, F, false, true>(master, copies, copy, writes, fence),
    }
}

#[inline(always)]
fn choose<'b, 't, B: PersistLayer, P, F, const EACH: bool, const PREFETCH: bool>(
    master: Master,
    copies: &'t [Replica<B>],
    copy: CopyBy,
    writes: P,
    fence: F,
) -> Result<F::Done, PoolError>
where
    P: WriteList<'b>,
    F: Fence<'t, B>,
{
    match master {
        Master::Pre => generated::<B, P, F, EACH, PREFETCH, PRE>(copies, copy, writes, fence),
        Master::Post => generated::<B, P, F, EACH, PREFETCH, POST>(copies, copy, writes, fence),
        Master::Streamed => {
            generated::<B, P, F, EACH, PREFETCH, STREAMED>(copies, copy, writes, fence)
        }
    }
}

/// A function of its own for each composition, as the thesis has them: only how bytes get into replicas is
/// asked inside.
#[inline(never)]
fn generated<
    'b,
    't,
    B: PersistLayer,
    P,
    F,
    const EACH: bool,
    const PREFETCH: bool,
    const MASTER: MasterCode,
>(
    copies: &'t [Replica<B>],
    copy: CopyBy,
    writes: P,
    mut fence: F,
) -> Result<F::Done, PoolError>
where
    P: WriteList<'b>,
    F: Fence<'t, B>,
{
    let (master, replicas) = copies.split_first().expect("a set has a master");
    let mut steps = Steps::<B, EACH> {
        in_flight: fence.begin(),
        last: None,
    };
    writes.try_each(|at, bytes| {
        if PREFETCH {
            replicas.iter().for_each(|replica| replica.prefetch(at));
        }
        let mut postponed = None;
        if MASTER == STREAMED {
            steps.wait(master, master.stream(at, bytes)?)?;
        } else {
            let stored = master.store(at, bytes)?;
            match MASTER == PRE {
                true => steps.wait(master, master.flush(stored)?)?,
                false => postponed = Some(stored),
            }
        }
        match copy {
            CopyBy::Stores | CopyBy::Threads(_) => {
                for replica in replicas {
                    let stored = replica.store(at, bytes)?;
                    steps.wait(replica, replica.flush(stored)?)?;
                }
            }
            CopyBy::Streams => {
                for replica in replicas {
                    steps.wait(replica, replica.stream(at, bytes)?)?;
                }
            }
            CopyBy::Scatter(leave) => {
                Replica::scatter(leave, replicas, at, bytes)?;
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
    fence.end(steps)
}

/// What has been flushed so far.
pub(super) struct Steps<'t, B: PersistLayer + 't, const EACH: bool> {
    in_flight: B::InFlight<'t>,
    last: Option<Persisted>,
}

impl<'t, B: PersistLayer + 't, const EACH: bool> Default for Steps<'t, B, EACH> {
    fn default() -> Self {
        Steps {
            in_flight: B::InFlight::default(),
            last: None,
        }
    }
}

impl<'t, B: PersistLayer, const EACH: bool> Steps<'t, B, EACH> {
    /// Fences now, or leaves it to the one fence.
    #[inline(always)]
    pub(super) fn wait(
        &mut self,
        copy: &'t Replica<B>,
        flushed: B::Flushed,
    ) -> Result<(), PoolError> {
        match EACH {
            true => self.last = Some(copy.fence(flushed)?),
            false => copy.join(&mut self.in_flight, flushed),
        }
        Ok(())
    }

    /// Waits for all that was not waited for yet.
    #[inline(always)]
    pub(super) fn end(self) -> Result<Persisted, PoolError> {
        match self.last {
            // Each was waited for when this one was.
            Some(persisted) => Ok(persisted),
            None => Replica::<B>::fence_all(self.in_flight),
        }
    }
}
