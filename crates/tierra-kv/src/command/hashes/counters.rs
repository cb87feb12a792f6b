//! Fields that are numbers.

use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;
use crate::number::{Extended, parse_i64};

pub(super) fn hincrby(call: &mut Call<'_>) -> Outcome {
    let (key, field, step) = (call.key(1), call.arg(2), call.integer(3)?);
    let entry = call.write(&key, Kind::Hash)?;
    let before = match entry.and_then(|entry| call.db_ref().hash_get(entry, field)) {
        Some(text) => parse_i64(text).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let after = before.checked_add(step).ok_or(Failure::OVERFLOW)?;
    let mut text = itoa::Buffer::new();
    call.db().hash_set(
        &key,
        std::iter::once((field, text.format(after).as_bytes())),
    )?;
    call.changed(key.bytes);
    call.reply.integer(after);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut Call<'_>) -> Outcome {
    let (key, field) = (call.key(1), call.arg(2));
    let step = Extended::parse(call.arg(3)).ok_or(Failure::FLOAT)?;
    if step.is_infinite() {
        return Err("ERR value is NaN or Infinity".into());
    }
    let entry = call.write(&key, Kind::Hash)?;
    let before = match entry.and_then(|entry| call.db_ref().hash_get(entry, field)) {
        Some(text) => Extended::parse(text).ok_or("ERR hash value is not a float")?,
        None => Extended::ZERO,
    };
    let after = before.plus(step);
    if after.is_infinite() {
        return Err(Failure::NOT_FINITE);
    }
    let mut text = Vec::new();
    after.push(&mut text);
    call.db()
        .hash_set(&key, std::iter::once((field, &text[..])))?;
    call.changed(key.bytes);
    call.reply.bulk(&text);
    Ok(())
}
