//! Blocked clients: they wait for a key to become a sorted set, or for the end of a pause.
//!
//! ```text
//!  queues     database, key → clients by ticket: the order of serving     ┐
//!  deadlines  (when, ticket): the order of timeouts                       ├ all of them in step with
//!  clients    the client's number → slot, for CLIENT UNBLOCK              │ each client's own `Block`
//!  held       ticket → slot: requests that wait for the end of a pause    ┘
//! ```
//!
//! A blocked client stays among the connections. Its input is read, so that the end of the connection is noticed, but not
//! parsed; a request that may block is the last of its connection in a batch, so that nothing after it has been parsed
//! before it is known whether it does.
//!
//! A write to a key with waiting clients is noted ([`Blocked::changed`], where WATCH notices it as well). After the command or
//! the transaction, clients are served in their order by the command that made them wait. While no client waits, a write costs
//! one test for waiting clients, a command one for noted keys, and an event-loop iteration one for deadlines. Each client that
//! begins or stops waiting costs steps in trees, however many wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::block::{Block, Pop, Wait};
use super::client::Client;
use crate::keyspace::{DATABASES, DbId};

/// The clients that wait for one key.
#[derive(Debug, Default)]
struct WaitQueue {
    /// Slots by ticket.
    clients: BTreeMap<u64, usize>,
    /// Whether the key is among those that are ready.
    is_ready: bool,
}

/// A key of a database.
pub(crate) type BlockedKey = (DbId, Box<[u8]>);

/// All clients that wait.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    queues: [HashMap<Box<[u8]>, WaitQueue>; DATABASES],
    deadlines: BTreeSet<(Instant, u64, usize)>,
    clients: HashMap<u64, usize>,
    held: BTreeMap<u64, usize>,
    tickets: u64,
    /// Keys with a queue that were changed by the command being executed.
    touched: Vec<BlockedKey>,
    /// Keys with a queue that have become sorted sets, in the order in which they did.
    ready: VecDeque<BlockedKey>,
    /// Whether a key was touched since clients were served last.
    may_serve: bool,
    /// Slots of clients that have stopped waiting in this event-loop iteration.
    released: Vec<usize>,
}

impl Blocked {
    /// How many clients wait.
    pub(crate) fn len(&self) -> usize {
        self.clients.len() + self.held.len()
    }

    /// Whether a client waits for a key.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Whether clients may have to be served.
    #[inline]
    pub(crate) fn may_serve(&self) -> bool {
        self.may_serve
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Blocks a client until one of these keys of its database can be served, or until the timeout; for ever if that is `None`.
    pub(crate) fn wait<'k>(
        &mut self,
        client: &mut Client,
        keys: impl Iterator<Item = &'k [u8]>,
        timeout: Option<Duration>,
        pop: Pop,
    ) {
        debug_assert!(!client.is_blocked());
        let (ticket, db, slot) = (self.ticket(), client.db, client.slot);
        let keys: Box<[Box<[u8]>]> = keys.map(Box::from).collect();
        for key in &keys {
            let queue = self.queues[usize::from(db)].entry(key.clone()).or_default();
            queue.clients.insert(ticket, slot);
        }
        // A deadline beyond the range of the clock counts as for ever.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.deadlines
            .extend(deadline.map(|deadline| (deadline, ticket, slot)));
        self.clients.insert(client.id, slot);
        client.block = Block::Key(Box::new(Wait {
            ticket,
            db,
            keys,
            deadline,
            pop,
        }));
    }

    /// Blocks a client until the end of the pause.
    pub(crate) fn hold(&mut self, client: &mut Client) {
        let ticket = self.ticket();
        self.held.insert(ticket, client.slot);
        client.block = Block::Pause(ticket);
    }

    /// Ends a client's waiting. Returns what it waited for.
    pub(crate) fn unblock(&mut self, client: &mut Client) -> Block {
        let block = std::mem::take(&mut client.block);
        match &block {
            Block::None => {}
            Block::Pause(ticket) => _ = self.held.remove(ticket),
            Block::Key(wait) => {
                self.clients.remove(&client.id);
                if let Some(deadline) = wait.deadline {
                    self.deadlines.remove(&(deadline, wait.ticket, client.slot));
                }
                let queues = &mut self.queues[usize::from(wait.db)];
                for key in &wait.keys {
                    // A key that was named twice has one queue.
                    if let Some(queue) = queues.get_mut(key) {
                        queue.clients.remove(&wait.ticket);
                        if queue.clients.is_empty() {
                            queues.remove(key);
                        }
                    }
                }
            }
        }
        block
    }

    /// A key has changed. To be called where [`is_waited_for`](Self::is_waited_for).
    #[cold]
    pub(crate) fn changed(&mut self, db: DbId, key: &[u8]) {
        if self.queues[usize::from(db)].contains_key(key) {
            self.touched.push((db, key.into()));
            self.may_serve = true;
        }
    }

    /// All keys of a database have changed. Those with the longest-waiting clients come first.
    pub(crate) fn changed_all(&mut self, db: DbId) {
        let queues = self.queues[usize::from(db)].iter();
        let mut keys: Vec<_> = queues
            .map(|(key, queue)| (queue.clients.keys().next(), key))
            .collect();
        keys.sort_unstable();
        self.may_serve |= !keys.is_empty();
        let blocked_keys = keys.into_iter().map(|(_, key)| (db, key.clone()));
        self.touched.extend(blocked_keys);
    }

    /// The keys that were changed since this was called last.
    pub(crate) fn take_touched(&mut self) -> Vec<BlockedKey> {
        std::mem::take(&mut self.touched)
    }

    /// A key can be served.
    pub(crate) fn is_ready(&mut self, (db, key): BlockedKey) {
        // The last client waiting for it may have gone since it was touched.
        if let Some(queue) = self.queues[usize::from(db)].get_mut(&key)
            && !std::mem::replace(&mut queue.is_ready, true)
        {
            self.ready.push_back((db, key));
        }
    }

    /// The key that can be served and was ready first.
    pub(crate) fn next_ready(&mut self) -> Option<BlockedKey> {
        let blocked_key = self.ready.pop_front();
        match &blocked_key {
            Some((db, key)) => {
                if let Some(queue) = self.queues[usize::from(*db)].get_mut(key) {
                    queue.is_ready = false;
                }
            }
            None => self.may_serve = !self.touched.is_empty(),
        }
        blocked_key
    }

    /// The slot of the client that has waited for a key longest.
    pub(crate) fn first(&self, db: DbId, key: &[u8]) -> Option<usize> {
        let queue = self.queues[usize::from(db)].get(key)?;
        queue.clients.values().next().copied()
    }

    /// The slot of a client that waits for a key, by its number.
    pub(crate) fn slot_of(&self, client: u64) -> Option<usize> {
        self.clients.get(&client).copied()
    }

    /// The earliest deadline, and the slot of its client.
    #[inline]
    pub(crate) fn first_deadline(&self) -> Option<(Instant, usize)> {
        let &(deadline, _, slot) = self.deadlines.first()?;
        Some((deadline, slot))
    }

    /// Slots of the clients that waited for the end of a pause, in the order in which their requests came.
    pub(crate) fn take_held(&mut self) -> impl Iterator<Item = usize> + use<> {
        std::mem::take(&mut self.held).into_values()
    }

    /// A client has stopped waiting.
    pub(crate) fn released(&mut self, slot: usize) {
        self.released.push(slot);
    }

    /// Slots of clients that have stopped waiting, in the order in which they did.
    pub(crate) fn take_released(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.released)
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: u64) -> Client {
        Client {
            id,
            slot: id as usize,
            ..Client::default()
        }
    }

    fn nothing_is_left(blocked: &Blocked) -> bool {
        let no_queues = blocked.queues.iter().all(HashMap::is_empty);
        no_queues && blocked.deadlines.is_empty() && blocked.len() == 0
    }

    /// Ten thousand clients wait for one key, and for one of their own: each that goes costs steps in trees, or this would take
    /// minutes.
    #[test]
    fn the_first_to_wait_is_served_first_when_others_leave() {
        const CLIENTS: u64 = 10_000;
        let mut blocked = Blocked::default();
        let mut clients: Vec<Client> = (0..CLIENTS).map(client).collect();
        for client in &mut clients {
            let own = client.id.to_le_bytes();
            let keys = [&b"all"[..], &own, b"all"];
            let timeout = Some(Duration::from_secs(1 + client.id));
            blocked.wait(client, keys.into_iter(), timeout, Pop::default());
        }
        assert_eq!(blocked.len(), CLIENTS as usize);
        assert_eq!(blocked.slot_of(7), Some(7));
        let first = blocked.deadlines.first().map(|deadline| deadline.2);
        assert_eq!(first, Some(0), "whose time is up first");
        // From both ends and from the middle.
        for id in (0..5000).step_by(3).chain((5000..CLIENTS).rev()) {
            blocked.unblock(&mut clients[id as usize]);
        }
        for id in (0..5000).filter(|id| id % 3 > 0) {
            assert_eq!(blocked.first(0, b"all"), Some(id as usize));
            blocked.unblock(&mut clients[id as usize]);
            // Once more is nothing.
            assert!(matches!(
                blocked.unblock(&mut clients[id as usize]),
                Block::None
            ));
        }
        assert_eq!(blocked.first(0, b"all"), None);
        assert!(nothing_is_left(&blocked));
    }

    #[test]
    fn keys_are_served_once_and_in_the_order_in_which_they_were_ready() {
        let mut blocked = Blocked::default();
        let (mut one, mut other) = (client(1), client(2));
        let keys = [&b"a"[..], b"b"];
        blocked.wait(&mut one, keys.into_iter(), None, Pop::default());
        other.db = 3;
        blocked.wait(&mut other, keys.into_iter(), None, Pop::default());
        assert!(!blocked.may_serve());
        blocked.changed(0, b"nobody waits for it");
        assert!(!blocked.may_serve());
        let blocked_key = |db: DbId, key: &str| (db, Box::from(key.as_bytes()));
        let changes = [(0, "b"), (3, "a"), (0, "a"), (0, "b")];
        for (db, key) in changes {
            blocked.changed(db, key.as_bytes());
        }
        assert!(blocked.may_serve());
        assert_eq!(
            blocked.take_touched(),
            changes.map(|(db, key)| blocked_key(db, key))
        );
        for (db, key) in changes {
            blocked.is_ready(blocked_key(db, key));
        }
        for (db, key) in &changes[..3] {
            assert_eq!(blocked.next_ready(), Some(blocked_key(*db, key)));
        }
        // One that was served may be ready again.
        blocked.is_ready(blocked_key(0, "b"));
        assert_eq!(blocked.next_ready(), Some(blocked_key(0, "b")));
        assert_eq!(blocked.next_ready(), None);
        assert!(!blocked.may_serve());
        blocked.changed_all(3);
        assert_eq!(blocked.take_touched().len(), 2);
        for client in [&mut one, &mut other] {
            blocked.unblock(client);
        }
        blocked.is_ready(blocked_key(0, "a"));
        assert_eq!(blocked.next_ready(), None, "nobody waits any more");
        assert!(nothing_is_left(&blocked));
    }
}
