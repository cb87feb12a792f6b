//! TYPE.

use super::{Call, Outcome};
use crate::keyspace::Kind;

/// As TYPE calls it.
pub(super) fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::Hash => "hash",
        Kind::SortedSet => "zset",
    }
}

pub(super) fn kind(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    let kind = call
        .look_untouched(&key)
        .map(|entry| call.db_ref().kind(entry));
    call.reply.simple(kind.map_or("none", kind_name));
    Ok(())
}
