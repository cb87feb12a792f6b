//! Tiers in which one of the last two publications cannot be read.
//!
//! The pool itself does not tell whether the readable one is the newer one. Another tier does: tiers are published together, so
//! if a whole tier has that version or a newer one, this pool lacks nothing. It is then opened at that version, and the next
//! publication replaces the lost one.
//!
//! Invariant: if no whole tier is as new, the tier counts as missing, because it may be the only one with the newest state.

use tierra_memory::{Pool, PoolError, PoolOptions};

use super::FoundPool;
use super::pools::read_root;
use crate::storage::directory::DatabaseDirectory;

/// Opens the pools that whole tiers vouch for; also returns whether there was one.
pub(super) fn open(directory: &DatabaseDirectory, found: Vec<FoundPool>) -> (Vec<FoundPool>, bool) {
    let newest = newest_whole(directory, &found);
    let mut any = false;
    let open = |mut found: FoundPool| {
        if let Err(PoolError::LostPublication { version, .. }) = found.opened
            && newest.is_some_and(|newest| newest >= version)
        {
            let options = PoolOptions {
                at_version: Some(version),
                ..found.options.clone()
            };
            found.opened = Pool::open(&found.path, &options);
            if found.opened.is_ok() {
                any = true;
                let path = found.path.display();
                tracing::warn!(tier = found.name, %path, "one of the last two publications is lost; another tier has it");
            }
        }
        found
    };
    let found = found.into_iter().map(open).collect();
    (found, any)
}

/// The newest version of a whole pool with the directory's mark. Publications without that pool have a newer version.
fn newest_whole(directory: &DatabaseDirectory, found: &[FoundPool]) -> Option<u64> {
    let mark = directory.file().lineage;
    let whole = found.iter().filter_map(|found| {
        let (_, manifest) = read_root(directory, found.opened.as_ref().ok()?).ok()?;
        let is_ours = manifest.database == directory.file().database;
        let has_mark = mark.is_none_or(|mark| manifest.lineage.contains(&mark));
        (is_ours && has_mark).then_some(manifest.version)
    });
    whole.max()
}
