//! What the sessions of a database are doing: who is connected, which statements run, which were slow.
//!
//! ```text
//! Activity, one per open database
//!   sessions ---- Client       who is connected, since when
//!   running ----- Running      a statement, from its text to the end of its rows; it can be cancelled
//!   slow -------- Slow         the last statements that took longer than their session's tierra.slow_ms
//!   totals ------ Totals       sums over those that have ended
//! ```
//!
//! Invariant: a statement is listed exactly while its [`Tracked`] lives, and a session while its [`Connection`] does.

mod canceller;
mod monitor;
mod running;
mod tables;
mod totals;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use tierra_engine::Database;

use self::canceller::Cancel;
pub use self::canceller::Canceller;
pub use self::monitor::{Monitor, StatementActivity};
pub use self::running::Listed;
pub(crate) use self::running::{Commit, TEXT_MOST, Tracked, cancellable};
use self::running::{Running, Slow};
pub(crate) use self::tables::{TABLES, find};
pub use self::totals::{TIME_BOUNDS_S, Totals};

/// How many slow statements are remembered.
const SLOW_MOST: usize = 256;

/// The activity of one open database.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// The last number given to a session or a statement.
    last_id: AtomicU64,
    sessions: Mutex<BTreeMap<u64, Arc<Client>>>,
    running: Mutex<BTreeMap<u64, Arc<Running>>>,
    slow: Mutex<VecDeque<Slow>>,
    /// Of ended statements alone. Locked after `running`, if both are.
    totals: Mutex<Totals>,
}

/// The activities of the open databases. A database that was closed is removed when the next one is opened.
static ACTIVITIES: Mutex<Vec<(Weak<Database>, Arc<Activity>)>> = Mutex::new(Vec::new());

/// A lock whose data is changed as a whole, so that a panic leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Activity {
    /// The activity that all sessions of `database` share.
    pub(crate) fn of(database: &Arc<Database>) -> Arc<Self> {
        let mut activities = lock(&ACTIVITIES);
        let is_it = |known: &Weak<Database>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(database));
        if let Some((_, activity)) = activities.iter().find(|(known, _)| is_it(known)) {
            return Arc::clone(activity);
        }
        activities.retain(|(known, _)| known.strong_count() > 0);
        let activity = Arc::<Self>::default();
        activities.push((Arc::downgrade(database), Arc::clone(&activity)));
        activity
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn sessions(&self) -> Vec<Arc<Client>> {
        lock(&self.sessions).values().cloned().collect()
    }

    fn running(&self) -> Vec<Arc<Running>> {
        lock(&self.running).values().cloned().collect()
    }

    fn slow(&self) -> Vec<Slow> {
        lock(&self.slow).iter().cloned().collect()
    }

    /// Cancels a running statement; `false` if there is none of that number.
    fn cancel(&self, id: u64) -> bool {
        let running = lock(&self.running).get(&id).cloned();
        running.inspect(|running| running.cancel()).is_some()
    }

    fn note_slow(&self, slow: Slow) {
        let mut ring = lock(&self.slow);
        if ring.len() == SLOW_MOST {
            ring.pop_front();
        }
        ring.push_back(slow);
    }
}

/// A session as others see it.
#[derive(Debug)]
pub(crate) struct Client {
    id: u64,
    began: SystemTime,
    name: Mutex<ClientName>,
    statements: AtomicU64,
    /// The milliseconds from which a statement is slow.
    slow_ms: AtomicU64,
}

/// Who uses a session, and with which program.
#[derive(Clone, Debug, Default)]
struct ClientName {
    user: String,
    application: String,
}

impl Client {
    fn name(&self) -> ClientName {
        lock(&self.name).clone()
    }
}

/// A session's entry among the sessions of its database. Dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct Connection {
    activity: Arc<Activity>,
    client: Arc<Client>,
}

impl Connection {
    pub(crate) fn new(database: &Arc<Database>, slow_ms: u64) -> Self {
        let activity = Activity::of(database);
        let client = Arc::new(Client {
            id: activity.next_id(),
            began: SystemTime::now(),
            name: Mutex::default(),
            statements: AtomicU64::new(0),
            slow_ms: AtomicU64::new(slow_ms),
        });
        lock(&activity.sessions).insert(client.id, Arc::clone(&client));
        Self { activity, client }
    }

    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    pub(crate) fn id(&self) -> u64 {
        self.client.id
    }

    /// Says who uses the session.
    pub(crate) fn set_name(&self, user: &str, application: &str) {
        *lock(&self.client.name) = ClientName {
            user: user.to_owned(),
            application: application.to_owned(),
        };
    }

    pub(crate) fn set_slow_ms(&self, slow_ms: u64) {
        self.client.slow_ms.store(slow_ms, Ordering::Relaxed);
    }

    /// A statement of this session that begins now.
    pub(crate) fn begin(&self, text: impl Into<Arc<str>>) -> Tracked {
        self.client.statements.fetch_add(1, Ordering::Relaxed);
        let id = self.activity.next_id();
        let running = Arc::new(Running::new(id, Arc::clone(&self.client), text.into()));
        lock(&self.activity.running).insert(id, Arc::clone(&running));
        Canceller::note(Arc::clone(&running) as _);
        Tracked::new(Arc::clone(&self.activity), running)
    }

    /// Cancels the running statement with this number, of any session; `false` if there is none.
    pub(crate) fn cancel(&self, id: u64) -> bool {
        self.activity.cancel(id)
    }

    /// Cancels all running statements of this session whose rows are not set aside.
    pub(crate) fn cancel_own(&self) {
        let running = self.activity.running();
        let own = running.iter().filter(|running| running.is_of(&self.client));
        let own = own.filter(|running| !running.is_aside());
        own.for_each(|running| running.cancel());
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.activity.sessions).remove(&self.client.id);
    }
}
