//! One thread's core of the modelled machine, and the clock that its waits go by.
//!
//! Invariant: a thread's state is its own; what threads share (bandwidth, the last-level cache) lies in
//! [`channel`](super::channel) and [`cache`](super::cache).

use std::cell::{Cell, RefCell};

use super::core::{Core, Stored};
use super::lines::Lines;
use super::own_work::OwnWork;
use super::stalled::Stalled;
use super::{clock, own_work, switch};
use crate::LINE_BYTES;
use crate::topology::SocketId;

thread_local! {
    static LOCAL: Local = const { Local::new() };
    static RECORDING: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

pub(super) struct Local {
    /// The state whose costs the core has; 0 if it has to look.
    state: Cell<u32>,
    /// The clock when it was last read: what was due by then is not waited for.
    now: Cell<u64>,
    stalled: Stalled,
    /// By how much waits end earlier than what they wait for.
    own_work: Cell<OwnWork>,
    recording: Cell<bool>,
    socket: Cell<SocketId>,
    core: RefCell<Core>,
    /// Whether the core keeps its costs whatever is emulated.
    is_apart: bool,
}

impl Local {
    const fn new() -> Local {
        Local {
            state: Cell::new(0),
            now: Cell::new(0),
            stalled: Stalled::new(),
            own_work: Cell::new(OwnWork { load: 0, store: 0 }),
            recording: Cell::new(false),
            socket: Cell::new(SocketId(0)),
            core: RefCell::new(Core::new()),
            is_apart: false,
        }
    }

    /// One with this core, apart from what is emulated.
    pub(super) fn apart(core: Core) -> Local {
        Local {
            core: RefCell::new(core),
            is_apart: true,
            ..Local::new()
        }
    }

    /// Reads the clock.
    fn tick(&self) -> u64 {
        let now = clock::now();
        self.now.set(now);
        now
    }

    /// Waits until a time that [`load`](Self::load), [`read`](Self::read) or [`store`](Self::store) returned.
    pub(super) fn wait_until(&self, time: u64) {
        self.stalled.add(self.hold_until(time));
    }

    /// The same, not counted; returns for how many ticks it waited.
    fn hold_until(&self, time: u64) -> u64 {
        if time <= self.now.get() {
            return 0;
        }
        let began = self.tick();
        while self.now.get() < time {
            self.tick();
        }
        self.now.get().saturating_sub(began)
    }

    /// A load issued now: until when to wait for it, 0 if it has arrived.
    #[inline(always)]
    pub(super) fn load(&self, address: usize, len_bytes: usize) -> u64 {
        if self.recording.get() {
            record(address, len_bytes);
        }
        let arrives = self.with_core(|core| core.load(address, len_bytes, || self.tick()));
        arrives.saturating_sub(self.own_work.get().load)
    }

    /// A block read in order from now on: until when to wait for it, 0 if nothing limits it.
    fn read(&self, address: usize, len_bytes: usize) -> u64 {
        let ends = self.with_core(|core| core.read(address, len_bytes, || self.tick()));
        ends.saturating_sub(self.own_work.get().load)
    }

    /// Bytes stored now: until when to wait for them, 0 if nothing limits it.
    pub(super) fn store(&self, address: usize, len_bytes: usize, how: Stored) -> u64 {
        let until = self.with_core(|core| core.store(address, len_bytes, how, || self.tick()));
        until.saturating_sub(self.own_work.get().store)
    }

    /// The core, at the costs that are in force.
    #[inline]
    fn with_core<R>(&self, work: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.core.borrow_mut();
        if self.state.get() != switch::state() && !self.is_apart {
            self.state
                .set(switch::restart(&mut core, self.socket.get()));
            self.own_work.set(own_work::ticks(core.has_cache()));
        }
        work(&mut core)
    }
}

/// A load issued now that concerns emulation; returns until when to wait for it, 0 if it has arrived.
#[inline(never)]
pub(super) fn load(address: usize, len_bytes: usize) -> u64 {
    LOCAL.with(|local| local.load(address, len_bytes))
}

/// The time now, at which the lines of an object are asked for; what the model will need to know when they arrive is
/// fetched.
#[inline(never)]
pub(super) fn ask(address: usize, len_bytes: usize) -> u64 {
    LOCAL.with(|local| {
        if local.recording.get() {
            record(address, len_bytes);
        }
        local.with_core(|core| core.prepare(address, len_bytes));
        local.tick()
    })
}

/// Waits for lines that were asked for at a time.
#[inline(never)]
pub(super) fn arrive(address: usize, len_bytes: usize, asked: u64) {
    LOCAL.with(|local| {
        let arrives = local.with_core(|core| core.load(address, len_bytes, || asked));
        local.wait_until(arrives.saturating_sub(local.own_work.get().load));
    });
}

/// Waits for a load of a mode that gives way.
#[inline(never)]
pub(super) fn wait_until(time: u64) {
    LOCAL.with(|local| local.wait_until(time));
}

/// Waits for a load just issued in a mode that does not give way, or for an earlier one where several are
/// taken to overlap.
#[inline(never)]
pub(super) fn wait_in_place() {
    LOCAL.with(|local| {
        let arrives = local.with_core(|core| core.held_up_until());
        local.wait_until(arrives.saturating_sub(local.own_work.get().load));
    });
}

/// Asks for the beginning of a block that will be read in order.
pub(super) fn prefetch(address: usize, len_bytes: usize) {
    if len_bytes == 0 {
        return;
    }
    LOCAL.with(|local| local.with_core(|core| core.prefetch(address, len_bytes, || local.tick())));
}

/// Begins to read a block in order; returns until when to wait for its end, 0 if nothing limits it.
pub(super) fn read(address: usize, len_bytes: usize) -> u64 {
    if len_bytes == 0 {
        return 0;
    }
    LOCAL.with(|local| local.read(address, len_bytes))
}

/// Reads a block in order, waits until it has arrived, and leaves it in the modelled cache.
pub(super) fn fetch_for_others(address: usize, len_bytes: usize) {
    if len_bytes == 0 {
        return;
    }
    LOCAL.with(|local| {
        let until = local.read(address, len_bytes);
        if until != 0 {
            local.hold_until(until);
            local.with_core(|core| core.leave_cached(address, len_bytes));
        }
    });
}

/// Stores bytes; returns until when to wait for them, 0 if nothing limits it.
pub(super) fn store(address: usize, len_bytes: usize, how: Stored) -> u64 {
    if len_bytes == 0 {
        return 0;
    }
    LOCAL.with(|local| local.store(address, len_bytes, how))
}

/// Waits until this thread's writes so far are durable.
pub(super) fn wait_durable() {
    LOCAL.with(|local| {
        let durable_at = local.with_core(|core| core.durable_at());
        if durable_at != 0 {
            local.wait_until(durable_at.saturating_sub(local.own_work.get().store));
            local.with_core(|core| core.fenced(local.now.get()));
        }
    });
}

/// Moves the thread to another socket; returns that where it was.
pub(super) fn move_to(socket: SocketId) -> SocketId {
    LOCAL.with(|local| {
        // Costs depend on the socket: they are looked up again.
        local.state.set(0);
        local.socket.replace(socket)
    })
}

#[cold]
fn record(address: usize, len_bytes: usize) {
    let lines = Lines::of(address, len_bytes);
    RECORDING.with_borrow_mut(|recording| {
        if let Some(recording) = recording {
            recording.extend((lines.first..=lines.last()).map(|line| line as usize * LINE_BYTES));
        }
    });
}

/// Records the lines that this thread's lookups ask for, in order, until [`end_recording`].
pub(crate) fn start_recording() {
    RECORDING.set(Some(Vec::new()));
    LOCAL.with(|local| local.recording.set(true));
}

/// The addresses of the lines asked for since [`start_recording`].
pub(crate) fn end_recording() -> Vec<usize> {
    LOCAL.with(|local| local.recording.set(false));
    RECORDING.take().unwrap_or_default()
}
