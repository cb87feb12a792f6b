//! Turning emulation on and off while the process runs.
//!
//! Invariant: a state's number is used once. Threads compare it with the one whose costs they hold, and fetch
//! the new costs when they differ; 0 means that nothing is emulated or recorded, and native modes may run.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::costs::Costs;
use super::far::{self, Concern};
use super::{EmulationError, FarMemory, cache, channel, clock};

/// The number of the state that everyone is in.
static STATE: AtomicU32 = AtomicU32::new(0);

/// The number of the far memory that is emulated, 0 while none is.
static EMULATED: AtomicU32 = AtomicU32::new(0);

static SWITCH: Mutex<Switch> = Mutex::new(Switch {
    setting: None,
    costs: Costs::NONE,
    last: None,
    settings: 0,
    recorders: 0,
    states: 0,
});

struct Switch {
    setting: Option<FarMemory>,
    costs: Costs,
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
    /// Has every thread look again.
    fn announce(&mut self) {
        far::set_concern(if self.recorders > 0 {
            Concern::Everything
        } else if self.costs.free_loads {
            Concern::None
        } else if self.costs.everywhere {
            Concern::Everything
        } else {
            Concern::Covered
        });
        self.states = self.states.wrapping_add(1).max(1);
        let off = self.setting.is_none() && self.recorders == 0;
        STATE.store(if off { 0 } else { self.states }, Ordering::Release);
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
    let costs = match &far {
        Some(far) => {
            far.check()?;
            Costs::new(far, &clock::calibration())
        }
        None => Costs::NONE,
    };
    let mut switch = lock();
    if far.is_some() && switch.last != far {
        cache::clear(&cache::SETS[..costs.cache_sets]);
        switch.last = far;
        switch.settings = switch.settings.wrapping_add(1).max(1);
    }
    let emulated = far.map_or(0, |_| switch.settings);
    EMULATED.store(emulated, Ordering::Relaxed);
    channel::clear();
    switch.setting = far;
    switch.costs = costs;
    switch.announce();
    Ok(())
}

/// What is emulated now.
pub fn current() -> Option<FarMemory> {
    lock().setting
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

/// The costs of the state that is in force, and its number.
#[cold]
pub(super) fn costs() -> (Costs, u32) {
    let switch = lock();
    (switch.costs, STATE.load(Ordering::Acquire))
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
