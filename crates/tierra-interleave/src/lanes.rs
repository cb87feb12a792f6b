//! Lanes: the places of a group in which lookups lie while they take turns.
//!
//! ```text
//!   next ──▶ lane 0 │ lane 1 │ … │ lane g-1        an array wherever the group lies: frame or box
//!              ▲ polled in turn; ready? ──▶ done(tag, output), next lookup into the lane
//! ```
//!
//! Invariants:
//! - A lane is `live` exactly while it holds a lookup. The flag is set after the lookup has been
//!   written and cleared before the lookup is dropped, so that whatever panics (`next`, a lookup,
//!   `done`, a destructor), each lookup is dropped once and no vacant lane is read.
//! - A lookup stays where it was written until it is dropped there: lanes are pinned with their group
//!   and give access to a lookup only as a pinned reference.
//! - The first `opened` lanes are initialised, and none beyond. `busy` counts the live ones between
//!   turns.

use core::hint::cold_path;
use core::marker::PhantomPinned;
use core::mem::{self, MaybeUninit};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use crate::group_size::{GroupSize, MAX_LANES};
use crate::report::GroupReport;

/// A group that outlives one call: lookups that arrive over time share its lanes.
///
/// [`for_each`](crate::for_each) runs a group over inputs that are all there. Where they are not, as
/// with the requests of a connection, hold a `Group` and give it [`turn`](Self::turn)s. Each lookup
/// comes with a tag, which says whose answer it is.
///
/// It allocates nothing: its lanes, [`MAX_LANES`] times the size of a lookup and its tag, lie where it
/// lies, and those never used are never touched. Pin it in a frame (`pin!`) or once in a box.
///
/// Dropping a group drops the lookups under way; their tags are dropped too, unanswered.
///
/// ```
/// use std::collections::VecDeque;
/// use std::pin::pin;
/// use tierra_interleave::{Cx, Group, GroupSize, Interleaved};
///
/// let table: Vec<u64> = (0..1000).map(|i| i * i).collect();
/// let cx = Cx::<Interleaved>::new();
/// let mut arrived = VecDeque::from([("first", 3), ("second", 5)]);
/// let mut answers = Vec::new();
///
/// let mut group = pin!(Group::new(GroupSize::DEFAULT));
/// for turn in 0.. {
///     if turn == 1 {
///         arrived.push_back(("late", 7)); // while the others wait for memory
///     }
///     let next = || arrived.pop_front().map(|(who, place)| (who, cx.load(&table[place])));
///     let under_way = group.as_mut().turn(next, |who, value| answers.push((who, *value)));
///     if under_way == 0 && arrived.is_empty() {
///         break;
///     }
/// }
/// assert_eq!(answers, [("first", 9), ("second", 25), ("late", 49)]);
/// assert_eq!(group.report().lookups, 3);
/// ```
pub struct Group<Fut, Tag> {
    size: usize,
    opened: usize,
    /// Narrower than the counts of `report`: updated together with one of them as a pair, it would be
    /// read back before its own store has arrived.
    busy: u32,
    report: GroupReport,
    lanes: [MaybeUninit<Lane<Fut, Tag>>; MAX_LANES],
    // Lookups are pinned inside, so the group must not move once pinned, whatever `Fut` is.
    _pinned: PhantomPinned,
}

/// A place for one lookup.
struct Lane<Fut, Tag> {
    lookup: MaybeUninit<Fut>,
    tag: MaybeUninit<Tag>,
    /// Whether `lookup` and `tag` are there.
    live: bool,
}

impl<Fut: Future, Tag> Group<Fut, Tag> {
    /// A group of up to `size` lookups at a time, with nothing under way.
    #[inline(always)]
    pub fn new(size: GroupSize) -> Self {
        Group {
            size: size.get(),
            opened: 0,
            busy: 0,
            report: GroupReport::default(),
            lanes: [const { MaybeUninit::uninit() }; MAX_LANES],
            _pinned: PhantomPinned,
        }
    }

    /// One turn: every lookup under way goes on to its next load. `done` gets the tag and output of
    /// each that ends, and `next` is asked for lookups while lanes are vacant, a new one starting at
    /// once. Returns how many are under way afterwards.
    ///
    /// `next` answers `None` for "nothing now"; it is asked again for the next vacant lane. When there
    /// is nothing to come and nothing under way, the group is finished. A turn with nothing under way
    /// and nothing to start returns 0 at once: sleep, do not spin.
    ///
    /// If `next`, a lookup or `done` panics, every lookup under way is dropped and the panic goes on;
    /// what `done` has been given stands. The group is empty then, and may be used again.
    #[inline(always)]
    pub fn turn<N, D>(self: Pin<&mut Self>, next: N, done: D) -> usize
    where
        N: FnMut() -> Option<(Tag, Fut)>,
        D: FnMut(Tag, Fut::Output),
    {
        self.turn_fed(&mut ClosureFeed(next), done)
    }

    /// [`turn`](Self::turn) with a feed, which unlike a closure can insist on being inlined: a lookup
    /// is then made where it will lie, and a copy would wait for the very stores that it reads.
    #[inline(always)]
    pub(crate) fn turn_fed<N, D>(self: Pin<&mut Self>, feed: &mut N, mut done: D) -> usize
    where
        N: Feed<Tag, Fut>,
        D: FnMut(Tag, Fut::Output),
    {
        // SAFETY: nothing is moved out of the group: lanes are written while vacant, lookups are
        // reached only pinned and dropped in place.
        let unwinding = ClearOnUnwind(unsafe { self.get_unchecked_mut() });
        let group = &mut *unwinding.0;

        let mut task = Context::from_waker(Waker::noop());
        // In a variable of its own: a lookup may write anywhere, and the loop would read it again.
        let mut opened = group.opened;
        'lanes: for (at, lane) in group.lanes[..group.size].iter_mut().enumerate() {
            if at == opened {
                cold_path();
                lane.write(Lane::vacant());
                opened += 1;
                group.opened = opened;
            }
            // SAFETY: the first `opened` lanes are initialised.
            let lane = unsafe { lane.assume_init_mut() };
            loop {
                if !lane.live {
                    cold_path();
                    // The only place where lookups come from: with a second one the compiler would make
                    // them in a function of its own, and copy them.
                    let Some((tag, lookup)) = feed.next() else {
                        if at + 1 == opened {
                            // Nothing to do for this lane, so nothing for those not opened yet.
                            break 'lanes;
                        }
                        break;
                    };
                    // SAFETY: the lane is not live.
                    unsafe { lane.start(tag, lookup) };
                    group.busy += 1;
                    group.report.lookups += 1;
                }
                // SAFETY: the lane is live, or has just become so.
                let Poll::Ready(output) = unsafe { lane.lookup() }.poll(&mut task) else {
                    break;
                };
                cold_path();
                // SAFETY: the lookup that has just been polled is still there.
                let tag = unsafe { lane.end() };
                group.busy -= 1;
                done(tag, output);
            }
        }
        // Every lookup that is still under way has given way once in this turn.
        group.report.suspensions += u64::from(group.busy);
        let busy = group.len();
        mem::forget(unwinding);
        busy
    }
}

/// Where a group's lookups come from.
pub(crate) trait Feed<Tag, Fut> {
    /// The next lookup, if there is one now.
    fn next(&mut self) -> Option<(Tag, Fut)>;
}

/// A closure as a feed.
struct ClosureFeed<N>(N);

impl<N, Tag, Fut> Feed<Tag, Fut> for ClosureFeed<N>
where
    N: FnMut() -> Option<(Tag, Fut)>,
{
    #[inline(always)]
    fn next(&mut self) -> Option<(Tag, Fut)> {
        (self.0)()
    }
}

impl<Fut, Tag> Group<Fut, Tag> {
    /// How many lookups are under way.
    pub fn len(&self) -> usize {
        self.busy as usize
    }

    /// Whether no lookup is under way.
    pub fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// What the group has done since it was made.
    pub fn report(&self) -> GroupReport {
        self.report
    }

    /// Drops the lookups under way, all of them even if the destructor of one panics.
    fn clear(&mut self) {
        let unwinding = ClearOnUnwind(self);
        let group = &mut *unwinding.0;
        group.busy = 0;
        if mem::needs_drop::<Fut>() || mem::needs_drop::<Tag>() {
            for lane in &mut group.lanes[..group.opened] {
                // SAFETY: the first `opened` lanes are initialised.
                let lane = unsafe { lane.assume_init_mut() };
                if lane.live {
                    // SAFETY: just checked.
                    drop(unsafe { lane.end() });
                }
            }
        }
        group.opened = 0;
        mem::forget(unwinding);
    }
}

impl<Fut, Tag> Drop for Group<Fut, Tag> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Drops the lookups under way when a turn unwinds: the one that panicked must not be polled again.
struct ClearOnUnwind<'a, Fut, Tag>(&'a mut Group<Fut, Tag>);

impl<Fut, Tag> Drop for ClearOnUnwind<'_, Fut, Tag> {
    #[cold]
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl<Fut, Tag> Lane<Fut, Tag> {
    /// A lane without a lookup.
    #[inline(always)]
    fn vacant() -> Self {
        Lane {
            lookup: MaybeUninit::uninit(),
            tag: MaybeUninit::uninit(),
            live: false,
        }
    }

    /// Puts a lookup into this lane.
    ///
    /// # Safety
    ///
    /// The lane is not live: a lookup that is overwritten is never dropped, which pinning forbids.
    #[inline(always)]
    unsafe fn start(&mut self, tag: Tag, lookup: Fut) {
        debug_assert!(!self.live);
        self.lookup.write(lookup);
        self.tag.write(tag);
        self.live = true;
    }

    /// The lookup, ready to be polled.
    ///
    /// # Safety
    ///
    /// The lane is live, and lies in a pinned group.
    #[inline(always)]
    unsafe fn lookup(&mut self) -> Pin<&mut Fut> {
        debug_assert!(self.live);
        // SAFETY: a live lane holds a lookup. It stays where it is: the group is pinned, only this
        // function gives access to a lookup, and `end` drops it in place before the lane is written
        // again.
        unsafe { Pin::new_unchecked(self.lookup.assume_init_mut()) }
    }

    /// Drops the lookup and returns its tag.
    ///
    /// # Safety
    ///
    /// The lane is live.
    #[inline(always)]
    unsafe fn end(&mut self) -> Tag {
        debug_assert!(self.live);
        // Vacant from here on, so that a destructor that panics is not run again.
        self.live = false;
        // SAFETY: the lane was live, so both are there, and nothing reads or drops them after this.
        unsafe {
            let tag = self.tag.assume_init_read();
            self.lookup.assume_init_drop();
            tag
        }
    }
}
