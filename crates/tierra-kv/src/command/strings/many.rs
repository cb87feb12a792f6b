//! Commands over several keys at once.

use super::{Call, Failure, Outcome};
use crate::keyspace::{Expiry, Key, Kind, WINDOW_KEYS};

/// Keys that the batch's window had no room for are looked up in windows of their own.
pub(super) fn mget(call: &mut Call<'_>) -> Outcome {
    let keys = call.args.from(1);
    call.reply.array(keys.len());
    let (ahead, mut more) = (call.found, Vec::new());
    for index in 0..keys.len() {
        if index >= ahead.len() + more.len() {
            let mut group: [&[u8]; WINDOW_KEYS] = [&[]; WINDOW_KEYS];
            let len = (keys.len() - index).min(WINDOW_KEYS);
            let places = group.iter_mut().zip(keys.from(index).iter());
            places.for_each(|(place, key)| *place = key);
            call.db().find_many(&group[..len], &mut more);
        }
        let found = ahead
            .get(index)
            .copied()
            .unwrap_or_else(|| more[index - ahead.len()]);
        let entry = call.look(&Key::carried(keys.at(index), found));
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
    store_all(call)?;
    call.reply.integer(1);
    Ok(())
}
