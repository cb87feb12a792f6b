//! BITOP: values combined bit by bit, shorter ones with zeros behind their end.

use super::{Call, Failure, Outcome};
use crate::keyspace::{Expiry, Kind};

/// Where the sources begin among the arguments.
const SOURCES_AT: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(name: &[u8]) -> Option<Self> {
        let all = [
            ("AND", Self::And),
            ("OR", Self::Or),
            ("XOR", Self::Xor),
            ("NOT", Self::Not),
        ];
        let known = all
            .into_iter()
            .find(|(known, _)| name.eq_ignore_ascii_case(known.as_bytes()));
        known.map(|(_, operation)| operation)
    }

    /// Combines a value with another, which is at most as long. NOT takes no other.
    fn apply(self, value: &mut [u8], other: &[u8]) {
        let (both, alone) = value.split_at_mut(other.len());
        match self {
            Self::And => {
                combine(both, other, |a, b| a & b);
                alone.fill(0);
            }
            Self::Or => combine(both, other, |a, b| a | b),
            Self::Xor => combine(both, other, |a, b| a ^ b),
            Self::Not => alone.iter_mut().for_each(|byte| *byte = !*byte),
        }
    }
}

/// One loop for each operation, which the compiler vectorises.
fn combine(value: &mut [u8], other: &[u8], operation: impl Fn(u8, u8) -> u8) {
    for (byte, other) in value.iter_mut().zip(other) {
        *byte = operation(*byte, *other);
    }
}

pub(super) fn bitop(call: &mut Call<'_>) -> Outcome {
    let operation = Operation::parse(call.arg(1)).ok_or(Failure::SYNTAX)?;
    if operation == Operation::Not && call.args.len() != SOURCES_AT + 1 {
        return Err("ERR BITOP NOT must be called with a single source key.".into());
    }
    let mut result = Vec::new();
    for index in SOURCES_AT..call.args.len() {
        let key = call.key(index);
        let entry = call.read(&key, Kind::String)?;
        let value = entry.map_or(&[][..], |entry| call.db_ref().string(entry));
        if index == SOURCES_AT {
            result.extend_from_slice(value);
        } else {
            result.resize(result.len().max(value.len()), 0);
            operation.apply(&mut result, value);
        }
    }
    if operation == Operation::Not {
        operation.apply(&mut result, &[]);
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
