//! Whole databases.

use super::{Call, Failure, Outcome};
use crate::keyspace::{DATABASES, DbId};
use crate::number::parse_i64;

/// The database of a number that a client gives.
pub(in crate::command) fn database(number: i64) -> Result<DbId, Failure> {
    if i32::try_from(number).is_err() {
        return Err(
            "ERR value is out of range, value must between -2147483648 and 2147483647".into(),
        );
    }
    DbId::try_from(number)
        .ok()
        .filter(|&id| usize::from(id) < DATABASES)
        .ok_or(Failure::DATABASE)
}

pub(super) fn dbsize(call: &mut Call<'_>) -> Outcome {
    call.reply
        .integer(call.keyspace.len_of(call.client.db) as i64);
    Ok(())
}

/// Whether removed values are freed later.
fn is_async(call: &Call<'_>) -> Result<bool, Failure> {
    match call.args.get(1) {
        None => Ok(false),
        Some(word) if call.args.len() == 2 && word.eq_ignore_ascii_case(b"ASYNC") => Ok(true),
        Some(word) if call.args.len() == 2 && word.eq_ignore_ascii_case(b"SYNC") => Ok(false),
        Some(_) => Err(Failure::SYNTAX),
    }
}

pub(super) fn flushdb(call: &mut Call<'_>) -> Outcome {
    let is_async = is_async(call)?;
    call.shared.changed_all(call.client.db, call.keyspace);
    if is_async {
        call.db().clear_deferred();
    } else {
        call.db().clear();
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn flushall(call: &mut Call<'_>) -> Outcome {
    // All memory is given back at once, which takes no time.
    is_async(call)?;
    for id in 0..DATABASES as DbId {
        call.shared.changed_all(id, call.keyspace);
    }
    call.keyspace.clear();
    call.reply.ok();
    Ok(())
}

pub(super) fn swapdb(call: &mut Call<'_>) -> Outcome {
    let number = |text, wrong: &'static str| {
        parse_i64(text)
            .filter(|number| i32::try_from(*number).is_ok())
            .ok_or(Failure::Static(wrong))
    };
    let a = number(call.arg(1), "ERR invalid first DB index")?;
    let b = number(call.arg(2), "ERR invalid second DB index")?;
    let (a, b) = (database(a)?, database(b)?);
    if a != b {
        // Clients that watch a key that exists in either see another one.
        call.shared.changed_all(a, call.keyspace);
        call.shared.changed_all(b, call.keyspace);
        call.keyspace.swap(a, b);
        call.shared.swapped(a, b, call.keyspace);
    }
    call.reply.ok();
    Ok(())
}
