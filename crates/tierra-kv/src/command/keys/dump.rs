//! Values as bytes that Redis reads and writes, too: DUMP and RESTORE.

use super::super::options::OptionWords;
use super::{Call, Failure, Outcome};
use crate::dump::{self, RestoreError};

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let key = call.key(1);
    match call.look(&key) {
        Some(entry) => {
            let mut payload = Vec::new();
            dump::write(call.keyspace.selected(), entry, &mut payload);
            call.reply.bulk(&payload);
        }
        None => call.reply.null(),
    }
    Ok(())
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Memory(full) => full.into(),
            error => format!("ERR {error}").into(),
        }
    }
}

#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    /// The time to live is a time.
    is_absolute: bool,
    /// How often the key was used; since when it was not means nothing here.
    uses: Option<i64>,
}

impl RestoreOptions {
    fn parse(call: &Call<'_>) -> Result<Self, Failure> {
        let (mut wanted, mut is_idle) = (Self::default(), false);
        let mut options = OptionWords::new(call.args, 4);
        while options.left() > 0 {
            if options.take("REPLACE") {
                wanted.replace = true;
            } else if options.take("ABSTTL") {
                wanted.is_absolute = true;
            } else if wanted.uses.is_none() && options.take_with("IDLETIME", 1) {
                is_idle = true;
                if options.integer()? < 0 {
                    return Err("ERR Invalid IDLETIME value, must be >= 0".into());
                }
            } else if !is_idle && options.take_with("FREQ", 1) {
                let uses = options.integer()?;
                if !(0..=255).contains(&uses) {
                    return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
                }
                wanted.uses = Some(uses);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(wanted)
    }
}

pub(super) fn restore(call: &mut Call<'_>) -> Outcome {
    let wanted = RestoreOptions::parse(call)?;
    let key = call.key(1);
    let exists = call.db().find(&key).is_some();
    if exists && !wanted.replace {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = call.integer(2)?;
    if ttl < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let now = call.now_ms();
    let at = match wanted.is_absolute {
        true => ttl,
        // What is beyond all time has passed, as in Redis.
        false => ttl.wrapping_add(now),
    };
    let expiry = (ttl > 0 && at > now).then_some(at as u64);
    let payload = call.arg(3);
    dump::restore(call.db(), &key, expiry, payload)?;
    let has_expired = ttl > 0 && expiry.is_none();
    if has_expired {
        call.db().remove(&key);
    } else if let Some(uses) = wanted.uses
        && call.shared.config.maxmemory_policy.is_lfu()
    {
        call.db().set_heat(&key, uses as u64);
    }
    if exists || !has_expired {
        call.changed(key.bytes);
    }
    call.reply.ok();
    Ok(())
}
