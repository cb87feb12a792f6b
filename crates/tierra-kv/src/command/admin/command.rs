//! COMMAND: what commands there are.

use super::super::arguments;
use super::super::options::OptionWords;
use super::super::{
    ADMIN, BLOCKING, Call, Command, DANGEROUS, DENYOOM, FAST, Failure, Group, NO_AUTH, NO_MULTI,
    NOSCRIPT, Outcome, READONLY, SKIP_SLOWLOG, WRITE, glob_matches,
};
use super::help::help;
use crate::catalog::{Catalog, CatalogEntry, Description, ResolvedCommand};
use crate::number::parse_i64;
use crate::protocol::{Args, Reply};

const fn of(name: &'static str, arity: i16, run: super::super::Run) -> Command {
    Command::new(name, arity, Group::Connection, run)
}

pub(in crate::command) const COMMAND: Command = Command::container(
    "command",
    Group::Connection,
    &[
        of("count", 2, count).about("2.8.13", "How many commands there are"),
        of("info", -2, info)
            .about("2.8.13", "What commands take")
            .arguments("[command-name*]"),
        of("docs", -2, docs)
            .about("7.0.0", "What commands are for")
            .arguments("[command-name*]"),
        of("list", -2, list)
            .about("7.0.0", "The names of commands")
            .arguments(
                "[FILTERBY filterby<MODULE module-name|ACLCAT category|PATTERN pattern:pattern>]",
            ),
        of("getkeys", -4, getkeys).about("2.8.13", "The keys among the arguments of a command"),
        of("getkeysandflags", -4, getkeysandflags).about(
            "7.0.0",
            "The keys among the arguments of a command, and what is done to them",
        ),
        of("help", 2, help).about("5.0.0", "What subcommands there are"),
    ],
)
.alone(all)
.about("2.8.13", "What commands there are");

const FLAGS: [(u16, &str); 10] = [
    (WRITE, "write"),
    (READONLY, "readonly"),
    (DENYOOM, "denyoom"),
    (ADMIN, "admin"),
    (NOSCRIPT, "noscript"),
    (BLOCKING, "blocking"),
    (SKIP_SLOWLOG, "skip_slowlog"),
    (FAST, "fast"),
    (NO_AUTH, "no_auth"),
    (NO_MULTI, "no_multi"),
];

/// The categories of access control that a command belongs to.
fn categories(listed: &CatalogEntry) -> impl Iterator<Item = &'static str> {
    let command = listed.command;
    let has = |flag: u16| command.flags & flag != 0;
    let is_container = !listed.subcommands.is_empty() && command.arity == -2;
    let category = command.group.category().filter(|_| !is_container);
    let is_any_of = |groups: &[Group]| category.filter(|_| groups.contains(&command.group));
    // In Redis's order.
    [
        is_any_of(&[Group::Generic]),
        has(READONLY).then_some("read"),
        has(WRITE).then_some("write"),
        is_any_of(&[Group::SortedSet, Group::Hash, Group::String, Group::Bitmap]),
        has(ADMIN).then_some("admin"),
        Some(if has(FAST) { "fast" } else { "slow" }),
        has(BLOCKING).then_some("blocking"),
        (has(DANGEROUS) || has(ADMIN) || command.name == "info").then_some("dangerous"),
        is_any_of(&[Group::Connection, Group::Transactions]),
    ]
    .into_iter()
    .flatten()
}

fn simple_set(reply: &mut Reply, words: Vec<&str>) {
    reply.set(words.len());
    words.into_iter().for_each(|word| reply.simple(word));
}

fn describe(catalog: &Catalog, listed: &CatalogEntry, reply: &mut Reply) {
    let command = listed.command;
    reply.array(10);
    reply.bulk(listed.full_name.as_bytes());
    reply.integer(i64::from(command.arity));
    let keys = command.keys;
    let flags = FLAGS
        .iter()
        .filter(|(flag, _)| command.flags & flag != 0)
        .map(|(_, name)| *name)
        .chain((keys.counted > 0).then_some("movablekeys"));
    simple_set(reply, flags.collect());
    [keys.first, keys.last, keys.step]
        .into_iter()
        .for_each(|number| reply.integer(i64::from(number)));
    let categories: Vec<String> = categories(listed).map(|name| format!("@{name}")).collect();
    simple_set(reply, categories.iter().map(String::as_str).collect());
    reply.set(0);
    specify_keys(command, reply);
    reply.set(listed.subcommands.len());
    for id in listed.subcommands.clone() {
        describe(catalog, catalog.get(id), reply);
    }
}

fn specify_keys(command: &Description, reply: &mut Reply) {
    let keys = command.keys;
    let specs: Vec<&str> = if keys.access.is_empty() {
        Vec::new()
    } else {
        keys.access.split(';').collect()
    };
    let count = specs.len();
    reply.set(count);
    for (index, access) in specs.into_iter().enumerate() {
        let is_last = index + 1 == count;
        reply.map(3);
        reply.bulk(b"flags");
        simple_set(reply, access.split(' ').collect());
        reply.bulk(b"begin_search");
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(b"index");
        reply.bulk(b"spec");
        reply.map(1);
        reply.bulk(b"index");
        let counted = if is_last { keys.counted } else { 0 };
        let first = match counted {
            0 => i64::from(keys.first) + index as i64,
            at => i64::from(at),
        };
        reply.integer(first);
        reply.bulk(b"find_keys");
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(if counted > 0 { b"keynum" } else { b"range" });
        reply.bulk(b"spec");
        reply.map(3);
        let last = if is_last && keys.last < 0 {
            keys.last
        } else if count > 1 {
            0
        } else {
            keys.last - keys.first
        };
        let spec = if counted > 0 {
            [("keynumidx", 0), ("firstkey", 1), ("keystep", 1)]
        } else {
            [("lastkey", last), ("keystep", keys.step), ("limit", 0)]
        };
        for (name, number) in spec {
            reply.bulk(name.as_bytes());
            reply.integer(i64::from(number));
        }
    }
}

fn all(call: &mut Call<'_>) -> Outcome {
    let catalog = &call.shared.catalog;
    call.reply.array(catalog.top().count());
    catalog
        .top()
        .for_each(|listed| describe(catalog, listed, call.reply));
    Ok(())
}

fn count(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(call.shared.catalog.top().count() as i64);
    Ok(())
}

/// A command or, as `object|freq`, a subcommand.
fn named<'t>(catalog: &'t Catalog, name: &[u8]) -> Option<&'t CatalogEntry> {
    let (container, subcommand) = match name.iter().position(|&byte| byte == b'|') {
        Some(at) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    };
    match catalog.resolve(container, subcommand) {
        ResolvedCommand::Command(id) if catalog.get(id).nested == subcommand.is_some() => {
            Some(catalog.get(id))
        }
        _ => None,
    }
}

fn info(call: &mut Call<'_>) -> Outcome {
    if call.args.len() == 2 {
        return all(call);
    }
    let catalog = &call.shared.catalog;
    call.reply.array(call.args.len() - 2);
    for name in call.args.from(2).iter() {
        match named(catalog, name) {
            Some(listed) => describe(catalog, listed, call.reply),
            None => call.reply.null(),
        }
    }
    Ok(())
}

fn document(catalog: &Catalog, listed: &CatalogEntry, reply: &mut Reply) {
    let command = listed.command;
    reply.bulk(listed.full_name.as_bytes());
    let arguments = arguments::parse(command.arguments).unwrap_or_default();
    let more = [!arguments.is_empty(), !listed.subcommands.is_empty()];
    reply.map(3 + more.into_iter().filter(|more| *more).count());
    for (name, text) in [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.name()),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        arguments::reply_all(&arguments, command.keys.access.split(';').count(), reply);
    }
    if !listed.subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(listed.subcommands.len());
        for id in listed.subcommands.clone() {
            document(catalog, catalog.get(id), reply);
        }
    }
}

fn docs(call: &mut Call<'_>) -> Outcome {
    let catalog = &call.shared.catalog;
    let wanted: Vec<&CatalogEntry> = if call.args.len() == 2 {
        catalog.top().collect()
    } else {
        call.args
            .from(2)
            .iter()
            .filter_map(|name| named(catalog, name))
            .collect()
    };
    call.reply.map(wanted.len());
    wanted
        .into_iter()
        .for_each(|listed| document(catalog, listed, call.reply));
    Ok(())
}

fn list(call: &mut Call<'_>) -> Outcome {
    let mut options = OptionWords::new(call.args, 2);
    let admits: Box<dyn Fn(&CatalogEntry) -> bool> = if options.left() == 0 {
        Box::new(|listed| !listed.nested)
    } else if options.left() == 3 && options.take("FILTERBY") {
        if options.take("PATTERN") {
            let pattern = options.value()?;
            Box::new(move |listed| {
                glob_matches(&pattern.to_ascii_lowercase(), listed.full_name.as_bytes())
            })
        } else if options.take("ACLCAT") {
            let wanted = options.value()?.to_ascii_lowercase();
            Box::new(move |listed| categories(listed).any(|name| name.as_bytes() == wanted))
        } else if options.take("MODULE") {
            options.value()?;
            Box::new(|_| false)
        } else {
            return Err(Failure::SYNTAX);
        }
    } else {
        return Err(Failure::SYNTAX);
    };
    let names: Vec<&str> = call
        .shared
        .catalog
        .iter()
        .filter(|listed| admits(listed))
        .map(|listed| &*listed.full_name)
        .collect();
    call.reply.array(names.len());
    names
        .into_iter()
        .for_each(|name| call.reply.bulk(name.as_bytes()));
    Ok(())
}

fn keys(call: &mut Call<'_>, with_flags: bool) -> Outcome {
    let args = call.args.from(2);
    let ResolvedCommand::Command(id) = call.shared.catalog.resolve(args.at(0), args.get(1)) else {
        return Err("ERR Invalid command specified".into());
    };
    let command = call.shared.catalog.get(id).command;
    let keys = command.keys;
    if keys.access.is_empty() {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.takes(args.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let mut indices: Vec<usize> = keys.indices(args.len()).collect();
    if keys.counted > 0 {
        let first = usize::from(keys.counted) + 1;
        let count = parse_i64(args.at(first - 1)).and_then(|count| usize::try_from(count).ok());
        let end = count
            .filter(|&count| count > 0 && count <= args.len() - first)
            .ok_or("ERR Invalid arguments specified for command")?;
        indices.extend(first..first + end);
    }
    call.reply.array(indices.len());
    for (position, index) in indices.into_iter().enumerate() {
        if !with_flags {
            call.reply.bulk(args.at(index));
            continue;
        }
        let mut specs = keys.access.split(';');
        let access = match command.name {
            // What SET does depends on whether the old value is asked for.
            "set"
                if args
                    .from(3)
                    .iter()
                    .any(|word| word.eq_ignore_ascii_case(b"GET")) =>
            {
                "RW access update"
            }
            "set" => "OW update",
            "bitfield" if only_reads(args.from(2)) => "RO access",
            "bitfield" => "RW access update",
            _ => specs
                .clone()
                .nth(position)
                .or(specs.next_back())
                .unwrap_or_default(),
        };
        call.reply.array(2);
        call.reply.bulk(args.at(index));
        simple_set(call.reply, access.split(' ').collect());
    }
    Ok(())
}

/// Whether nothing of what BITFIELD is asked for changes the value.
fn only_reads(mut words: Args<'_>) -> bool {
    while let Some(word) = words.get(0) {
        let is = |name: &str, values: usize| {
            word.eq_ignore_ascii_case(name.as_bytes()) && words.len() > values
        };
        let values = match () {
            () if is("GET", 2) => 2,
            () if is("OVERFLOW", 1) => 1,
            () => return false,
        };
        words = words.from(1 + values);
    }
    true
}

fn getkeys(call: &mut Call<'_>) -> Outcome {
    keys(call, false)
}

fn getkeysandflags(call: &mut Call<'_>) -> Outcome {
    keys(call, true)
}
