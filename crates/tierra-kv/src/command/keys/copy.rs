//! Values in other databases: COPY and MOVE.

use super::super::options::OptionWords;
use super::databases::database;
use super::{Call, Failure, Outcome};

pub(super) fn copy(call: &mut Call<'_>) -> Outcome {
    let (mut to_db, mut replace) = (call.client.db, false);
    let mut options = OptionWords::new(call.args, 3);
    while options.left() > 0 {
        if options.take("REPLACE") {
            replace = true;
        } else if options.take_with("DB", 1) {
            to_db = database(options.integer()?)?;
        } else {
            return Err(Failure::SYNTAX);
        }
    }
    let from_db = call.client.db;
    // Keys of another database were not looked up ahead in it.
    let (from, to) = (call.key(1), crate::keyspace::Key::new(call.arg(2)));
    if from_db == to_db && from.bytes == to.bytes {
        return Err(Failure::SAME_OBJECT);
    }
    let exists = call.look(&from).is_some();
    if !exists || (!replace && call.keyspace.db(to_db).find(&to).is_some()) {
        call.reply.integer(0);
        return Ok(());
    }
    call.keyspace.copy((from_db, &from), (to_db, &to))?;
    call.shared.changed(to_db, to.bytes);
    call.reply.integer(1);
    Ok(())
}

pub(super) fn move_to(call: &mut Call<'_>) -> Outcome {
    let (from_db, to_db) = (call.client.db, database(call.integer(2)?)?);
    if from_db == to_db {
        return Err(Failure::SAME_OBJECT);
    }
    let (from, to) = (call.key(1), crate::keyspace::Key::new(call.arg(1)));
    let exists = call.db().find(&from).is_some();
    let moved = exists && call.keyspace.db(to_db).find(&to).is_none();
    if moved {
        call.keyspace.move_to((from_db, &from), to_db);
        call.shared.changed(from_db, from.bytes);
        call.shared.changed(to_db, to.bytes);
    }
    call.reply.integer(i64::from(moved));
    Ok(())
}
