//! The state of the writer's thread.
//!
//! Invariant: only that thread changes it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::background::Background;
use super::choose::Choosing;
use super::failed_builds::FailedBuilds;
use super::published::Published;
use crate::spec::replicas::TierId;
use crate::storage::Storage;
use crate::storage::extent::ExtentCopy;
use crate::table::catalog::Catalog;
use crate::table::requests::{Request, Requests};
use crate::tail::TailLog;

/// The state of the thread.
pub(crate) struct Writer {
    pub(super) storage: Arc<Storage>,
    /// Sends requests to the writer itself.
    pub(super) requests: Requests,
    pub(super) catalog: Arc<Catalog>,
    pub(super) published: Published,
    /// Each table's log with the position of the next record, by table id. Tables that are not yet visible have none.
    pub(super) logs: HashMap<u64, TailLog>,
    /// Number of the last commit to any table.
    pub(super) commit: u64,
    /// When logs are to be marked as acknowledged up to their ends; `None` if they are.
    pub(super) idle_marks_at: Option<Instant>,
    /// At least the manifest's; greater while tables are begun.
    pub(super) next_table_id: u64,
    pub(super) failed_builds: FailedBuilds,
    pub(super) background: Background,
    /// Tables that are being brought to their placements without being asked for: a step of each is in the queue.
    pub(super) placing: usize,
    /// Of what replicas are being chosen: the next step is in the queue.
    pub(super) choosing: Option<Choosing>,
    /// Space that is free with the next publication.
    pub(super) superseded: Vec<Arc<ExtentCopy>>,
    /// The tiers in the order of their publication, if some lack the newest manifest and the first write has to bring it to them.
    pub(super) behind: Vec<TierId>,
    /// A request that was taken from the queue too early, and comes next.
    pub(super) put_back: Option<Request>,
    /// Whether logs have records behind their ends that must be gone before anything else is written.
    pub(super) must_cut_logs: bool,
    /// Whether tiers were lost and not all that is left says so: nothing else is written before.
    pub(super) must_leave_lost: bool,
    /// Whether a caller was told that the outcome of a write is unknown because the last device failed.
    pub(super) has_told_failure: bool,
}

impl Writer {
    pub(crate) fn new(
        storage: Arc<Storage>,
        requests: Requests,
        catalog: Arc<Catalog>,
        published: Published,
        logs: HashMap<u64, TailLog>,
        commit: u64,
    ) -> Self {
        let mut writer = Self {
            next_table_id: published.manifest().next_table_id,
            storage,
            requests,
            catalog,
            published,
            logs,
            commit,
            idle_marks_at: None,
            failed_builds: FailedBuilds::default(),
            background: Background::default(),
            placing: 0,
            choosing: None,
            superseded: Vec::new(),
            behind: Vec::new(),
            put_back: None,
            must_cut_logs: false,
            must_leave_lost: false,
            has_told_failure: false,
        };
        writer.must_cut_logs = writer.logs.values().any(|log| log.given_up() > 0);
        // A killed process leaves its last records unmarked.
        if writer.logs.values().any(TailLog::has_unmarked) {
            writer.schedule_idle_marks();
        }
        writer
    }
}
