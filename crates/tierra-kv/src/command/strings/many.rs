//! Commands over several keys at once.

use super::{Call, Failure, Outcome};
use crate::keyspace::{Expiry, Kind};

pub(super) fn mget(call: &mut Call<'_>) -> Outcome {
    call.reply.array(call.args.len() - 1);
    for index in 1..call.args.len() {
        let key = call.key(index);
        let entry = call.look(&key);
        let db = call.keyspace.selected();
        match entry.filter(|&entry| db.kind(entry) == Kind::String) {
            Some(entry) => call.reply.bulk(db.string(entry)),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn store_all(call: &mut Call<'_>) -> Outcome {
    for index in (1..call.args.len()).step_by(2) {
        let (key, value) = (call.key(index), call.arg(index + 1));
        call.db().set_string(&key, value, Expiry::Clear)?;
        call.changed(key.bytes);
    }
    Ok(())
}

fn check_pairs(call: &Call<'_>) -> Outcome {
    if call.args.len() % 2 == 1 {
        Ok(())
    } else {
        Err(Failure::arity(call.command.name))
    }
}

pub(super) fn mset(call: &mut Call<'_>) -> Outcome {
    check_pairs(call)?;
    store_all(call)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn msetnx(call: &mut Call<'_>) -> Outcome {
    check_pairs(call)?;
    for index in (1..call.args.len()).step_by(2) {
        let key = call.key(index);
        if call.db().find(&key).is_some() {
            call.reply.integer(0);
            return Ok(());
        }
    }
    if let Err(failure) = store_all(call) {
        // All or none: those that found memory were not there before.
        for index in (1..call.args.len()).step_by(2) {
            let key = call.key(index);
            call.db().remove(&key);
        }
        return Err(failure);
    }
    call.reply.integer(1);
    Ok(())
}
