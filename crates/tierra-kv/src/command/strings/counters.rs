//! Values that are numbers, counted up and down.

use super::{Call, Failure, Outcome};
use crate::keyspace::{Expiry, Kind};
use crate::number::{Extended, parse_i64};

fn add(call: &mut Call<'_>, step: i64) -> Outcome {
    let key = call.key(1);
    let before = match call.write(&key, Kind::String)? {
        Some(entry) => parse_i64(call.db_ref().string(entry)).ok_or(Failure::INTEGER)?,
        None => 0,
    };
    let after = before.checked_add(step).ok_or(Failure::OVERFLOW)?;
    let mut text = itoa::Buffer::new();
    call.db()
        .set_string(&key, text.format(after).as_bytes(), Expiry::Keep)?;
    call.changed(key.bytes);
    call.reply.integer(after);
    Ok(())
}

pub(super) fn incr(call: &mut Call<'_>) -> Outcome {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Outcome {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Outcome {
    let step = call.integer(2)?;
    add(call, step)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Outcome {
    let step = call
        .integer(2)?
        .checked_neg()
        .ok_or("ERR decrement would overflow")?;
    add(call, step)
}

pub(super) fn incrbyfloat(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    let before = match call.write(&key, Kind::String)? {
        Some(entry) => Extended::parse(call.db_ref().string(entry)).ok_or(Failure::FLOAT)?,
        None => Extended::ZERO,
    };
    let step = Extended::parse(call.arg(2)).ok_or(Failure::FLOAT)?;
    let after = before.plus(step);
    if after.is_infinite() {
        return Err(Failure::NOT_FINITE);
    }
    let mut text = Vec::new();
    after.push(&mut text);
    call.db().set_string(&key, &text, Expiry::Keep)?;
    call.changed(key.bytes);
    call.reply.bulk(&text);
    Ok(())
}
