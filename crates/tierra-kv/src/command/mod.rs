//! The commands: what each is called, what it takes, and what it does.
//!
//! A [`Command`] is one line of its group's table, and everything that has to be known about commands
//! comes from there: which arguments are keys (so that they can be looked up ahead), how many arguments
//! there may be, what COMMAND reports, whether memory is needed. Semantics, replies and messages are those
//! of Redis 7.0; `docs/kv.md` lists what differs.
//!
//! ```text
//!  dispatch    from a request to its reply: may it be executed, now or in a transaction?
//!  table       all commands
//!  strings bits hashes sorted keys connection admin transaction    the groups
//!  execute     one command, and what follows from it
//!  call        what a command is given: arguments, client, keys, and what the server keeps for all (`context/`)
//! ```

mod admin;
mod arguments;
mod bits;
mod call;
mod connection;
mod declaration;
mod dispatch;
mod execute;
mod failure;
mod found_keys;
mod glob;
mod hashes;
mod keys;
mod options;
mod sorted;
mod strings;
mod table;
mod timeout;
mod transaction;

pub(crate) use call::{Call, Run};
use declaration::Command;
pub(crate) use dispatch::{held, process};
use failure::{Failure, Outcome};
use found_keys::FoundKeys;
use glob::matches as glob_matches;
pub(crate) use table::{catalog, runs};

use crate::catalog::{
    ADMIN, BLOCKING, DANGEROUS, DENYOOM, FAST, Group, KeyArgs, NO_AUTH, NO_MULTI, NOSCRIPT,
    PAUSING, READONLY, SKIP_SLOWLOG, UNQUEUED, UNTIMED, WRITE,
};
