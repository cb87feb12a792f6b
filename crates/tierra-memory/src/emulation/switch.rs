//! Turning emulation on and off while the process runs.
//!
//! Invariant: a state's number is used once. Threads compare it with the one whose costs they hold, and fetch
//! the new costs when they differ; 0 means that nothing is emulated or recorded, and native modes may run.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::core::Core;
use super::costs::TickCosts;
use super::description::cores;
use super::far::{self, Concern};
use super::numbers::{DEFAULT, MAX_DEVICES, NEAR};
use super::{EmulationError, FarMemory, cache, channel, clock, own_work};
use crate::topology::SocketId;

/// The number of the state that everyone is in.
static STATE: AtomicU32 = AtomicU32::new(0);

/// The number of the far memory that is emulated, 0 while none is.
static EMULATED: AtomicU32 = AtomicU32::new(0);

static SWITCH: Mutex<Switch> = Mutex::new(Switch {
    devices: [None; MAX_DEVICES],
    last: None,
    settings: 0,
    recorders: 0,
    states: 0,
});

struct Switch {
    /// Far memories by their numbers. That of number [`DEFAULT`] is there while emulation is on.
    devices: [Option<FarMemory>; MAX_DEVICES],
    /// The far memory emulated last: the modelled cache was filled under it.
    last: Option<FarMemory>,
    /// Its number: so many times another one was emulated than before.
    settings: u32,
    /// Recordings under way.
    recorders: u32,
    /// States so far.
    states: u32,
}

impl Switch {
    fn setting(&self) -> Option<FarMemory> {
        self.devices[DEFAULT]
    }

    /// Has every thread look again.
    fn announce(&mut self) {
        let free = |far: &FarMemory| {
            let sockets = [far.socket, SocketId(far.socket.0 ^ 1)];
            sockets
                .iter()
                .all(|socket| TickCosts::new(far, *socket, &clock::calibration()).free_loads)
        };
        far::set_concern(match self.setting() {
            _ if self.recorders > 0 => Concern::Everything,
            None => Concern::None,
            Some(far) if far.everywhere && !free(&far) => Concern::Everything,
            Some(_) if self.devices.iter().flatten().all(free) => Concern::None,
            Some(_) => Concern::Covered,
        });
        self.states = self.states.wrapping_add(1).max(1);
        let off = self.setting().is_none() && self.recorders == 0;
        STATE.store(if off { 0 } else { self.states }, Ordering::Release);
    }

    /// Another set of far memories than before: what was measured of the one says nothing about the other.
    fn renumber(&mut self) {
        self.settings = self.settings.wrapping_add(1).max(1);
        let emulated = if self.setting().is_some() {
            self.settings
        } else {
            0
        };
        EMULATED.store(emulated, Ordering::Relaxed);
        channel::clear();
    }
}

fn lock() -> MutexGuard<'static, Switch> {
    // Nothing is left half done by a panic: fields are plain values, and the state is announced last.
    SWITCH.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Emulates this far memory from now on, or none: for the whole process, lookups under way included.
///
/// The first call takes 20 ms to calibrate the clock. The modelled cache starts empty unless the same far
/// memory was emulated last, so that alternating on and off finds it as it was left.
///
/// # Errors
/// [`EmulationError::Senseless`], and the setting stays as it was.
pub fn set(far: Option<FarMemory>) -> Result<(), EmulationError> {
    if let Some(far) = &far {
        far.check()?;
        own_work::ticks(far.cache_bytes > 0);
        // Before threads that are bound to a core ask for their share.
        cores();
    }
    let mut switch = lock();
    if let Some(changed) = far.filter(|_| switch.last != far) {
        cache::clear(&cache::SETS[..cache::sets_of(changed.cache_bytes)]);
        switch.last = far;
        switch.settings = switch.settings.wrapping_add(1).max(1);
    }
    let emulated = far.map_or(0, |_| switch.settings);
    EMULATED.store(emulated, Ordering::Relaxed);
    channel::clear();
    switch.devices[DEFAULT] = far;
    switch.announce();
    Ok(())
}

/// Gives a checked far memory a number of its own; `None` if all are taken.
pub(super) fn add(far: FarMemory) -> Option<usize> {
    own_work::ticks(far.cache_bytes > 0);
    cores();
    let mut switch = lock();
    let number = (DEFAULT + 1..MAX_DEVICES).find(|number| switch.devices[*number].is_none())?;
    switch.devices[number] = Some(far);
    switch.renumber();
    switch.announce();
    Some(number)
}

/// Takes back the number of a far memory.
pub(super) fn remove(number: usize) {
    let mut switch = lock();
    switch.devices[number] = None;
    switch.renumber();
    switch.announce();
}

/// What is emulated now.
pub fn current() -> Option<FarMemory> {
    lock().setting()
}

/// Whether loads have to be looked at: emulation is on, or a recording under way. One relaxed load.
#[inline(always)]
pub fn is_on() -> bool {
    state() != 0
}

/// The number of the far memory that is emulated, 0 while none is. It stays the same while emulation is
/// switched off and on, and changes with the far memory. One relaxed load.
#[inline(always)]
pub(crate) fn emulated() -> u32 {
    EMULATED.load(Ordering::Relaxed)
}

/// The far memory emulated last, and its number.
#[cold]
pub(crate) fn last_emulated() -> (Option<FarMemory>, u32) {
    let switch = lock();
    (switch.last, switch.settings)
}

/// The number of the state, 0 where all is native.
#[inline(always)]
pub(super) fn state() -> u32 {
    STATE.load(Ordering::Relaxed)
}

/// Restarts the core of a thread that runs on a socket, at the costs in force; returns their state's number.
#[cold]
pub(super) fn restart(core: &mut Core, from: SocketId) -> u32 {
    let switch = lock();
    let mut costs = [TickCosts::NONE; MAX_DEVICES];
    if let Some(setting) = switch.setting() {
        let clock = clock::calibration();
        for (costs, far) in costs.iter_mut().zip(&switch.devices) {
            if let Some(far) = far {
                *costs = TickCosts::new(far, from, &clock);
            }
        }
        costs[NEAR] = TickCosts::near(&setting, from, &clock);
    }
    let (everywhere, cache_bytes) = switch
        .setting()
        .map_or((false, 0), |far| (far.everywhere, far.cache_bytes));
    core.restart(&costs, everywhere, cache::sets_of(cache_bytes));
    STATE.load(Ordering::Acquire)
}

/// Has lookups run in modes that can record, whether or not far memory is emulated.
pub(crate) fn hold_on() {
    let mut switch = lock();
    switch.recorders += 1;
    switch.announce();
}

/// Takes back one [`hold_on`].
pub(crate) fn release() {
    let mut switch = lock();
    switch.recorders -= 1;
    switch.announce();
}
