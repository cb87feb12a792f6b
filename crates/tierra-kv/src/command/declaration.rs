//! How a group of commands declares each of its own: one line of what it is called and takes, and the function that does it.

use super::call::{Call, Run};
use super::failure::{Failure, Outcome};
use crate::catalog::{Description, Group, KeyArgs};

/// A command, or a subcommand of one.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) description: Description,
    pub(crate) run: Run,
    pub(crate) subcommands: &'static [Command],
}

impl Command {
    pub(crate) const fn new(name: &'static str, arity: i16, group: Group, run: Run) -> Self {
        Self {
            description: Description {
                name,
                arity,
                flags: 0,
                group,
                keys: KeyArgs::NONE,
                since: "",
                summary: "",
                arguments: "",
            },
            run,
            subcommands: &[],
        }
    }

    /// A command that consists of subcommands.
    pub(crate) const fn container(
        name: &'static str,
        group: Group,
        subcommands: &'static [Command],
    ) -> Self {
        let mut command = Self::new(name, -2, group, no_subcommand);
        command.subcommands = subcommands;
        command
    }

    /// Of a container, what it does without a subcommand.
    pub(crate) const fn alone(mut self, run: Run) -> Self {
        self.description.arity = -1;
        self.run = run;
        self
    }

    pub(crate) const fn flags(mut self, flags: u16) -> Self {
        self.description.flags = flags;
        self
    }

    /// Its first argument is a key.
    pub(crate) const fn key(self, access: &'static str) -> Self {
        self.keys(1, 1, 1, access)
    }

    pub(crate) const fn keys(
        mut self,
        first: i8,
        last: i8,
        step: i8,
        access: &'static str,
    ) -> Self {
        self.description.keys = KeyArgs {
            first,
            last,
            step,
            counted: 0,
            access,
        };
        self
    }

    /// An argument says how many keys follow it. Of several kinds of access the last is theirs.
    pub(crate) const fn counted_keys(mut self, at: u8, access: &'static str) -> Self {
        self.description.keys.counted = at;
        self.description.keys.access = access;
        self
    }

    pub(crate) const fn about(mut self, since: &'static str, summary: &'static str) -> Self {
        self.description.since = since;
        self.description.summary = summary;
        self
    }

    pub(crate) const fn arguments(mut self, arguments: &'static str) -> Self {
        self.description.arguments = arguments;
        self
    }
}

/// A container without a subcommand: its arity has refused that already.
fn no_subcommand(call: &mut Call<'_>) -> Outcome {
    Err(Failure::arity(call.command.name))
}
