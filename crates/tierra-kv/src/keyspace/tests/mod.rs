//! What the keyspace promises, one file a promise.

use std::ops::Range;

use super::*;

mod bulk_build;
mod compare;
mod eviction;
mod expiry;
mod model;
mod placement;
mod seeded;
mod sizes;
mod windows;

fn keyspace(settings: Settings) -> Keyspace {
    Keyspace::new(&KeyspaceOptions {
        settings,
        ..KeyspaceOptions::default()
    })
    .unwrap()
}

/// Small enough for packed and large values, and for both tiers, to be met all the time.
fn settings(policy: Policy, near_bytes: u64) -> Settings {
    Settings {
        policy,
        near_bytes,
        hash_packed_entries_max: 6,
        hash_packed_value_max: 200,
        set_packed_entries_max: 6,
        ..Settings::default()
    }
}

fn fill(keyspace: &mut Keyspace, keys: Range<u32>, bytes: usize) {
    for key in keys {
        let name = format!("key:{key:08}");
        let value = vec![key as u8; bytes];
        keyspace
            .db(0)
            .set_string(&Key::new(name.as_bytes()), &value, Expiry::Clear)
            .unwrap();
    }
}
