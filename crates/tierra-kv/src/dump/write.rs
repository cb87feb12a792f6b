//! Values as payloads: the types that Redis 7.0 writes of them.

use super::listpack::Writer;
use super::seal::seal;
use super::source::{push_length, push_string};
use super::types::{HASH, HASH_LISTPACK, SET, SET_LISTPACK, STRING};
use crate::keyspace::{Db, Kind, LiveEntry};
use crate::number::push_double;

/// Appends the payload of a value to `out`, which is empty. Nothing is compressed; Redis reads that, too.
pub fn write(db: &Db, entry: LiveEntry, out: &mut Vec<u8>) {
    debug_assert!(out.is_empty(), "the checksum is of the whole");
    match (db.kind(entry), db.is_packed(entry)) {
        (Kind::String, _) => {
            out.push(STRING);
            push_string(out, db.string(entry));
        }
        (Kind::Hash, true) => {
            let mut packed = Writer::new();
            for (field, value) in db.hash_iter(entry) {
                packed.push(field);
                packed.push(value);
            }
            out.push(HASH_LISTPACK);
            push_string(out, &packed.end());
        }
        (Kind::Hash, false) => {
            out.push(HASH);
            push_length(out, db.hash_len(entry));
            for (field, value) in db.hash_iter(entry) {
                push_string(out, field);
                push_string(out, value);
            }
        }
        (Kind::SortedSet, true) => {
            let (mut packed, mut text) = (Writer::new(), Vec::new());
            for (member, score) in db.zset_range(entry, 0..usize::MAX) {
                text.clear();
                push_double(&mut text, score);
                packed.push(member);
                packed.push(&text);
            }
            out.push(SET_LISTPACK);
            push_string(out, &packed.end());
        }
        (Kind::SortedSet, false) => {
            out.push(SET);
            push_length(out, db.zset_len(entry));
            // The highest first, as Redis does: it inserts at the head of its list when it reads them.
            for (member, score) in db.zset_range(entry, 0..usize::MAX).rev() {
                push_string(out, member);
                out.extend_from_slice(&score.to_le_bytes());
            }
        }
    }
    seal(out);
}
