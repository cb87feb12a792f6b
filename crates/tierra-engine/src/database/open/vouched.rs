//! Tiers of which one of the two last publications cannot be read.
//!
//! Nothing in such a pool tells whether the one that can be read is the newer one. Another tier does: all are published together, so
//! where one that is whole has that version, or a newer one, nothing was published that it lacks. The pool is opened as it is then, and gets the
//! next publication in the place of the one that is lost.
//!
//! Invariant: where none is as new the tier counts as missing, for it may be the only one that had the newest state.

use tierra_memory::{Pool, PoolError, PoolOptions};

use super::FoundPool;
use super::pools::read_root;
use crate::storage::directory::Home;

/// Opens the pools that others vouch for; whether there was one.
pub(super) fn open(home: &Home, found: Vec<FoundPool>) -> (Vec<FoundPool>, bool) {
    let newest = newest_whole(home, &found);
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
                tracing::warn!(tier = found.name, %path, "one of its two last publications is lost: another tier has what it was");
            }
        }
        found
    };
    let found = found.into_iter().map(open).collect();
    (found, any)
}

/// The newest version of a pool that is whole and has the directory's mark: what was published without that pool has a newer one.
fn newest_whole(home: &Home, found: &[FoundPool]) -> Option<u64> {
    let mark = home.file().lineage;
    let whole = found.iter().filter_map(|found| {
        let (_, manifest) = read_root(home, found.opened.as_ref().ok()?).ok()?;
        let is_ours = manifest.database == home.file().database;
        let has_mark = mark.is_none_or(|mark| manifest.lineage.contains(&mark));
        (is_ours && has_mark).then_some(manifest.version)
    });
    whole.max()
}
