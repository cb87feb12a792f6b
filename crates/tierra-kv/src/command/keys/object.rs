//! What is known about a key beside its value.

use super::{Call, Outcome};
use crate::keyspace::{Db, Kind, LiveEntry};
use crate::number::parse_i64;
use tierra_memory::Speed;

/// Redis keeps strings up to this length beside their header, and calls that another encoding.
const EMBEDDED_BYTES: usize = 44;

fn encoding_name(db: &Db, entry: LiveEntry) -> &'static str {
    match db.kind(entry) {
        Kind::String => {
            let value = db.string(entry);
            match value.len() {
                1..=20 if parse_i64(value).is_some() => "int",
                0..=EMBEDDED_BYTES => "embstr",
                _ => "raw",
            }
        }
        _ if db.is_packed(entry) => "listpack",
        Kind::Hash => "hashtable",
        Kind::SortedSet => "skiplist",
    }
}

fn entry(call: &mut Call<'_>) -> Option<LiveEntry> {
    let key = call.key(2);
    let entry = call.look_untouched(&key);
    if entry.is_none() {
        call.reply.null();
    }
    entry
}

pub(super) fn encoding(call: &mut Call<'_>) -> Outcome {
    if let Some(entry) = entry(call) {
        call.reply
            .bulk(encoding_name(call.keyspace.selected(), entry).as_bytes());
    }
    Ok(())
}

pub(super) fn freq(call: &mut Call<'_>) -> Outcome {
    let Some(entry) = entry(call) else {
        return Ok(());
    };
    if !call.shared.config.maxmemory_policy.is_lfu() {
        return Err("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.".into());
    }
    call.reply
        .integer(call.keyspace.selected().heat(entry) as i64);
    Ok(())
}

/// How often a key is used is counted, not when it was used last.
pub(super) fn idletime(call: &mut Call<'_>) -> Outcome {
    match entry(call) {
        Some(_) if !call.shared.config.maxmemory_policy.is_lfu() => {
            Err("ERR idle time is not tracked: uses are counted, not timed. Under an LFU maxmemory-policy OBJECT FREQ tells them.".into())
        }
        Some(_) => Err("ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.".into()),
        None => Ok(()),
    }
}

/// Where the record is, which Redis does not know.
pub(super) fn tier(call: &mut Call<'_>) -> Outcome {
    if let Some(entry) = entry(call) {
        let tier = match call.keyspace.selected().tier(entry) {
            Speed::Near => "near",
            Speed::Far => "far",
        };
        call.reply.bulk(tier.as_bytes());
    }
    Ok(())
}

pub(super) fn refcount(call: &mut Call<'_>) -> Outcome {
    if entry(call).is_some() {
        call.reply.integer(1);
    }
    Ok(())
}
