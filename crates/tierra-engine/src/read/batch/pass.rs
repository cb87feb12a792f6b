//! The pass that the queries of a batch share: who needs what, and the window of pieces that were read last.
//!
//! Invariants: a piece is in the window only if a member that is at work wants it, and no longer than [`WINDOW_BYTES`] of newer
//! ones. A member's bit in a piece is set only while the piece is in its list of what it needs.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::ahead::{self, Ahead};
use super::needs::Needs;
use super::piece::{Piece, Share};
use super::pieces::{Pieces, Place};

/// The most queries of a batch: each has a bit of a word.
pub(crate) const QUERIES_MOST: usize = 64;
/// Packed blocks and unpacked columns that are kept for members that come behind: part of a last-level cache.
const WINDOW_BYTES: usize = 4 << 20;
/// Pieces that are kept, of which perhaps little was read.
const WINDOW_PIECES: usize = 64;
/// The most pieces that a member takes at a time: it need not come back so often.
pub(super) const AT_A_TIME: usize = 4;
/// The bytes of pieces that others have read, from which on a member takes no more at a time: it takes these out of the window
/// before it has read them.
const BYTES_AT_A_TIME: usize = AHEAD_BYTES / 32;
/// Pieces that others at work have still to take, from which on a member is ahead; and the bytes of these. It goes on when half of
/// them are left, so that a thread does not go to sleep for each.
const AHEAD_PIECES: usize = 8;
const AHEAD_BYTES: usize = WINDOW_BYTES / 2;
/// How long a member that takes nothing is waited for: longer than threads of a batch need in turn, shorter than a system takes a
/// core away for.
pub(super) const PATIENCE: Duration = Duration::from_millis(2);

/// The pass of one batch.
#[derive(Debug, Default)]
pub(super) struct Pass(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By bit.
    members: Vec<Option<Needs>>,
    window: VecDeque<Slot>,
    /// Columns of the members, to be shared of pieces that are begun from now on.
    columns: Arc<[usize]>,
    /// The piece that was begun last.
    position: Option<Place>,
    /// When the batch begins, if it has not.
    opens: Option<Instant>,
    waiting: Vec<Waker>,
    ahead: Ahead,
    /// Whether one member is at work, or none.
    are_alone: bool,
}

#[derive(Debug)]
struct Slot {
    place: Place,
    piece: Arc<Piece>,
    /// The members at work that need it.
    wanted: u64,
}

/// A member that was added.
pub(super) struct Joined {
    pub(super) at: usize,
    /// When the batch opens, if this member is to see to it.
    pub(super) opens: Option<Instant>,
}

/// A piece for one thread of a member.
#[derive(Debug)]
pub(crate) struct Taken {
    /// The piece, as the member's snapshot numbers it.
    pub(crate) number: usize,
    /// `None` if no other member needs the piece.
    pub(crate) share: Option<Share>,
    /// Pieces that are taken with it.
    pub(crate) more: Vec<(usize, Option<Share>)>,
}

/// What a member is to do next.
#[derive(Debug)]
pub(crate) enum Next {
    Piece(Taken),
    /// Others have many pieces to take that this member has taken: they run first, and it asks again.
    OthersFirst,
    /// It has taken all pieces.
    End,
}

impl State {
    fn needs(&self, at: usize) -> &Needs {
        self.members[at].as_ref().expect("it has not left")
    }

    fn at_work(&self) -> impl Iterator<Item = (usize, &Needs)> {
        let members = self.members.iter().enumerate();
        members.filter_map(|(at, needs)| Some((at, needs.as_ref().filter(|it| it.is_at_work)?)))
    }

    /// Members that take pieces, or will.
    fn present(&self) -> impl Iterator<Item = &Needs> {
        self.members.iter().flatten().filter(|it| !it.is_over)
    }

    /// The members at work changed.
    fn settle(&mut self) {
        let queries = self.at_work().count();
        self.are_alone = queries < 2;
        let mut columns: Vec<usize> = self
            .at_work()
            .flat_map(|(_, it)| it.columns.clone())
            .collect();
        columns.sort_unstable();
        columns.dedup();
        if *self.columns != columns[..] {
            self.columns = columns.into();
        }
        for needs in self.members.iter_mut().flatten().filter(|it| it.is_at_work) {
            needs.queries = needs.queries.max(queries);
        }
    }

    /// A member that is at work again wants what is in the window.
    fn want(&mut self, at: usize) {
        let needs = self.members[at].as_ref().expect("it has not left");
        for slot in &mut self.window {
            slot.wanted |= u64::from(needs.needs(slot.place)) << at;
        }
    }

    /// Nothing is kept for a member any more.
    fn forget(&mut self, at: usize) {
        for slot in &mut self.window {
            slot.wanted &= !(1 << at);
        }
        self.window.retain(|slot| slot.wanted != 0);
    }

    /// Makes room for one more piece.
    fn evict(&mut self) {
        let mut bytes: usize = self.window.iter().map(|slot| slot.piece.bytes()).sum();
        while bytes > WINDOW_BYTES || self.window.len() >= WINDOW_PIECES {
            let Some(oldest) = self.window.pop_front() else {
                return;
            };
            bytes -= oldest.piece.bytes().min(bytes);
            for (at, needs) in self.members.iter_mut().enumerate() {
                if let Some(needs) = needs {
                    needs.lags |= oldest.wanted >> at & 1 == 1;
                }
            }
        }
    }

    /// Whether a member that would begin another piece lets others run first: those that keep up have many to take.
    fn is_ahead(&mut self, at: usize) -> bool {
        let now = Instant::now();
        for (other, needs) in self.members.iter_mut().enumerate() {
            let Some(needs) = needs else { continue };
            if other != at && needs.is_at_work {
                let wants = |slot: &Slot| slot.wanted >> other & 1 == 1;
                let is_late = now.duration_since(needs.took_at) > PATIENCE;
                needs.lags |= is_late && self.window.iter().any(wants);
            }
        }
        let (pieces, bytes) = self.behind(!(1 << at));
        pieces > AHEAD_PIECES || bytes > AHEAD_BYTES
    }

    /// Pieces of the window, and their bytes, that members have to take which keep up, of these members.
    fn behind(&self, of: u64) -> (usize, usize) {
        let keeping_up = self.at_work().filter(|(_, needs)| !needs.lags);
        let keeping_up = keeping_up.fold(0, |all, (at, _)| all | 1_u64 << at) & of;
        let behind = self.window.iter();
        let behind = behind.filter(|slot| slot.wanted & keeping_up != 0);
        behind.fold((0, 0), |(pieces, bytes), slot| {
            (pieces + 1, bytes + slot.piece.bytes())
        })
    }

    /// Whether the window has a piece for a member.
    fn has_ready(&self, at: usize) -> bool {
        let bit = 1 << at;
        let mut window = self.window.iter();
        window.any(|slot| slot.wanted & bit != 0 && slot.piece.is_ready())
    }

    /// Those that waited for others and need not any more.
    fn no_longer_ahead(&mut self) -> Vec<Waker> {
        if self.ahead.is_empty() {
            return Vec::new();
        }
        let (pieces, bytes) = self.behind(u64::MAX);
        if self.are_alone || pieces <= AHEAD_PIECES / 2 && bytes <= AHEAD_BYTES / 2 {
            return self.ahead.take(u64::MAX);
        }
        let ready = self.window.iter().filter(|slot| slot.piece.is_ready());
        let ready = ready.fold(0, |all, slot| all | slot.wanted);
        self.ahead.take(ready)
    }

    /// Takes pieces of the window that others have read, if there are any.
    fn take_ready(&mut self, at: usize) -> Option<Next> {
        let needs = self.members[at].as_mut().expect("it has not left");
        let most = needs.at_a_time();
        let bit = 1_u64 << at;
        let mut taken = Vec::new();
        let mut bytes = 0;
        let mut is_wanted_still = false;
        self.window.retain_mut(|slot| {
            if slot.wanted & bit == 0 {
                return true;
            }
            let are_enough = taken.len() == most || bytes >= BYTES_AT_A_TIME;
            if are_enough || !slot.piece.is_ready() {
                is_wanted_still = true;
                return true;
            }
            bytes += slot.piece.bytes();
            slot.wanted &= !bit;
            let number = needs.pieces.number(slot.place).expect("it is wanted");
            needs.take(number);
            taken.push((number, Some(Share::of(slot.piece.clone(), false))));
            slot.wanted != 0
        });
        let mut taken = taken.into_iter();
        let (number, share) = taken.next()?;
        needs.took_at = Instant::now();
        needs.lags &= is_wanted_still;
        Some(Next::Piece(Taken {
            number,
            share,
            more: taken.collect(),
        }))
    }

    /// What a member does next.
    fn next(&mut self, at: usize) -> Next {
        let needs = self.members[at].as_mut().expect("it has not left");
        if !std::mem::replace(&mut needs.is_at_work, true) {
            needs.took_at = Instant::now();
            self.want(at);
            self.settle();
        }
        if let Some(next) = self.take_ready(at) {
            return next;
        }
        if self.needs(at).left > 0 && !self.are_alone && self.is_ahead(at) {
            return Next::OthersFirst;
        }
        let bit = 1_u64 << at;
        let is_wanted = |slot: &Slot| slot.wanted & bit != 0;
        let needs = self.members[at].as_mut().expect("it has not left");
        // What is not being read; at the end what is: no member waits.
        let is_read = |number: &usize| {
            let place = needs.pieces.place(*number);
            let mut window = self.window.iter();
            window.any(|slot| is_wanted(slot) && slot.place == place)
        };
        // In one expression: the iterator holds on to `needs`.
        let free = needs.behind(self.position).find(|number| !is_read(number));
        let Some(number) = free.or_else(|| needs.behind(self.position).next()) else {
            return Next::End;
        };
        let place = needs.pieces.place(number);
        needs.take(number);
        if !self.are_alone {
            needs.took_at = Instant::now();
        }
        if free.is_none() {
            let mut window = self.window.iter_mut();
            if let Some(slot) = window.find(|slot| slot.place == place) {
                slot.wanted &= !bit;
            }
            self.window.retain(|slot| slot.wanted != 0);
            return Next::Piece(Taken {
                number,
                share: None,
                more: Vec::new(),
            });
        }
        self.position = Some(place);
        let share = self.begin_piece(place);
        Next::Piece(Taken {
            number,
            share,
            more: self.begin_more(at, number),
        })
    }

    /// Puts a piece that a member has taken into the window, if others want it.
    fn begin_piece(&mut self, place: Place) -> Option<Share> {
        let others = self.at_work().filter(|(_, needs)| needs.needs(place));
        let wanted = others.fold(0, |wanted, (other, _)| wanted | 1 << other);
        if wanted == 0 {
            return None;
        }
        self.evict();
        let piece = Arc::new(Piece::new(&self.columns));
        let share = Share::of(piece.clone(), true);
        self.window.push_back(Slot {
            place,
            piece,
            wanted,
        });
        Some(share)
    }

    /// Takes the pieces behind one that a member has taken, for itself and the others, which find several then.
    fn begin_more(&mut self, at: usize, number: usize) -> Vec<(usize, Option<Share>)> {
        let most = self.needs(at).at_a_time() - 1;
        let mut more = Vec::with_capacity(most);
        for next in number + 1..=number + most {
            let needs = self.members[at].as_mut().expect("it has not left");
            if !needs.has(next) {
                break;
            }
            let place = needs.pieces.place(next);
            if self.window.iter().any(|slot| slot.place == place) {
                break;
            }
            needs.take(next);
            self.position = Some(place);
            more.push((next, self.begin_piece(place)));
        }
        more
    }

    fn open(&mut self) -> Vec<Waker> {
        self.opens = None;
        std::mem::take(&mut self.waiting)
    }
}

impl Pass {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing between two changes that belong together panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, after which others may go on.
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let changed = change(&mut state);
        let wakers = state.no_longer_ahead();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        changed
    }

    /// How many of these columns a new member would share; none if there is no room for it.
    pub(super) fn shared(&self, columns: &[usize], queries_most: usize) -> usize {
        let state = self.lock();
        let is_full = state.present().count() >= queries_most
            || state.members.iter().flatten().count() >= QUERIES_MOST;
        let is_shared = |column: &&usize| state.present().any(|it| it.columns.contains(column));
        let shared = columns.iter().filter(is_shared);
        if is_full { 0 } else { shared.count() }
    }

    pub(super) fn join(
        &self,
        pieces: Pieces,
        columns: Vec<usize>,
        queries_most: usize,
        wait: Duration,
    ) -> Joined {
        let mut state = self.lock();
        let mut opens = None;
        if state.present().next().is_none() {
            state.position = None;
            opens = (!wait.is_zero()).then(|| Instant::now() + wait);
            state.opens = opens;
        }
        let free = state.members.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            state.members.push(None);
            state.members.len() - 1
        });
        assert!(at < QUERIES_MOST, "a full batch takes no more");
        let is_at_work = !wait.is_zero();
        state.members[at] = Some(Needs::new(pieces, columns, is_at_work));
        if is_at_work {
            state.want(at);
            state.settle();
        }
        let wakers = match state.present().count() >= queries_most {
            true => state.open(),
            false => Vec::new(),
        };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        Joined { at, opens }
    }

    pub(super) fn leave(&self, at: usize) {
        self.change(|state| {
            state.forget(at);
            state.members[at] = None;
            state.settle();
        });
    }

    /// A thread of a member may take pieces from now on.
    pub(super) fn begin(&self, at: usize) {
        let mut state = self.lock();
        let needs = state.members[at].as_mut().expect("it has not left");
        needs.threads += 1;
        needs.is_over = false;
    }

    /// A thread of a member takes no more.
    pub(super) fn pause(&self, at: usize) {
        self.change(|state| {
            let needs = state.members[at].as_mut().expect("it has not left");
            needs.threads -= 1;
            if needs.threads == 0 {
                (needs.is_at_work, needs.is_over) = (false, true);
                state.forget(at);
                state.settle();
            }
        });
    }

    pub(super) fn left(&self, at: usize) -> usize {
        self.lock().needs(at).left
    }

    pub(super) fn queries(&self, at: usize) -> usize {
        self.lock().needs(at).queries
    }

    /// Begins the batch, however few have joined.
    pub(super) fn open(&self) {
        let wakers = self.lock().open();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn poll_open(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.opens.is_none_or(|opens| opens <= Instant::now()) {
            return Poll::Ready(());
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }

    /// What a member does next.
    pub(super) fn take(&self, at: usize) -> Next {
        self.change(|state| state.next(at))
    }

    /// Whether a member that was told to let others run may ask again. If not, the waker is called then.
    pub(super) fn poll_others(self: &Arc<Self>, at: usize, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.are_alone || state.has_ready(at) || !state.is_ahead(at) {
            return Poll::Ready(());
        }
        if state.ahead.wait(at, context.waker()) {
            drop(state);
            ahead::watch(self);
        }
        Poll::Pending
    }

    /// The tasks that wait and may ask again; `None` if none has waited for long.
    pub(super) fn impatient(&self) -> Option<Vec<Waker>> {
        self.lock().ahead.impatient()
    }

    /// Those that wait, whom no thread will wake.
    pub(super) fn unwatched(&self) -> Vec<Waker> {
        self.lock().ahead.unwatched()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    fn columns() -> Vec<usize> {
        vec![3]
    }

    fn join(pass: &Pass, segments: &[(u32, usize)]) -> usize {
        let pieces = Pieces::of(segments.iter().copied());
        // As one that waits for others, so that it is at work at once.
        let wait = Duration::from_nanos(1);
        let joined = pass.join(pieces, columns(), QUERIES_MOST, wait);
        pass.begin(joined.at);
        joined.at
    }

    /// The next piece of a member, which others do not keep from it for good.
    fn taken(pass: &Pass, at: usize) -> Option<Taken> {
        loop {
            match pass.take(at) {
                Next::Piece(taken) => return Some(taken),
                Next::OthersFirst => std::thread::yield_now(),
                Next::End => return None,
            }
        }
    }

    /// Has a member have taken a piece so long before or behind now, so that no pause of the test decides whether it is waited for.
    fn took(pass: &Pass, at: usize, is_late: bool) {
        let hour = Duration::from_secs(3600);
        let now = Instant::now();
        let then = match is_late {
            true => now.checked_sub(2 * PATIENCE),
            false => now.checked_add(hour),
        };
        let mut state = pass.lock();
        state.members[at].as_mut().unwrap().took_at = then.unwrap();
    }

    /// All pieces that a member still takes.
    fn rest(pass: &Pass, at: usize) -> Vec<(usize, bool)> {
        let mut rest = Vec::new();
        while let Some(taken) = taken(pass, at) {
            let first = (taken.number, taken.share);
            let all = std::iter::once(first).chain(taken.more);
            rest.extend(all.map(|(number, share)| (number, share.as_ref().is_some_and(was_read))));
        }
        rest
    }

    /// Whether another member has read the piece; reads it.
    fn was_read(share: &Share) -> bool {
        let was_read = share.values(3).is_some();
        let values: arrow::array::ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1]));
        share.give(3, &values);
        was_read
    }

    /// Turns after which a member is ahead.
    const TURNS_AHEAD: usize = (AHEAD_PIECES + 1).div_ceil(AT_A_TIME);

    /// Takes several pieces.
    fn take_several(pass: &Pass, at: usize) {
        let taken = taken(pass, at).expect("pieces are ready");
        assert_eq!(taken.more.len(), AT_A_TIME - 1);
    }

    /// Takes a piece; whether another member had read it.
    fn take(pass: &Pass, at: usize) -> Option<(usize, bool)> {
        let taken = taken(pass, at)?;
        assert!(taken.more.is_empty());
        Some((taken.number, taken.share.as_ref().is_some_and(was_read)))
    }

    #[test]
    fn a_lone_member_takes_all_pieces_in_order_and_keeps_nothing() {
        let pass = Pass::default();
        let at = join(&pass, &[(1, 20), (2, 8)]);
        let all = rest(&pass, at);
        assert_eq!(all, [0, 1, 2, 3].map(|number| (number, false)));
        assert_eq!(pass.left(at), 0);
        assert!(pass.lock().window.is_empty());
        assert_eq!(pass.queries(at), 1);
    }

    #[test]
    fn a_late_member_takes_what_is_left_and_then_the_beginning() {
        let pass = Pass::default();
        let first = join(&pass, &[(1, 80)]);
        // Alone, it takes several at a time.
        let mut end = 0;
        while end < 4 {
            let taken = taken(&pass, first).unwrap();
            assert_eq!(taken.number, end);
            end = 1 + taken
                .more
                .last()
                .map_or(taken.number, |(number, _)| *number);
        }
        assert_eq!(end, 4);
        let late = join(&pass, &[(1, 80)]);
        assert_eq!(take(&pass, late), Some((4, false)));
        assert_eq!(take(&pass, first), Some((4, true)));
        assert_eq!(take(&pass, first), Some((5, false)));
        assert_eq!(take(&pass, late), Some((5, true)));
        let of_late = rest(&pass, late);
        let numbers = Vec::from_iter(of_late.iter().map(|(number, _)| *number));
        assert_eq!(numbers, [6, 7, 8, 9, 0, 1, 2, 3]);
        assert_eq!(
            rest(&pass, first),
            [6, 7, 8, 9].map(|number| (number, true))
        );
        assert_eq!((pass.queries(first), pass.queries(late)), (2, 2));
        assert!(pass.lock().window.is_empty());
    }

    #[test]
    fn members_of_different_snapshots_share_what_both_have() {
        let pass = Pass::default();
        let (old, new) = (
            join(&pass, &[(1, 8), (2, 8)]),
            join(&pass, &[(2, 8), (3, 8)]),
        );
        assert_eq!(take(&pass, old), Some((0, false)));
        assert_eq!(take(&pass, new), Some((0, false)));
        assert_eq!(take(&pass, old), Some((1, true)));
        assert_eq!(take(&pass, new), Some((1, false)));
        assert_eq!((take(&pass, old), take(&pass, new)), (None, None));
    }

    #[test]
    fn a_member_that_is_left_behind_reads_the_rest_itself() {
        let pass = Pass::default();
        let many = WINDOW_PIECES + 10;
        let slow = join(&pass, &[(1, many * 8)]);
        let fast = join(&pass, &[(1, many * 8)]);
        took(&pass, slow, false);
        for _ in 0..TURNS_AHEAD {
            take_several(&pass, fast);
        }
        assert!(matches!(pass.take(fast), Next::OthersFirst));
        // One that takes is waited for.
        take_several(&pass, slow);
        took(&pass, slow, false);
        take_several(&pass, fast);
        assert!(matches!(pass.take(fast), Next::OthersFirst));
        // One that does not is not, until it has caught up.
        took(&pass, slow, true);
        assert!(matches!(pass.take(fast), Next::Piece(_)));
        take_several(&pass, slow);
        while let Next::Piece(_) = pass.take(fast) {}
        assert!(matches!(pass.take(fast), Next::End));
        let mut numbers = rest(&pass, slow);
        numbers.sort_unstable();
        let numbers = Vec::from_iter(numbers.iter().map(|(number, _)| *number));
        assert_eq!(numbers, Vec::from_iter(2 * AT_A_TIME..many));
    }

    /// Counts how often it was called.
    #[derive(Default)]
    struct Calls(AtomicUsize);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_member_that_is_ahead_is_woken_by_those_that_take_or_leave() {
        let pass = Arc::new(Pass::default());
        let calls = Arc::new(Calls::default());
        let waker = Waker::from(calls.clone());
        let mut context = Context::from_waker(&waker);
        let count = || calls.0.load(Ordering::Relaxed);
        let (slow, fast) = (join(&pass, &[(1, 800)]), join(&pass, &[(1, 800)]));
        // So that only members wake it here.
        assert!(pass.lock().ahead.wait(slow, Waker::noop()));
        pass.lock().ahead.take(u64::MAX);
        took(&pass, slow, false);
        while let Next::Piece(taken) = pass.take(fast) {
            let more = taken.more.into_iter().map(|(_, share)| share);
            for share in std::iter::once(taken.share).chain(more) {
                was_read(&share.unwrap());
            }
        }
        assert!(pass.poll_others(fast, &mut context).is_pending());
        let until_woken = (TURNS_AHEAD * AT_A_TIME - AHEAD_PIECES / 2).div_ceil(AT_A_TIME);
        for taken in 0..until_woken {
            assert_eq!(count(), 0, "{taken}");
            take_several(&pass, slow);
            took(&pass, slow, false);
        }
        assert_eq!(count(), 1);
        assert!(pass.poll_others(fast, &mut context).is_ready());
        while let Next::Piece(_) = pass.take(fast) {}
        assert!(pass.poll_others(fast, &mut context).is_pending());
        pass.pause(slow);
        assert_eq!(count(), 2);
        assert!(pass.poll_others(fast, &mut context).is_ready());
    }

    #[test]
    fn a_member_that_is_ahead_is_woken_if_nobody_takes() {
        let pass = Arc::new(Pass::default());
        let (slow, fast) = (join(&pass, &[(1, 800)]), join(&pass, &[(1, 800)]));
        took(&pass, slow, false);
        while let Next::Piece(_) = pass.take(fast) {}
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        assert!(pass.poll_others(fast, &mut context).is_pending());
        took(&pass, slow, true);
        std::thread::park();
        while pass.poll_others(fast, &mut context).is_pending() {
            std::thread::park();
        }
        assert!(matches!(pass.take(fast), Next::Piece(_)));
    }

    #[test]
    fn a_member_that_leaves_amid_a_piece_leaves_it_to_others() {
        let pass = Pass::default();
        let (one, other) = (join(&pass, &[(1, 24)]), join(&pass, &[(1, 24)]));
        let begun = taken(&pass, one).unwrap();
        assert_eq!(take(&pass, other), Some((1, false)));
        drop(begun);
        pass.pause(one);
        pass.leave(one);
        // Nothing is kept for one alone, but the piece that was begun.
        assert_eq!(rest(&pass, other), [0, 2].map(|number| (number, false)));
    }

    #[test]
    fn nothing_is_kept_for_a_member_that_has_not_begun() {
        let pass = Pass::default();
        let pieces = || Pieces::of([(1, 80)]);
        let join = || {
            pass.join(pieces(), columns(), QUERIES_MOST, Duration::ZERO)
                .at
        };
        let (one, other) = (join(), join());
        pass.begin(one);
        pass.begin(other);
        let begun = taken(&pass, one).unwrap();
        assert!(begun.share.is_none() && pass.lock().window.is_empty());
        assert_eq!((pass.queries(one), pass.queries(other)), (1, 1));
        let late = taken(&pass, other).unwrap();
        assert!(late.share.is_some() && late.number > begun.number);
        assert_eq!((pass.queries(one), pass.queries(other)), (2, 2));
    }

    #[test]
    fn what_is_being_read_is_read_twice_rather_than_waited_for() {
        let pass = Pass::default();
        let (one, other) = (join(&pass, &[(1, 8)]), join(&pass, &[(1, 8)]));
        let begun = taken(&pass, one).unwrap();
        assert_eq!(take(&pass, other), Some((0, false)));
        drop(begun);
        assert!(pass.lock().window.is_empty());
    }

    #[test]
    fn a_batch_opens_when_it_is_full_or_in_time() {
        let pass = Pass::default();
        let hour = Duration::from_secs(3600);
        let pieces = || Pieces::of([(1, 80)]);
        assert!(pass.join(pieces(), columns(), 2, hour).opens.is_some());
        let mut context = Context::from_waker(Waker::noop());
        assert!(pass.poll_open(&mut context).is_pending());
        assert!(pass.join(pieces(), columns(), 2, hour).opens.is_none());
        assert!(pass.poll_open(&mut context).is_ready());
        assert_eq!(pass.shared(&columns(), 2), 0);
        assert_eq!(pass.shared(&columns(), 3), 1);
    }
}
