//! The activity of a database for a program that watches it: without SQL, and without a session of its own.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tierra_engine::Database;

use super::totals::Totals;
use super::{Activity, Client, lock};
use crate::work::Work;

/// A statement that runs or that took long.
#[derive(Clone, Debug)]
pub struct StatementActivity {
    /// Its number in `tierra_queries`.
    pub id: u64,
    /// The number of its session.
    pub session: u64,
    /// Who uses the session.
    pub user: String,
    /// With which program.
    pub application: String,
    /// When it began.
    pub began: SystemTime,
    /// How long it has run.
    pub elapsed: Duration,
    /// `executing` or `streaming`; `ended` or `failed` for a slow one.
    pub state: String,
    /// Rows handed out or written.
    pub rows: u64,
    /// What its plan has read.
    pub work: Work,
    /// Why it failed.
    pub error: Option<String>,
    /// The beginning of its text.
    pub text: Arc<str>,
}

/// Sees what the sessions of a database do.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Activity>);

impl Monitor {
    /// The monitor of `database`.
    pub fn new(database: &Arc<Database>) -> Self {
        Self(Activity::of(database))
    }

    /// The statements that run, the oldest first.
    pub fn running(&self) -> Vec<StatementActivity> {
        let running = self.0.running();
        let running = running.iter().map(|one| StatementActivity {
            elapsed: one.elapsed(),
            state: one.state(),
            rows: one.rows(),
            work: one.work(),
            ..of_client(&one.client, one.id, one.began_at, &one.text)
        });
        running.collect()
    }

    /// The last statements that took long, the newest first.
    pub fn slow(&self) -> Vec<StatementActivity> {
        let slow = self.0.slow().into_iter().rev();
        let slow = slow.map(|one| StatementActivity {
            elapsed: one.elapsed,
            state: match one.error {
                Some(_) => "failed",
                None => "ended",
            }
            .to_owned(),
            rows: one.rows,
            work: one.work,
            error: one.error,
            ..of_client(&one.client, one.id, one.began_at, &one.text)
        });
        slow.collect()
    }

    /// Sums over all statements since the database was opened.
    pub fn totals(&self) -> Totals {
        let (mut totals, running) = {
            // A statement that ends is in one of the two.
            let running = lock(&self.0.running);
            let totals = *lock(&self.0.totals);
            (totals, running.values().cloned().collect::<Vec<_>>())
        };
        totals.running = running.len() as u64;
        totals.sessions = self.0.sessions().len() as u64;
        for one in running {
            totals.rows += one.rows();
            totals.work += one.work();
        }
        totals
    }

    /// Whose a running statement is; `None` if there is none of that number.
    pub fn user_of(&self, statement: u64) -> Option<String> {
        let running = lock(&self.0.running);
        running.get(&statement).map(|one| one.client.name().user)
    }

    /// Cancels a running statement, as [`Session::cancel`](crate::Session::cancel) does; `false` if there is none of that number.
    pub fn cancel(&self, statement: u64) -> bool {
        self.0.cancel(statement)
    }
}

fn of_client(client: &Client, id: u64, began: SystemTime, text: &Arc<str>) -> StatementActivity {
    let name = client.name();
    StatementActivity {
        id,
        session: client.id,
        user: name.user,
        application: name.application,
        began,
        elapsed: Duration::ZERO,
        state: String::new(),
        rows: 0,
        work: Work::default(),
        error: None,
        text: Arc::clone(text),
    }
}
