//! The commands that took longest lately.

use std::collections::VecDeque;

use crate::clients::Client;
use crate::protocol::Args;

/// Of a command's arguments so many are kept, and of each so many bytes, as in Redis.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 128;

/// A command that took long.
#[derive(Debug)]
pub(crate) struct SlowCommand {
    pub(crate) id: u64,
    pub(crate) at_s: u64,
    pub(crate) spent_us: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) address: String,
    pub(crate) name: Vec<u8>,
}

/// The newest of them.
#[derive(Debug, Default)]
pub(crate) struct Slowlog {
    entries: VecDeque<SlowCommand>,
    next: u64,
}

impl Slowlog {
    #[cold]
    pub(crate) fn add(
        &mut self,
        args: Args<'_>,
        client: &Client,
        at_s: u64,
        spent_us: u64,
        limit: usize,
    ) {
        let shown = if args.len() > ARGUMENTS {
            ARGUMENTS - 1
        } else {
            args.len()
        };
        let mut kept: Vec<Vec<u8>> = (0..shown)
            .map(|at| {
                if is_password(args, at) {
                    b"(redacted)".to_vec()
                } else {
                    shorten(args.at(at))
                }
            })
            .collect();
        if shown < args.len() {
            kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
        }
        let (id, address, name) = (self.next, client.address.clone(), client.name.clone());
        self.next += 1;
        self.entries.push_front(SlowCommand {
            id,
            at_s,
            spent_us,
            args: kept,
            address,
            name,
        });
        self.entries.truncate(limit);
    }

    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = &SlowCommand> {
        self.entries.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

/// Whether an argument is, or may be, a password, or the user whose it is.
fn is_password(args: Args<'_>, at: usize) -> bool {
    let is = |at: usize, word: &str| args.at(at).eq_ignore_ascii_case(word.as_bytes());
    if is(0, "AUTH") {
        at > 0
    } else if is(0, "HELLO") {
        (1..at).rev().take(2).any(|before| is(before, "AUTH"))
    } else {
        at > 2 && at % 2 == 1 && is(0, "CONFIG") && is(1, "SET") && is(at - 1, "requirepass")
    }
}

fn shorten(arg: &[u8]) -> Vec<u8> {
    match arg.len().checked_sub(ARGUMENT_BYTES) {
        None | Some(0) => arg.to_vec(),
        Some(more) => [
            &arg[..ARGUMENT_BYTES],
            format!("... ({more} more bytes)").as_bytes(),
        ]
        .concat(),
    }
}
