//! Other names for values.

use super::{Call, Failure, Outcome};

fn give(call: &mut Call<'_>, only_new: bool) -> Result<bool, Failure> {
    let (from, to) = (call.key(1), call.key(2));
    if call.db().find(&from).is_none() {
        return Err(Failure::NO_KEY);
    }
    if from.bytes == to.bytes {
        return Ok(!only_new);
    }
    if only_new && call.db().find(&to).is_some() {
        return Ok(false);
    }
    call.db().rename(&from, &to)?;
    call.changed(from.bytes);
    call.changed(to.bytes);
    Ok(true)
}

pub(super) fn rename(call: &mut Call<'_>) -> Outcome {
    give(call, false)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn renamenx(call: &mut Call<'_>) -> Outcome {
    let renamed = give(call, true)?;
    call.reply.integer(i64::from(renamed));
    Ok(())
}

pub(super) fn randomkey(call: &mut Call<'_>) -> Outcome {
    let random = call.shared.random.next();
    let db = call.keyspace.db(call.client.db);
    match db.random(random) {
        Some(entry) => call.reply.bulk(db.key_of(entry)),
        None => call.reply.null(),
    }
    Ok(())
}
