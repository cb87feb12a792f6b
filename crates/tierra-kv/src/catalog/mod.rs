//! The descriptions of commands, and the search for one by its name. What a command does is in `command/`.
//!
//! Names are letters, and `_` between them, and at most sixteen of them, so that a name is one 128-bit number once its case
//! is folded by setting a bit, and a lookup is a multiplication and one comparison.

mod description;

pub(crate) use description::{
    ADMIN, BLOCKING, DANGEROUS, DENYOOM, Description, FAST, Group, KeyArgs, NO_AUTH, NO_MULTI,
    NOSCRIPT, PAUSING, READONLY, SKIP_SLOWLOG, UNQUEUED, UNTIMED, WRITE,
};

/// The version of Redis whose commands these are.
pub(crate) const REDIS_VERSION: &str = "7.0.15";

const SLOTS: usize = 1024;
const NAME_BYTES: usize = 16;

/// What a request's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolvedCommand {
    /// This command of the catalog.
    Command(u16),
    /// There is no such command.
    Unknown,
    /// This command of the catalog has no such subcommand.
    UnknownSubcommand(u16),
}

/// All commands, with their subcommands, by their numbers.
pub(crate) struct Catalog {
    entries: Vec<CatalogEntry>,
    slots: Box<[u16; SLOTS]>,
    names: Vec<u128>,
}

/// A command of the catalog.
pub(crate) struct CatalogEntry {
    pub(crate) command: &'static Description,
    /// Where its subcommands are in the catalog.
    pub(crate) subcommands: std::ops::Range<u16>,
    /// `object|freq` for a subcommand.
    pub(crate) full_name: String,
    /// Whether it is a subcommand.
    pub(crate) nested: bool,
}

const VACANT: u16 = u16::MAX;

fn fold(name: &[u8]) -> Option<u128> {
    if name.is_empty() || name.len() > NAME_BYTES {
        return None;
    }
    let mut bytes = [0; NAME_BYTES];
    // Every byte that becomes a letter by this was one, and what stays `_` was that.
    bytes
        .iter_mut()
        .zip(name)
        .for_each(|(to, from)| *to = from | u8::from(*from != b'_') << 5);
    Some(u128::from_le_bytes(bytes))
}

#[inline]
fn slot(name: u128) -> usize {
    let mixed =
        (name as u64 ^ ((name >> 64) as u64).rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 54) as usize % SLOTS
}

impl Catalog {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            slots: Box::new([VACANT; SLOTS]),
            names: Vec::new(),
        }
    }

    /// Adds a command and its subcommands, whose numbers follow its own.
    pub(crate) fn add(
        &mut self,
        command: &'static Description,
        subcommands: impl Iterator<Item = &'static Description>,
    ) {
        let name = fold(command.name.as_bytes()).expect("names have at most sixteen letters");
        let mut at = slot(name);
        while self.slots[at] != VACANT {
            at = (at + 1) % SLOTS;
        }
        self.slots[at] = self.entries.len() as u16;
        self.list(command, None);
        let first = self.entries.len() as u16;
        for subcommand in subcommands {
            self.list(subcommand, Some(command.name));
        }
        let end = self.entries.len() as u16;
        self.entries[first as usize - 1].subcommands = first..end;
    }

    fn list(&mut self, command: &'static Description, container: Option<&str>) {
        let full_name = container.map_or(command.name.into(), |container| {
            format!("{container}|{}", command.name)
        });
        let name = fold(command.name.as_bytes()).unwrap_or(0);
        self.names.push(name);
        self.entries.push(CatalogEntry {
            command,
            subcommands: 0..0,
            full_name,
            nested: container.is_some(),
        });
    }

    /// How many commands and subcommands there are; their numbers are below it.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, id: u16) -> &CatalogEntry {
        &self.entries[id as usize]
    }

    /// All commands that are not subcommands.
    pub(crate) fn top(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.iter().filter(|entry| !entry.nested)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.iter()
    }

    /// The number of the command of this name.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<u16> {
        let name = fold(name)?;
        let mut at = slot(name);
        loop {
            let id = self.slots[at];
            if id == VACANT {
                return None;
            }
            if self.names[id as usize] == name {
                return Some(id);
            }
            at = (at + 1) % SLOTS;
        }
    }

    /// The command that a request with this name and second argument asks for.
    #[inline]
    pub(crate) fn resolve(&self, name: &[u8], second: Option<&[u8]>) -> ResolvedCommand {
        let Some(id) = self.find(name) else {
            return ResolvedCommand::Unknown;
        };
        match second {
            Some(second) if !self.entries[id as usize].subcommands.is_empty() => {
                self.subcommand(id, second)
            }
            _ => ResolvedCommand::Command(id),
        }
    }

    #[cold]
    fn subcommand(&self, id: u16, name: &[u8]) -> ResolvedCommand {
        let mut subcommands = self.entries[id as usize].subcommands.clone();
        subcommands
            .find(|&at| {
                self.entries[at as usize]
                    .command
                    .name
                    .as_bytes()
                    .eq_ignore_ascii_case(name)
            })
            .map_or(
                ResolvedCommand::UnknownSubcommand(id),
                ResolvedCommand::Command,
            )
    }
}
