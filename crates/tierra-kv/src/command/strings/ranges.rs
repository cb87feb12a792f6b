//! Parts of values.

use super::{Call, Outcome};
use crate::keyspace::Kind;

fn check_length(call: &Call<'_>, start: usize, more: usize) -> Outcome {
    match start.checked_add(more) {
        Some(len) if len as u64 <= call.shared.config.proto_max_bulk_len as u64 => Ok(()),
        _ => Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into()),
    }
}

/// Writes at an offset in a value and returns its new length.
fn overwrite(call: &mut Call<'_>, start: Option<usize>) -> Outcome {
    let (key, bytes) = (call.key(1), call.arg(call.args.len() - 1));
    let len = call
        .write(&key, Kind::String)?
        .map(|entry| call.db_ref().string(entry).len());
    let (len, start) = (len.unwrap_or(0), start.unwrap_or(len.unwrap_or(0)));
    if bytes.is_empty() && call.command.name == "setrange" {
        call.reply.integer(len as i64);
        return Ok(());
    }
    check_length(call, start, bytes.len())?;
    let after = len.max(start + bytes.len());
    call.db().resize_string(&key, after)?[start..start + bytes.len()].copy_from_slice(bytes);
    call.changed(key.bytes);
    call.reply.integer(after as i64);
    Ok(())
}

pub(super) fn append(call: &mut Call<'_>) -> Outcome {
    overwrite(call, None)
}

pub(super) fn setrange(call: &mut Call<'_>) -> Outcome {
    let start = usize::try_from(call.integer(2)?).map_err(|_| "ERR offset is out of range")?;
    overwrite(call, Some(start))
}

pub(super) fn getrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let key = call.key(1);
    let Some(entry) = call.read(&key, Kind::String)? else {
        call.reply.bulk(b"");
        return Ok(());
    };
    let value = call.keyspace.selected().string(entry);
    let len = value.len() as i64;
    // Negative offsets count from the end; those before the beginning are the beginning, even the end's.
    let absolute = |offset: i64| {
        if offset < 0 {
            (offset.saturating_add(len)).max(0)
        } else {
            offset
        }
    };
    let (from, to) = (absolute(start), absolute(end).min(len - 1));
    let none = (start < 0 && end < 0 && start > end) || from > to;
    call.reply.bulk(if none {
        b""
    } else {
        &value[from as usize..=to as usize]
    });
    Ok(())
}
