//! MONITOR: every command that is executed is sent to a client.

use std::time::{SystemTime, UNIX_EPOCH};

use super::super::{ADMIN, Call, Command, DANGEROUS, Group, NOSCRIPT, Outcome};

pub(super) const MONITOR: Command = Command::new("monitor", 1, Group::Server, monitor)
    .flags(ADMIN | NOSCRIPT | DANGEROUS)
    .about("1.0.0", "Tells every command that the server executes");

fn monitor(call: &mut Call<'_>) -> Outcome {
    if call.client.in_transaction {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    if !call.client.is_monitor {
        call.client.is_monitor = true;
        call.shared.monitors.push(call.client.slot);
    }
    call.reply.ok();
    Ok(())
}

/// Sends an executed command to the monitors. Administrative commands are not sent.
#[cold]
pub(in crate::command) fn tell(call: &mut Call<'_>) {
    if call.command.flags & ADMIN != 0 {
        return;
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let client = &*call.client;
    let from = if client.is_unix {
        format!("unix:{}", client.address.trim_end_matches(":0"))
    } else {
        client.address.clone()
    };
    let mut line = format!(
        "+{}.{:06} [{} {from}]",
        now.as_secs(),
        now.subsec_micros(),
        client.db
    );
    let (mut secret, mut name) = (0u32, false);
    for arg in call.args.iter() {
        if secret > 0 {
            line.push_str(" \"(redacted)\"");
        } else {
            line.push_str(" \"");
            arg.iter().for_each(|&byte| push_quoted(&mut line, byte));
            line.push('"');
        }
        let is = |option: &[u8]| call.command.name == "hello" && arg.eq_ignore_ascii_case(option);
        (secret, name) = match secret {
            // Whatever comes behind may be a password, even where it makes no sense.
            0 if call.command.name == "auth" => (u32::MAX, false),
            // A user and a password, unless it is a name.
            0 if !name && is(b"AUTH") => (2, false),
            0 => (0, !name && is(b"SETNAME")),
            left => (left - 1, false),
        };
    }
    line.push_str("\r\n");
    let shared = &mut *call.shared;
    for &slot in &shared.monitors {
        // The executing client is not among the connections.
        match &mut shared.connections[slot] {
            Some(connection) => connection.tell(line.as_bytes()),
            None => call.reply.raw(line.as_bytes()),
        }
    }
}

/// As Redis quotes bytes.
fn push_quoted(line: &mut String, byte: u8) {
    match byte {
        b'"' | b'\\' => line.extend(['\\', char::from(byte)]),
        b'\n' => line.push_str("\\n"),
        b'\r' => line.push_str("\\r"),
        b'\t' => line.push_str("\\t"),
        0x07 => line.push_str("\\a"),
        0x08 => line.push_str("\\b"),
        b' '..=b'~' => line.push(char::from(byte)),
        _ => {
            let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
            line.extend(['\\', 'x', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}
