//! Finding a command by its name.
//!
//! Names are letters, and `_` between them, and at most sixteen of them, so that a name is one 128-bit number once its case
//! is folded by setting a bit, and a lookup is a multiplication and one comparison.

use super::{Command, admin, bits, connection, hashes, keys, sorted, strings, transaction};

const SLOTS: usize = 1024;
const NAME_BYTES: usize = 16;

/// What a request's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    /// This command of the table.
    Command(u16),
    /// There is no such command.
    Unknown,
    /// This command of the table has no such subcommand.
    UnknownSubcommand(u16),
}

/// All commands, with their subcommands.
pub(crate) struct Table {
    entries: Vec<Listed>,
    slots: Box<[u16; SLOTS]>,
    names: Vec<u128>,
}

/// A command of the table.
pub(crate) struct Listed {
    pub(crate) command: &'static Command,
    /// Where its subcommands are in the table.
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

impl Table {
    pub(crate) fn new() -> Self {
        let groups = [
            strings::COMMANDS,
            bits::COMMANDS,
            hashes::COMMANDS,
            sorted::COMMANDS,
            keys::COMMANDS,
            connection::COMMANDS,
            transaction::COMMANDS,
            admin::COMMANDS,
        ];
        let mut table = Self {
            entries: Vec::new(),
            slots: Box::new([VACANT; SLOTS]),
            names: Vec::new(),
        };
        for command in groups.into_iter().flatten() {
            let name = fold(command.name.as_bytes()).expect("names have at most sixteen letters");
            let mut at = slot(name);
            while table.slots[at] != VACANT {
                at = (at + 1) % SLOTS;
            }
            table.slots[at] = table.entries.len() as u16;
            table.list(command, None);
            let first = table.entries.len() as u16;
            for subcommand in command.subcommands {
                table.list(subcommand, Some(command.name));
            }
            let end = table.entries.len() as u16;
            table.entries[first as usize - 1].subcommands = first..end;
        }
        table
    }

    fn list(&mut self, command: &'static Command, container: Option<&str>) {
        let full_name = container.map_or(command.name.into(), |container| {
            format!("{container}|{}", command.name)
        });
        let name = fold(command.name.as_bytes()).unwrap_or(0);
        self.names.push(name);
        self.entries.push(Listed {
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

    pub(crate) fn get(&self, id: u16) -> &Listed {
        &self.entries[id as usize]
    }

    /// All commands that are not subcommands.
    pub(crate) fn top(&self) -> impl Iterator<Item = &Listed> {
        self.entries.iter().filter(|entry| !entry.nested)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Listed> {
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
    pub(crate) fn resolve(&self, name: &[u8], second: Option<&[u8]>) -> Resolved {
        let Some(id) = self.find(name) else {
            return Resolved::Unknown;
        };
        match second {
            Some(second) if !self.entries[id as usize].subcommands.is_empty() => {
                self.subcommand(id, second)
            }
            _ => Resolved::Command(id),
        }
    }

    #[cold]
    fn subcommand(&self, id: u16, name: &[u8]) -> Resolved {
        let mut subcommands = self.entries[id as usize].subcommands.clone();
        subcommands
            .find(|&at| {
                self.entries[at as usize]
                    .command
                    .name
                    .as_bytes()
                    .eq_ignore_ascii_case(name)
            })
            .map_or(Resolved::UnknownSubcommand(id), Resolved::Command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        let table = Table::new();
        for listed in table.top() {
            let name = listed.command.name;
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(name.bytes().all(is_letter), "{name}");
            for spelling in [name.to_string(), name.to_uppercase()] {
                let id = table.find(spelling.as_bytes()).unwrap();
                assert!(
                    std::ptr::eq(table.get(id).command, listed.command),
                    "{name}"
                );
            }
            assert_eq!(table.find(format!("{name}x").as_bytes()), None);
        }
        assert_eq!(table.find(b""), None);
        assert_eq!(table.find(b"ge\x14"), None);
        assert_eq!(table.find(b"sort\x7fro"), None);
        assert_eq!(table.find(&[b'g'; 100]), None);
        assert_eq!(
            table.resolve(b"OBJECT", Some(b"nothing")),
            Resolved::UnknownSubcommand(table.find(b"object").unwrap())
        );
        assert!(
            matches!(table.resolve(b"object", Some(b"FREQ")), Resolved::Command(id) if table.get(id).full_name == "object|freq")
        );
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        for listed in Table::new().iter() {
            let command = listed.command;
            assert!(
                !command.summary.is_empty() && !command.since.is_empty(),
                "{}",
                listed.full_name
            );
            assert_eq!(
                command.keys.first == 0 && command.keys.counted == 0,
                command.keys.access.is_empty(),
                "{}",
                listed.full_name
            );
        }
    }
}
