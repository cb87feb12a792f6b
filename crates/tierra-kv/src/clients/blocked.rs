//! Clients that wait: for a key to become a sorted set, or for the end of a pause.
//!
//! ```text
//!  lines      database, key → clients by ticket: who is served first      ┐
//!  deadlines  (when, ticket): whose time is up first                      ├ all of them in step with
//!  clients    the client's number → slot, for CLIENT UNBLOCK              │ each client's own `Block`
//!  held       ticket → slot: whose request waits for the end of a pause   ┘
//! ```
//!
//! A blocked client stays where it was, among the connections. Nothing of its input is parsed, but it is read, so that the
//! end of the connection is noticed; a request that may block is the last of its connection in a batch, so that nothing
//! behind it has been parsed before it is known whether it does.
//!
//! Who writes to a key that somebody waits for notes it ([`Blocked::changed`], where WATCH notices it as well). When the command has
//! been executed, or the transaction, clients are served, each in its turn, by the command that made them wait. While nobody
//! waits a write costs one test of whether that is so, a command one of whether something was noted, and a turn one of whether time
//! is up. Each client that begins or ends to wait costs steps in trees, however many wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::block::{Block, Pop, Wait};
use super::client::Client;
use crate::keyspace::{DATABASES, DbId};

/// Who waits for one key.
#[derive(Debug, Default)]
struct Line {
    /// Slots by ticket.
    clients: BTreeMap<u64, usize>,
    /// Whether the key is among those that are ready.
    is_ready: bool,
}

/// A key of a database.
pub(crate) type Place = (DbId, Box<[u8]>);

/// All clients that wait.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    lines: [HashMap<Box<[u8]>, Line>; DATABASES],
    deadlines: BTreeSet<(Instant, u64, usize)>,
    clients: HashMap<u64, usize>,
    held: BTreeMap<u64, usize>,
    tickets: u64,
    /// Keys with a line that were changed by the command being executed.
    touched: Vec<Place>,
    /// Keys with a line that have become sorted sets, in the order in which they did.
    ready: VecDeque<Place>,
    /// Whether a key was touched since clients were served last.
    stirred: bool,
    /// Slots of clients that have ceased to wait in this turn.
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
    pub(crate) fn is_stirred(&self) -> bool {
        self.stirred
    }

    fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Lets a client wait until one of these keys of its database can be served, for so long or, where `timeout` is `None`, for ever.
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
            let line = self.lines[usize::from(db)].entry(key.clone()).or_default();
            line.clients.insert(ticket, slot);
        }
        // What the clock does not reach is as good as for ever.
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

    /// Lets a client wait for the end of the pause.
    pub(crate) fn hold(&mut self, client: &mut Client) {
        let ticket = self.ticket();
        self.held.insert(ticket, client.slot);
        client.block = Block::Pause(ticket);
    }

    /// A client waits no more, whatever for; that is returned.
    pub(crate) fn forget(&mut self, client: &mut Client) -> Block {
        let block = std::mem::take(&mut client.block);
        match &block {
            Block::None => {}
            Block::Pause(ticket) => _ = self.held.remove(ticket),
            Block::Key(wait) => {
                self.clients.remove(&client.id);
                if let Some(deadline) = wait.deadline {
                    self.deadlines.remove(&(deadline, wait.ticket, client.slot));
                }
                let lines = &mut self.lines[usize::from(wait.db)];
                for key in &wait.keys {
                    // A key that was named twice has one line.
                    if let Some(line) = lines.get_mut(key) {
                        line.clients.remove(&wait.ticket);
                        if line.clients.is_empty() {
                            lines.remove(key);
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
        if self.lines[usize::from(db)].contains_key(key) {
            self.touched.push((db, key.into()));
            self.stirred = true;
        }
    }

    /// All keys of a database have changed. Those that somebody has waited for longest come first.
    pub(crate) fn changed_all(&mut self, db: DbId) {
        let lines = self.lines[usize::from(db)].iter();
        let mut keys: Vec<_> = lines
            .map(|(key, line)| (line.clients.keys().next(), key))
            .collect();
        keys.sort_unstable();
        self.stirred |= !keys.is_empty();
        let places = keys.into_iter().map(|(_, key)| (db, key.clone()));
        self.touched.extend(places);
    }

    /// The keys that were changed since this was called last.
    pub(crate) fn take_touched(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.touched)
    }

    /// A key can be served.
    pub(crate) fn is_ready(&mut self, (db, key): Place) {
        // The last who waited for it may have gone since it was touched.
        if let Some(line) = self.lines[usize::from(db)].get_mut(&key)
            && !std::mem::replace(&mut line.is_ready, true)
        {
            self.ready.push_back((db, key));
        }
    }

    /// The key that can be served and was ready first.
    pub(crate) fn next_ready(&mut self) -> Option<Place> {
        let place = self.ready.pop_front();
        match &place {
            Some((db, key)) => {
                if let Some(line) = self.lines[usize::from(*db)].get_mut(key) {
                    line.is_ready = false;
                }
            }
            None => self.stirred = !self.touched.is_empty(),
        }
        place
    }

    /// The slot of the client that has waited for a key longest.
    pub(crate) fn first(&self, db: DbId, key: &[u8]) -> Option<usize> {
        let line = self.lines[usize::from(db)].get(key)?;
        line.clients.values().next().copied()
    }

    /// The slot of a client that waits for a key, by its number.
    pub(crate) fn slot_of(&self, client: u64) -> Option<usize> {
        self.clients.get(&client).copied()
    }

    /// Whose time is up first: when that is, and the slot.
    #[inline]
    pub(crate) fn first_deadline(&self) -> Option<(Instant, usize)> {
        let &(deadline, _, slot) = self.deadlines.first()?;
        Some((deadline, slot))
    }

    /// Slots of the clients that waited for the end of a pause, in the order in which their requests came.
    pub(crate) fn take_held(&mut self) -> impl Iterator<Item = usize> + use<> {
        std::mem::take(&mut self.held).into_values()
    }

    /// A client has ceased to wait.
    pub(crate) fn released(&mut self, slot: usize) {
        self.released.push(slot);
    }

    /// Clients that have ceased to wait, by slot, in the order in which they did.
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
        let no_lines = blocked.lines.iter().all(HashMap::is_empty);
        no_lines && blocked.deadlines.is_empty() && blocked.len() == 0
    }

    /// Ten thousand wait for one key, and for one of their own: whoever goes costs steps in trees, or this would take minutes.
    #[test]
    fn who_began_to_wait_first_is_first_whoever_goes() {
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
            blocked.forget(&mut clients[id as usize]);
        }
        for id in (0..5000).filter(|id| id % 3 > 0) {
            assert_eq!(blocked.first(0, b"all"), Some(id as usize));
            blocked.forget(&mut clients[id as usize]);
            // Once more is nothing.
            assert!(matches!(
                blocked.forget(&mut clients[id as usize]),
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
        assert!(!blocked.is_stirred());
        blocked.changed(0, b"nobody waits for it");
        assert!(!blocked.is_stirred());
        let place = |db: DbId, key: &str| (db, Box::from(key.as_bytes()));
        let changes = [(0, "b"), (3, "a"), (0, "a"), (0, "b")];
        for (db, key) in changes {
            blocked.changed(db, key.as_bytes());
        }
        assert!(blocked.is_stirred());
        assert_eq!(
            blocked.take_touched(),
            changes.map(|(db, key)| place(db, key))
        );
        for (db, key) in changes {
            blocked.is_ready(place(db, key));
        }
        for (db, key) in &changes[..3] {
            assert_eq!(blocked.next_ready(), Some(place(*db, key)));
        }
        // One that was served may be ready again.
        blocked.is_ready(place(0, "b"));
        assert_eq!(blocked.next_ready(), Some(place(0, "b")));
        assert_eq!(blocked.next_ready(), None);
        assert!(!blocked.is_stirred());
        blocked.changed_all(3);
        assert_eq!(blocked.take_touched().len(), 2);
        for client in [&mut one, &mut other] {
            blocked.forget(client);
        }
        blocked.is_ready(place(0, "a"));
        assert_eq!(blocked.next_ready(), None, "nobody waits any more");
        assert!(nothing_is_left(&blocked));
    }
}
