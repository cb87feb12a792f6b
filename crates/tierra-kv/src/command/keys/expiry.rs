//! When keys expire.

use super::super::options::OptionWords;
use super::{Call, Failure, Outcome};

#[derive(Default)]
struct Conditions {
    absent: bool,
    present: bool,
    later: bool,
    earlier: bool,
}

impl Conditions {
    fn parse(call: &Call<'_>) -> Result<Self, Failure> {
        let mut conditions = Self::default();
        let mut options = OptionWords::new(call.args, 3);
        while options.left() > 0 {
            if options.take("NX") {
                conditions.absent = true;
            } else if options.take("XX") {
                conditions.present = true;
            } else if options.take("GT") {
                conditions.later = true;
            } else if options.take("LT") {
                conditions.earlier = true;
            } else {
                return Err(Failure::Owned(
                    [b"ERR Unsupported option ", Failure::shown(options.value()?)].concat(),
                ));
            }
        }
        if conditions.absent && (conditions.present || conditions.later || conditions.earlier) {
            return Err(
                "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
            );
        }
        if conditions.later && conditions.earlier {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        Ok(conditions)
    }

    /// Whether an expiry may become another; a key that never expires does so later than any.
    fn allow(&self, before: Option<u64>, after: i64) -> bool {
        let later = before.is_some_and(|before| after > before as i64);
        let earlier = before.is_none_or(|before| after < before as i64);
        !(self.absent && before.is_some()
            || self.present && before.is_none()
            || self.later && !later
            || self.earlier && !earlier)
    }
}

fn set(call: &mut Call<'_>, unit_ms: i64, relative: bool) -> Outcome {
    let conditions = Conditions::parse(call)?;
    let base = if relative { call.now_ms() } else { 0 };
    let at = call
        .integer(2)?
        .checked_mul(unit_ms)
        .and_then(|ms| ms.checked_add(base));
    let at = at.ok_or_else(|| Failure::expiry(call.command.name))?;
    let key = call.key(1);
    let allowed = match call.db().find(&key) {
        Some(entry) => conditions.allow(call.db_ref().expiry(entry), at),
        None => false,
    };
    if allowed {
        if at <= call.now_ms() {
            call.db().remove(&key);
        } else {
            call.db().set_expiry(&key, Some(at as u64))?;
        }
        call.changed(key.bytes);
    }
    call.reply.integer(i64::from(allowed));
    Ok(())
}

pub(super) fn expire(call: &mut Call<'_>) -> Outcome {
    set(call, 1000, true)
}

pub(super) fn pexpire(call: &mut Call<'_>) -> Outcome {
    set(call, 1, true)
}

pub(super) fn expireat(call: &mut Call<'_>) -> Outcome {
    set(call, 1000, false)
}

pub(super) fn pexpireat(call: &mut Call<'_>) -> Outcome {
    set(call, 1, false)
}

/// Replies with when a key expires, as `show` makes it of milliseconds; -1 for never, -2 for no key.
fn show(call: &mut Call<'_>, show: fn(at_ms: i64, now_ms: i64) -> i64) -> Outcome {
    let key = call.key(1);
    let reply = match call
        .look_untouched(&key)
        .map(|entry| call.db_ref().expiry(entry))
    {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => show(at as i64, call.now_ms()),
    };
    call.reply.integer(reply);
    Ok(())
}

pub(super) fn ttl(call: &mut Call<'_>) -> Outcome {
    show(call, |at, now| {
        ((at - now).max(0)).saturating_add(500) / 1000
    })
}

pub(super) fn pttl(call: &mut Call<'_>) -> Outcome {
    show(call, |at, now| (at - now).max(0))
}

pub(super) fn expiretime(call: &mut Call<'_>) -> Outcome {
    show(call, |at, _| ((at as u64 + 500) / 1000) as i64)
}

pub(super) fn pexpiretime(call: &mut Call<'_>) -> Outcome {
    show(call, |at, _| at)
}

pub(super) fn persist(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    let expires = call
        .db()
        .find(&key)
        .is_some_and(|entry| call.db_ref().expiry(entry).is_some());
    if expires {
        call.db().set_expiry(&key, None)?;
        call.changed(key.bytes);
    }
    call.reply.integer(i64::from(expires));
    Ok(())
}
