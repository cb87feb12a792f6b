//! Executing one command, and what follows from it: it is timed and sent to monitors, and blocked clients are served.

use std::time::Instant;

use super::{Call, Outcome, SKIP_SLOWLOG, admin, sorted};

/// With more arguments any command may take long.
const MANY_ARGUMENTS: usize = 32;
/// As may one whose reply is longer.
const LONG_REPLY_BYTES: usize = 64 * 1024;

/// Executes a command that has been admitted.
#[inline]
pub(super) fn run(mut call: Call<'_>, id: u16) {
    call.reply.make_some_room();
    let written = call.reply.len();
    let has_clock = call.command.flags & call.shared.untimed == 0;
    let outcome = if has_clock || call.args.len() > MANY_ARGUMENTS {
        timed(&mut call, id)
    } else {
        let outcome = (call.runs[usize::from(id)])(&mut call);
        if call.reply.len() > written + LONG_REPLY_BYTES {
            // Few were executed since the clock was read.
            let (begun, timed_ns) = (call.shared.clock, call.shared.stats.timed_ns);
            note_time(&mut call, id, begun, timed_ns);
        }
        outcome
    };
    call.shared.stats.commands += 1;
    let calls = &mut call.shared.stats.calls[id as usize];
    calls.calls += 1;
    if let Err(failure) = outcome {
        calls.failed += 1;
        call.shared.stats.error(failure.text());
        // A reply that is followed by an error would be two.
        call.reply.cut(written);
        call.reply.error(failure.text());
    }
    if !call.shared.monitors.is_empty() {
        admin::tell(&mut call);
    }
    if call.shared.blocked.may_serve() {
        sorted::serve(&mut call);
    }
}

/// Commands that may take long have a clock of their own.
fn timed(call: &mut Call<'_>, id: u16) -> Outcome {
    let (begun, timed_ns) = (Instant::now(), call.shared.stats.timed_ns);
    call.shared.clock = begun;
    let outcome = (call.runs[usize::from(id)])(call);
    note_time(call, id, begun, timed_ns);
    outcome
}

/// Notes how long a command took, and that it was slow. `timed_ns` is the time that had been noted when it began: what
/// those of a transaction have noted since is within its own.
fn note_time(call: &mut Call<'_>, id: u16, begun: Instant, timed_ns: u64) {
    call.shared.clock = Instant::now();
    let spent = call.shared.clock.duration_since(begun);
    call.shared.stats.timed_ns = timed_ns + spent.as_nanos() as u64;
    call.shared.stats.calls[id as usize].spent_ns += spent.as_nanos() as u64;
    let slower_than = call.shared.config.slowlog_log_slower_than;
    if slower_than >= 0
        && spent.as_micros() as i64 >= slower_than
        && call.command.flags & SKIP_SLOWLOG == 0
    {
        let (at_s, limit) = (
            call.keyspace.now() / 1000,
            call.shared.config.slowlog_max_len,
        );
        call.shared.slowlog.add(
            call.args,
            call.client,
            at_s,
            spent.as_micros() as u64,
            limit,
        );
    }
}
