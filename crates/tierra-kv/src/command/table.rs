//! The table of all commands. A command's number is its place in it, its subcommands behind it.

use super::call::Run;
use super::declaration::Command;
use super::{admin, bits, connection, hashes, keys, sorted, strings, transaction};
use crate::catalog::Catalog;

static GROUPS: [&[Command]; 8] = [
    strings::COMMANDS,
    bits::COMMANDS,
    hashes::COMMANDS,
    sorted::COMMANDS,
    keys::COMMANDS,
    connection::COMMANDS,
    transaction::COMMANDS,
    admin::COMMANDS,
];

fn commands() -> impl Iterator<Item = &'static Command> {
    GROUPS.into_iter().flatten()
}

/// What each is called and takes.
pub(crate) fn catalog() -> Catalog {
    let mut catalog = Catalog::new();
    for command in commands() {
        let subcommands = command.subcommands.iter();
        catalog.add(
            &command.description,
            subcommands.map(|subcommand| &subcommand.description),
        );
    }
    catalog
}

/// What each does, by its number.
pub(crate) fn runs() -> Box<[Run]> {
    commands()
        .flat_map(|command| std::iter::once(command).chain(command.subcommands))
        .map(|command| command.run)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::ResolvedCommand;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        let catalog = catalog();
        for listed in catalog.top() {
            let name = listed.command.name;
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(name.bytes().all(is_letter), "{name}");
            for spelling in [name.to_string(), name.to_uppercase()] {
                let id = catalog.find(spelling.as_bytes()).unwrap();
                assert!(
                    std::ptr::eq(catalog.get(id).command, listed.command),
                    "{name}"
                );
            }
            assert_eq!(catalog.find(format!("{name}x").as_bytes()), None);
        }
        assert_eq!(catalog.find(b""), None);
        assert_eq!(catalog.find(b"ge\x14"), None);
        assert_eq!(catalog.find(b"sort\x7fro"), None);
        assert_eq!(catalog.find(&[b'g'; 100]), None);
        assert_eq!(
            catalog.resolve(b"OBJECT", Some(b"nothing")),
            ResolvedCommand::UnknownSubcommand(catalog.find(b"object").unwrap())
        );
        assert!(
            matches!(catalog.resolve(b"object", Some(b"FREQ")), ResolvedCommand::Command(id) if catalog.get(id).full_name == "object|freq")
        );
    }

    #[test]
    fn every_command_says_what_it_is_for() {
        for listed in catalog().iter() {
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
