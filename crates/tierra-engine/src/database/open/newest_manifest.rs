//! Chooses the manifest that a database is opened with, of those that its pools publish.
//!
//! Invariant: it is the newest, and all others lead to it. Where that cannot be shown the database is not opened.

use super::pools::Candidate;
use crate::error::OpenError;
use crate::storage::directory::DatabaseDirectory;

/// Chooses the newest manifest among those with the directory's mark. All others must lead to it.
pub(super) fn choose<'a>(
    directory: &DatabaseDirectory,
    candidates: &'a [Candidate],
    missing: impl Fn() -> String,
) -> Result<Option<&'a Candidate>, OpenError> {
    let dir = || directory.dir().to_owned();
    let mark = directory.file().lineage;
    let has_mark =
        |candidate: &&Candidate| mark.is_none_or(|mark| candidate.manifest.lineage.contains(&mark));
    let version = |candidate: &&Candidate| candidate.manifest.version;
    let Some(newest) = candidates.iter().filter(has_mark).max_by_key(version) else {
        return match candidates.iter().max_by_key(version) {
            None => Ok(None),
            Some(found) => Err(OpenError::Stale {
                dir: dir(),
                pool: found.pool.path().to_owned(),
                version: found.manifest.version,
                missing: missing(),
            }),
        };
    };
    for other in candidates {
        let manifest = &other.manifest;
        if !newest.manifest.continues(manifest) {
            return Err(OpenError::Diverged {
                dir: dir(),
                newest: newest.pool.path().to_owned(),
                other: other.pool.path().to_owned(),
            });
        }
        // Tiers are published together, so a present tier lacks at most the last publication. After an interruption the most
        // outdated tier is published first, so a tier lacks at most as many publications as there are other tiers. A tier that
        // was missing also lacks a mark.
        let tiers = newest.manifest.tiers.iter().filter(|tier| tier.present);
        let count = tiers.clone().count() as u64;
        let is_expected = |pool_id| tiers.clone().any(|tier| tier.pool_id == pool_id);
        if manifest.version + count.max(2) <= newest.manifest.version
            && manifest.lineage == newest.manifest.lineage
            && is_expected(other.pool.id())
        {
            return Err(OpenError::Torn {
                dir: dir(),
                newest: newest.pool.path().to_owned(),
                version: newest.manifest.version,
                other: other.pool.path().to_owned(),
                other_version: manifest.version,
            });
        }
    }
    Ok(Some(newest))
}
