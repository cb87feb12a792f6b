//! SET with its options, and the commands that are SET with an option.

use super::super::options::OptionWords;
use super::reply::reply_value;
use super::{Call, Failure, Outcome};
use crate::keyspace::{Expiry, Key, Kind};
use crate::number::parse_i64;

/// The time that an argument names, in milliseconds since 1970.
fn expiry_ms(call: &Call<'_>, text: &[u8], unit_ms: i64, relative: bool) -> Result<u64, Failure> {
    let number = parse_i64(text).ok_or(Failure::INTEGER)?;
    let at = Some(number)
        .filter(|&number| number > 0)
        .and_then(|number| number.checked_mul(unit_ms))
        .and_then(|ms| ms.checked_add(if relative { call.now_ms() } else { 0 }));
    at.map(|at| at as u64)
        .ok_or_else(|| Failure::expiry(call.command.name))
}

/// What follows EX, PX, EXAT or PXAT: how many milliseconds its unit has, and whether it counts from now.
const UNITS: [(&str, i64, bool); 4] = [
    ("EX", 1000, true),
    ("PX", 1, true),
    ("EXAT", 1000, false),
    ("PXAT", 1, false),
];

/// A time as one of [`UNITS`] gives it.
#[derive(Clone, Copy)]
struct GivenTime<'a> {
    unit: usize,
    text: &'a [u8],
}

impl<'a> GivenTime<'a> {
    /// The next option, if it is a time. Only the same unit may be given twice.
    fn take(options: &mut OptionWords<'a>, before: Option<Self>) -> Result<Option<Self>, Failure> {
        for (unit, (word, ..)) in UNITS.iter().enumerate() {
            if options.take(word) {
                if before.is_some_and(|before| before.unit != unit) {
                    return Err(Failure::SYNTAX);
                }
                return Ok(Some(Self {
                    unit,
                    text: options.value()?,
                }));
            }
        }
        Ok(None)
    }

    fn at_ms(self, call: &Call<'_>) -> Result<u64, Failure> {
        let (_, unit_ms, relative) = UNITS[self.unit];
        expiry_ms(call, self.text, unit_ms, relative)
    }
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 3 {
        let key = call.key(1);
        return store(call, &key, call.arg(2), Expiry::Clear).map(|()| call.reply.ok());
    }
    let (mut absent, mut present, mut get, mut keep, mut given) =
        (false, false, false, false, None);
    let mut options = OptionWords::new(call.args, 3);
    while options.left() > 0 {
        if !present && options.take("NX") {
            absent = true;
        } else if !absent && options.take("XX") {
            present = true;
        } else if options.take("GET") {
            get = true;
        } else if given.is_none() && options.take("KEEPTTL") {
            keep = true;
        } else {
            given = Some(
                GivenTime::take(&mut options, given)?
                    .filter(|_| !keep)
                    .ok_or(Failure::SYNTAX)?,
            );
        }
    }
    let expiry = match given {
        Some(given) => Expiry::At(given.at_ms(call)?),
        None if keep => Expiry::Keep,
        None => Expiry::Clear,
    };
    let key = call.key(1);
    if get {
        reply_value(call, 1)?;
    }
    let exists = (absent || present) && call.db().find(&key).is_some();
    if (absent && exists) || (present && !exists) {
        if !get {
            call.reply.null();
        }
        return Ok(());
    }
    store(call, &key, call.arg(2), expiry)?;
    if !get {
        call.reply.ok();
    }
    Ok(())
}

fn store(call: &mut Call<'_>, key: &Key<'_>, value: &[u8], expiry: Expiry) -> Outcome {
    call.db().set_string(key, value, expiry)?;
    call.changed(key.bytes);
    Ok(())
}

pub(super) fn setnx(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    let absent = call.db().find(&key).is_none();
    if absent {
        store(call, &key, call.arg(2), Expiry::Clear)?;
    }
    call.reply.integer(i64::from(absent));
    Ok(())
}

fn set_for(call: &mut Call<'_>, unit_ms: i64) -> Outcome {
    let at = expiry_ms(call, call.arg(2), unit_ms, true)?;
    let (key, value) = (call.key(1), call.arg(3));
    store(call, &key, value, Expiry::At(at))?;
    call.reply.ok();
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> Outcome {
    set_for(call, 1000)
}

pub(super) fn psetex(call: &mut Call<'_>) -> Outcome {
    set_for(call, 1)
}

pub(super) fn getset(call: &mut Call<'_>) -> Outcome {
    reply_value(call, 1)?;
    let key = call.key(1);
    store(call, &key, call.arg(2), Expiry::Clear)
}

pub(super) fn getex(call: &mut Call<'_>) -> Outcome {
    let (mut persist, mut given) = (false, None);
    let mut options = OptionWords::new(call.args, 2);
    while options.left() > 0 {
        if given.is_none() && options.take("PERSIST") {
            persist = true;
        } else {
            given = Some(
                GivenTime::take(&mut options, given)?
                    .filter(|_| !persist)
                    .ok_or(Failure::SYNTAX)?,
            );
        }
    }
    let key = call.key(1);
    let Some(entry) = call.read(&key, Kind::String)? else {
        call.reply.null();
        return Ok(());
    };
    let at = given.map(|given| given.at_ms(call)).transpose()?;
    let expires = call.keyspace.selected().expiry(entry).is_some();
    call.reply.bulk(call.keyspace.selected().string(entry));
    match at {
        Some(at) if at <= call.keyspace.now() => call.db().remove(&key),
        Some(at) => call.db().set_expiry(&key, Some(at))?,
        None if persist && expires => call.db().set_expiry(&key, None)?,
        None => return Ok(()),
    };
    call.changed(key.bytes);
    Ok(())
}
