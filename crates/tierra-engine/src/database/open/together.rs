//! Commits of several tables: their records count together, or not at all.
//!
//! A commit is complete if each table that its records name has the record with that number in its log, or has none of that number
//! because the log was given up since. If the process ended in between, some logs end with a record whose fellows are missing:
//! that commit was never acknowledged, and those logs end before it.
//!
//! Invariant: the logs are cut before any of them is given up (`Writer::cut_logs`), so that an incomplete commit never seems
//! complete later.

use std::collections::BTreeSet;
use std::path::Path;

use super::missing_parts;
use super::tables::OpenedTable;
use crate::deleted::Deletions;
use crate::error::LogError;
use crate::table::Missing;
use crate::tail::{LogEnd, Participant, Tail};

/// A record that counts only with others.
pub(super) struct Together {
    pub(super) sequence: u64,
    pub(super) commit: u64,
    pub(super) participants: Vec<Participant>,
}

impl Together {
    /// Whether both are of one commit.
    fn is_of(&self, other: &Together) -> bool {
        self.commit == other.commit && self.participants == other.participants
    }
}

/// What a log's last record changed, if it counts only with others.
pub(super) struct BeforeLast {
    pub(super) tail: Tail,
    pub(super) deletions: Deletions,
    pub(super) end: LogEnd,
}

/// What becomes of a table.
enum Fate {
    /// Its last record does not count.
    Undo,
    /// Its log lacks an acknowledged record, or whether it does is unknown.
    Withhold { commit: u64, others: String },
}

/// Undoes commits that are incomplete.
pub(super) fn settle(dir: &Path, tables: &mut [OpenedTable]) {
    let fates: Vec<_> = (0..tables.len())
        .filter_map(|at| Some((at, fate(tables, at)?)))
        .collect();
    for (at, fate) in fates {
        let table = &mut tables[at];
        match fate {
            Fate::Undo => table.undo_last(),
            Fate::Withhold { commit, others } => {
                let torn = LogError::Torn { commit, others };
                let why = missing_parts::damaged(dir, &table.entry.spec, &torn);
                tracing::warn!(%why, "the database is opened without it");
                table.missing = Some(Missing::Rows(why));
            }
        }
    }
}

/// What the other tables say about a table's records.
fn fate(tables: &[OpenedTable], at: usize) -> Option<Fate> {
    let table = &tables[at];
    if matches!(table.missing, Some(Missing::Rows(_))) {
        return None;
    }
    for other in tables
        .iter()
        .filter(|other| other.entry.id != table.entry.id)
    {
        for record in &other.together {
            let mut own = record.participants.iter();
            let own = own.find(|own| own.table == table.entry.id);
            if own.is_some_and(|own| matches!(has(tables, *own, record), Has::No))
                && is_acknowledged(tables, record)
            {
                return Some(Fate::Withhold {
                    commit: record.commit,
                    others: format!("{:?}", other.entry.spec.name),
                });
            }
        }
    }
    // Its own last record.
    let last = table.together.last();
    if let Some(last) = last.filter(|_| table.before_last.is_some()) {
        let mut unreadable = BTreeSet::new();
        let others = last.participants.iter();
        let others = others.filter(|other| other.table != table.entry.id);
        for other in others {
            match has(tables, *other, last) {
                Has::Yes => {}
                Has::No if is_acknowledged(tables, last) => {}
                Has::No => return Some(Fate::Undo),
                Has::Unknown(name) => {
                    unreadable.insert(name);
                }
            }
        }
        if !unreadable.is_empty() && !is_acknowledged(tables, last) {
            let others: Vec<_> = unreadable.into_iter().collect();
            return Some(Fate::Withhold {
                commit: last.commit,
                others: others.join(" and "),
            });
        }
    }
    None
}

/// Whether a log shows that a commit was acknowledged: it goes on behind it, or its mark counts it.
fn is_acknowledged(tables: &[OpenedTable], commit: &Together) -> bool {
    tables.iter().any(|table| {
        let found = table
            .together
            .iter()
            .position(|record| record.is_of(commit));
        let is_last = |at: usize| at + 1 == table.together.len() && table.before_last.is_some();
        found.is_some_and(|at| !is_last(at) || table.is_last_acknowledged)
    })
}

enum Has {
    Yes,
    No,
    /// The table of that name cannot be read.
    Unknown(String),
}

/// Whether a table's log has its record of a commit.
fn has(tables: &[OpenedTable], participant: Participant, of: &Together) -> Has {
    let Some(other) = tables
        .iter()
        .find(|other| other.entry.id == participant.table)
    else {
        // It was dropped since.
        return Has::Yes;
    };
    if participant.sequence < other.entry.tail.first_sequence {
        return Has::Yes;
    }
    if matches!(other.missing, Some(Missing::Rows(_))) {
        return Has::Unknown(format!("{:?}", other.entry.spec.name));
    }
    let is_it = |record: &Together| record.sequence == participant.sequence && record.is_of(of);
    match other.together.iter().any(is_it) {
        true => Has::Yes,
        false => Has::No,
    }
}
