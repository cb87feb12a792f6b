//! `SIGBUS`, caught: memory that is gone costs a page of a pool, not the process.
//!
//! A load from a mapped file raises the signal where the memory below reports an error that it cannot
//! correct (a machine check), where the file was cut short, and where its file system has no page left.
//! The handler notes the page in a list that the pool empties ([`Watched::take`]), advances the
//! pool's fault epoch, and only then maps an anonymous page of zeros over it, so that the load goes on. No
//! long jumps: a reader of zeros notices by the epoch.
//!
//! Invariant: a handler takes no lock, allocates nothing and calls nothing but `mmap`; no thread sees a page of
//! zeros before its note and its epoch are visible. What a handler reads is never freed: records of pools that
//! were closed are used again by later ones.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence,
};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

use crate::trouble;

/// Pages that can be noted before the notes have to be taken.
const NOTES: usize = 1024;

/// What the handler knows of a pool.
#[derive(Debug)]
struct Record {
    /// Addresses of the pool; `start` is zero while the record is free.
    start: AtomicUsize,
    end: AtomicUsize,
    /// What is lost at a time: a page, or what the device maps as one.
    unit_bytes: AtomicUsize,
    /// Numbers of lost pages, counted from one.
    notes: [AtomicU64; NOTES],
    /// Whether there were more.
    overflowed: AtomicBool,
    /// Whether a page was noted since this was last cleared.
    has_new_losses: AtomicBool,
    epoch: AtomicU64,
    /// Handlers at work.
    handling: AtomicU32,
    next: AtomicPtr<Record>,
}

/// All records, the newest first.
static RECORDS: AtomicPtr<Record> = AtomicPtr::new(ptr::null_mut());
/// Held while a record is taken or given back; never by a handler.
static TAKING: Mutex<()> = Mutex::new(());
/// The signal action before this one was installed.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// A range of addresses whose faults are caught as long as this lives. It must be dropped before the range
/// is given back.
#[derive(Debug)]
pub(crate) struct Watched {
    record: &'static Record,
}

/// Lost pages, as noted.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Where they begin, in bytes from the start of the range; in no order, some twice.
    pub(crate) pages: Vec<u64>,
    /// Whether there are others.
    pub(crate) overflowed: bool,
}

impl Watched {
    /// Catches faults of what begins at `start`, a multiple of `unit_bytes`, which is what is lost at a time: nothing yet, see
    /// [`Watched::extend`]. The first call of the process installs the handler.
    pub(crate) fn new(start: usize, unit_bytes: u64) -> io::Result<Watched> {
        // Guards no data that a panic could leave half done.
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let free = records().find(|record| record.start.load(Ordering::Relaxed) == 0);
        let record = free.unwrap_or_else(|| {
            let record: &'static Record = Box::leak(Box::new(Record::empty()));
            let newest = RECORDS.load(Ordering::Relaxed);
            record.next.store(newest, Ordering::Relaxed);
            RECORDS.store(ptr::from_ref(record).cast_mut(), Ordering::Release);
            record
        });
        record
            .notes
            .iter()
            .for_each(|note| note.store(0, Ordering::Relaxed));
        record.overflowed.store(false, Ordering::Relaxed);
        record.has_new_losses.store(false, Ordering::Relaxed);
        record.epoch.store(0, Ordering::Relaxed);
        record.end.store(start, Ordering::Relaxed);
        record
            .unit_bytes
            .store(unit_bytes as usize, Ordering::Relaxed);
        record.start.store(start, Ordering::Release);
        Ok(Watched { record })
    }

    /// Catches faults up to `end`, where only what is mapped from the file may lie.
    pub(crate) fn extend(&self, end: usize) {
        self.record.end.store(end, Ordering::Release);
    }

    /// Counts faults: if it is what it was, nothing read before this call was lost meanwhile.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        // Loads of what may have been lost come before the load of the epoch.
        fence(Ordering::Acquire);
        self.record.epoch.load(Ordering::Acquire)
    }

    /// Counts a loss that was found without a signal.
    pub(crate) fn advance(&self) {
        self.record.epoch.fetch_add(1, Ordering::AcqRel);
        self.record.has_new_losses.store(true, Ordering::Release);
        trouble::happened();
    }

    /// Whether a page was noted since the last [`Watched::take`]. Stores that this thread made before the call
    /// have had their signal.
    #[inline]
    pub(crate) fn has_new_losses(&self) -> bool {
        // The handler runs on this thread at the store: only the compiler could move it behind the load.
        compiler_fence(Ordering::SeqCst);
        self.record.has_new_losses.load(Ordering::Acquire)
    }

    /// Takes what was noted. Two do not take at a time.
    pub(crate) fn take(&self) -> Notes {
        // Cleared first: what is noted behind the swaps below sets it again.
        self.record.has_new_losses.store(false, Ordering::SeqCst);
        let mut notes = Notes::default();
        let unit_bytes = self.record.unit_bytes.load(Ordering::Relaxed) as u64;
        for note in &self.record.notes {
            match note.swap(0, Ordering::AcqRel) {
                0 => {}
                number => notes.pages.push((number - 1) * unit_bytes),
            }
        }
        notes.overflowed = self.record.overflowed.swap(false, Ordering::AcqRel);
        notes
    }

    /// Waits until no handler is at work: whatever was noted has its page of zeros by then, and none of
    /// them comes late to cover a page that is cleared now.
    pub(crate) fn wait_for_handlers(&self) {
        while self.record.handling.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        self.record.start.store(0, Ordering::Release);
    }
}

impl Record {
    fn empty() -> Record {
        Record {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            unit_bytes: AtomicUsize::new(0),
            notes: [const { AtomicU64::new(0) }; NOTES],
            overflowed: AtomicBool::new(false),
            has_new_losses: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            handling: AtomicU32::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Where an address lies in the pool, if it does.
    fn offset(&self, address: usize) -> Option<usize> {
        let start = self.start.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Relaxed);
        // A record may change hands between the loads, but not that of a pool that is being read.
        fence(Ordering::Acquire);
        let is_same = self.start.load(Ordering::Relaxed) == start;
        (start != 0 && is_same && (start..end).contains(&address)).then(|| address - start)
    }

    fn note(&self, number: u64) {
        for note in &self.notes {
            match note.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(found) if found == number => return,
                Err(_) => {}
            }
        }
        self.overflowed.store(true, Ordering::Release);
    }

    /// Has zeros at an address that lies `offset` bytes into the pool.
    fn cover(&self, address: usize, offset: usize) -> bool {
        let page_bytes = self.unit_bytes.load(Ordering::Relaxed);
        let into_page = offset % page_bytes;
        self.handling.fetch_add(1, Ordering::SeqCst);
        // Before any thread can read zeros.
        self.note(((offset - into_page) / page_bytes) as u64 + 1);
        self.has_new_losses.store(true, Ordering::SeqCst);
        self.epoch.fetch_add(1, Ordering::SeqCst);
        trouble::happened();
        // A device's mapping can be replaced in its units only, however little was lost of one.
        // SAFETY: replaces one page of a pool's mapping, which is the pool's for its whole life, by zeros; a
        // page that cannot be read holds nothing in use. The pool's end and its pages are aligned.
        let covered = unsafe {
            mmap_anonymous(
                ptr::with_exposed_provenance_mut(address - into_page),
                page_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE,
            )
        };
        self.handling.fetch_sub(1, Ordering::SeqCst);
        covered.is_ok()
    }
}

fn records() -> impl Iterator<Item = &'static Record> {
    // SAFETY: what the list points to was leaked, so it is there for ever.
    let record = |at: &AtomicPtr<Record>| unsafe { at.load(Ordering::Acquire).as_ref() };
    std::iter::successors(record(&RECORDS), move |found| record(&found.next))
}

/// Installs the handler unless it is. The caller holds [`TAKING`].
fn install() -> io::Result<()> {
    if PREVIOUS.get().is_some() {
        return Ok(());
    }
    let mut previous = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks for the present action only, into memory of its type.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), previous.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled in by the call.
    let previous = unsafe { previous.assume_init() };
    // SAFETY: all zeros are a valid action, of no flags and an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = handle;
    action.sa_sigaction = handler as usize;
    // On the stack for signals, where a thread has one: its own may have overflowed.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // Before the handler can be asked for it. Set once, under the lock.
    let _ = PREVIOUS.set(previous);
    // SAFETY: the handler keeps to what may be called in a signal, as this file's head says.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel hands a valid record to a handler with SA_SIGINFO; the address is one of those
    // signals that the kernel itself sends, which is looked at first.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr()) };
    let is_of_memory = (libc::BUS_ADRERR..=libc::BUS_MCEERR_AO).contains(&code);
    let address = address.expose_provenance();
    let covered = is_of_memory
        && records().any(|record| {
            let offset = record.offset(address);
            offset.is_some_and(|offset| record.cover(address, offset))
        });
    if !covered {
        pass_on(signal, code, info, context);
    }
}

/// Calls the previous handler.
fn pass_on(signal: c_int, code: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else {
        return;
    };
    // Raised by the processor at an instruction that will fault again; not sent by a process, or later.
    let comes_again = (libc::BUS_ADRALN..=libc::BUS_MCEERR_AR).contains(&code);
    match previous.sa_sigaction {
        libc::SIG_IGN if !comes_again => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: both may be called in a signal. The default action ends the process, as it would
            // have: once the instruction faults again, or when the signal sent here is delivered.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if !comes_again {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
            // SAFETY: the action says that it is a function of this kind.
            let handler = unsafe { std::mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler without SA_SIGINFO is a function of this kind.
            let handler = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
            handler(signal);
        }
    }
}
