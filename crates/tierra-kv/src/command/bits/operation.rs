//! BITOP: values combined bit by bit, shorter ones with zeros behind their end.

use super::{Call, Failure, Outcome};
use crate::keyspace::{Expiry, Kind};

/// Where the sources begin among the arguments.
const SOURCES_AT: usize = 3;

pub(super) fn bitop(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(1);
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    let combine: fn(u8, u8) -> u8 = if is("AND") {
        |a, b| a & b
    } else if is("OR") {
        |a, b| a | b
    } else if is("XOR") {
        |a, b| a ^ b
    } else if is("NOT") {
        if call.args.len() != SOURCES_AT + 1 {
            return Err("ERR BITOP NOT must be called with a single source key.".into());
        }
        |a, _| !a
    } else {
        return Err(Failure::SYNTAX);
    };
    let mut result = Vec::new();
    for index in SOURCES_AT..call.args.len() {
        let key = call.key(index);
        let entry = call.read(&key, Kind::String)?;
        let value = entry.map_or(&[][..], |entry| call.db_ref().string(entry));
        if index == SOURCES_AT {
            result.extend_from_slice(value);
            if is("NOT") {
                result.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
            }
            continue;
        }
        result.resize(result.len().max(value.len()), 0);
        let (both, alone) = result.split_at_mut(value.len());
        for (byte, other) in both.iter_mut().zip(value) {
            *byte = combine(*byte, *other);
        }
        alone.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
    }
    let key = call.key(2);
    let has_changed = if result.is_empty() {
        call.db().remove(&key)
    } else {
        call.db().set_string(&key, &result, Expiry::Clear)?;
        true
    };
    if has_changed {
        call.changed(key.bytes);
    }
    call.reply.integer(result.len() as i64);
    Ok(())
}
