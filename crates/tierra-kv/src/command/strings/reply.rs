//! The value of a key as a reply.

use super::{Call, Failure};
use crate::keyspace::Kind;

/// Replies with the value of a key. False where there is none.
pub(super) fn reply_value(call: &mut Call<'_>, index: usize) -> Result<bool, Failure> {
    let key = call.key(index);
    let entry = call.read(&key, Kind::String)?;
    match entry {
        Some(entry) => call.reply.bulk(call.keyspace.selected().string(entry)),
        None => call.reply.null(),
    }
    Ok(entry.is_some())
}
