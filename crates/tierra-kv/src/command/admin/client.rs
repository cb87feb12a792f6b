//! CLIENT: the connected clients and their names.

use std::fmt::Write;
use std::time::Duration;

use super::super::options::OptionWords;
use super::super::timeout;
use super::super::{ADMIN, Call, Command, DANGEROUS, Failure, Group, NOSCRIPT, Outcome, PAUSING};
use super::help::help;
use crate::clients::{Client, Replies};
use crate::context::Shared;
use crate::number::parse_i64;
use crate::protocol::Reply;

const fn of(name: &'static str, arity: i16, run: super::super::Run) -> Command {
    Command::new(name, arity, Group::Connection, run).flags(NOSCRIPT)
}

pub(in crate::command) const CLIENT: Command = Command::container(
    "client",
    Group::Connection,
    &[
        of("id", 2, id).about("5.0.0", "The number of the connection"),
        of("getname", 2, getname).about("2.6.9", "The name of the connection"),
        of("setname", 3, setname).about("2.6.9", "Gives the connection a name").arguments("connection-name"),
        of("info", 2, info).about("6.2.0", "What is known about the connection"),
        of("list", -2, list)
            .flags(ADMIN | NOSCRIPT | DANGEROUS)
            .about("2.4.0", "What is known about all connections").arguments("[TYPE normal_master_replica_pubsub<NORMAL|MASTER|REPLICA|PUBSUB>@5.0.0] [ID id(client-id:integer*)@6.2.0]"),
        of("kill", -3, kill)
            .flags(ADMIN | NOSCRIPT | DANGEROUS)
            .about("2.4.0", "Ends connections").arguments("filter<ip:port:string!2.8.12|new-format<[ID client-id:integer@2.8.12]|[TYPE normal_master_slave_pubsub<NORMAL|MASTER@3.2.0|SLAVE|REPLICA@5.0.0|PUBSUB>@2.8.12]|[USER username]|[ADDR ip:port:string]|[LADDR ip:port:string@6.2.0]|[SKIPME yes/no]>*>"),
        of("reply", 3, reply).about("3.2.0", "Says whether replies are wanted").arguments("on_off_skip<ON|OFF|SKIP>"),
        of("no-evict", 3, no_evict)
            .flags(ADMIN | NOSCRIPT | DANGEROUS)
            .about("7.0.0", "Keeps the connection when memory is short").arguments("enabled<ON|OFF>"),
        of("getredir", 2, getredir).about("6.0.0", "Always 0: invalidations are not redirected"),
        of("unblock", -3, unblock)
            .flags(ADMIN | NOSCRIPT | DANGEROUS)
            .about("5.0.0", "Ends a client's waiting for a key").arguments("client-id:integer [timeout_error<TIMEOUT|ERROR>]"),
        of("pause", -3, pause)
            .flags(ADMIN | NOSCRIPT | DANGEROUS | PAUSING)
            .about("3.0.0", "Lets clients wait for a while").arguments("timeout:integer [mode<WRITE|ALL>@6.2.0]"),
        of("unpause", 2, unpause)
            .flags(ADMIN | NOSCRIPT | DANGEROUS)
            .about("6.2.0", "Ends a pause"),
        of("help", 2, help).about("5.0.0", "What subcommands there are"),
    ],
)
.about(
    "2.4.0",
    "What there is to know and to change about connections",
);

fn id(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(call.client.id as i64);
    Ok(())
}

fn getname(call: &mut Call<'_>) -> Outcome {
    call.reply
        .bulk_or_null(Some(&call.client.name[..]).filter(|name| !name.is_empty()));
    Ok(())
}

/// Gives a client a name; none if it is empty.
pub(in crate::command) fn set_name(client: &mut Client, name: &[u8]) -> Outcome {
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err(
            "ERR Client names cannot contain spaces, newlines or special characters.".into(),
        );
    }
    client.name = name.to_vec();
    Ok(())
}

fn setname(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    set_name(call.client, name)?;
    call.reply.ok();
    Ok(())
}

/// One line about a client, as Redis writes it.
fn describe(shared: &Shared, client: &Client, now_ms: u64, text: &mut Vec<u8>) {
    let mut line = String::new();
    let mut flags = String::new();
    flags.extend(client.is_monitor.then_some('O'));
    flags.extend(client.queue.is_some().then_some('x'));
    flags.extend(client.is_blocked().then_some('b'));
    flags.extend(client.is_unix.then_some('U'));
    flags.extend(client.no_evict.then_some('e'));
    if flags.is_empty() {
        flags.push('N');
    }
    let age_s = now_ms.saturating_sub(client.created_ms) / 1000;
    let idle_s = now_ms.saturating_sub(client.used_ms) / 1000;
    let multi_bytes = client.queue_bytes();
    let multi = client.queue.as_ref().map_or(-1, |queue| queue.len() as i64);
    let command = client
        .last_command
        .map_or("NULL", |id| &shared.catalog.get(id).full_name);
    write!(
        line,
        " age={age_s} idle={idle_s} flags={flags} db={} sub=0 psub=0 ssub=0 multi={multi} qbuf={} qbuf-free={} argv-mem=0 \
         multi-mem={multi_bytes} rbs=0 rbp=0 obl={} oll=0 omem=0 tot-mem={} events={} cmd={command} user=default redir=-1 resp={}",
        client.db,
        client.input_bytes,
        client.input_spare_bytes,
        client.output_bytes,
        client.bytes(),
        if client.output_bytes > 0 { "rw" } else { "r" },
        if client.resp3 { 3 } else { 2 },
    )
    .expect("text takes all that is written");
    let head = format!(
        "id={} addr={} laddr={} fd={} name=",
        client.id, client.address, client.local_address, client.fd
    );
    text.extend_from_slice(head.as_bytes());
    text.extend_from_slice(&client.name);
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
}

fn info(call: &mut Call<'_>) -> Outcome {
    let mut text = Vec::new();
    describe(call.shared, call.client, call.keyspace.now(), &mut text);
    call.reply.verbatim(&text);
    Ok(())
}

fn is_known_type(name: &[u8]) -> Result<bool, Failure> {
    let is = |word: &str| name.eq_ignore_ascii_case(word.as_bytes());
    if is("normal") {
        Ok(true)
    } else if is("replica") || is("slave") || is("pubsub") || is("master") {
        Ok(false)
    } else {
        Err(Failure::Owned(
            [b"ERR Unknown client type '", Failure::shown(name), b"'"].concat(),
        ))
    }
}

fn list(call: &mut Call<'_>) -> Outcome {
    let mut options = OptionWords::new(call.args, 2);
    let (mut ids, mut normal) = (None, true);
    if options.take_with("TYPE", 1) {
        normal = is_known_type(options.value()?)?;
    } else if options.take_with("ID", 1) {
        let mut wanted = Vec::new();
        while options.left() > 0 {
            let id = parse_i64(options.value()?).and_then(|id| u64::try_from(id).ok());
            wanted.push(id.ok_or("ERR Invalid client ID")?);
        }
        ids = Some(wanted);
    }
    if options.left() > 0 {
        return Err(Failure::SYNTAX);
    }
    let shared = &*call.shared;
    let mut clients: Vec<&Client> = shared.others().map(|(_, client)| client).collect();
    clients.push(call.client);
    clients.sort_by_key(|client| client.id);
    let listed = match ids {
        // In the order in which they were asked for, and as often.
        Some(ids) => {
            let find = |id: u64| clients.binary_search_by_key(&id, |client| client.id).ok();
            ids.into_iter()
                .filter_map(find)
                .map(|at| clients[at])
                .collect()
        }
        None if normal => clients,
        None => Vec::new(),
    };
    let mut text = Vec::new();
    for client in listed {
        describe(shared, client, call.keyspace.now(), &mut text);
    }
    call.reply.verbatim(&text);
    Ok(())
}

/// Which clients are to go.
struct KillFilter<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    normal: bool,
    skip_me: bool,
}

impl KillFilter<'_> {
    fn include(&self, client: &Client) -> bool {
        self.normal
            && self.id.is_none_or(|id| id == client.id)
            && self
                .address
                .is_none_or(|address| address == client.address.as_bytes())
            && self
                .local_address
                .is_none_or(|address| address == client.local_address.as_bytes())
            && self.user.is_none_or(|user| user == b"default")
    }
}

fn kill(call: &mut Call<'_>) -> Outcome {
    let mut filter = KillFilter {
        id: None,
        address: None,
        local_address: None,
        user: None,
        normal: true,
        skip_me: true,
    };
    let by_address = call.args.len() == 3;
    if by_address {
        filter.address = Some(call.arg(2));
        filter.skip_me = false;
    } else {
        let mut options = OptionWords::new(call.args, 2);
        while options.left() > 0 {
            if options.take_with("ID", 1) {
                let id = parse_i64(options.value()?)
                    .and_then(|id| u64::try_from(id).ok())
                    .filter(|&id| id > 0);
                filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
            } else if options.take_with("TYPE", 1) {
                filter.normal = is_known_type(options.value()?)?;
            } else if options.take_with("ADDR", 1) {
                filter.address = Some(options.value()?);
            } else if options.take_with("LADDR", 1) {
                filter.local_address = Some(options.value()?);
            } else if options.take_with("USER", 1) {
                let user = options.value()?;
                if user != b"default" {
                    return Err(Failure::Owned(
                        [b"ERR No such user '", Failure::shown(user), b"'"].concat(),
                    ));
                }
                filter.user = Some(user);
            } else if options.take_with("SKIPME", 1) {
                filter.skip_me = match options.value()? {
                    word if word.eq_ignore_ascii_case(b"yes") => true,
                    word if word.eq_ignore_ascii_case(b"no") => false,
                    _ => return Err(Failure::SYNTAX),
                };
            } else {
                return Err(Failure::SYNTAX);
            }
        }
    }
    let slots: Vec<usize> = call
        .shared
        .others()
        .filter(|(_, client)| filter.include(client))
        .map(|(slot, _)| slot)
        .collect();
    let me = !filter.skip_me && filter.include(call.client);
    let count = slots.len() + usize::from(me);
    slots.into_iter().for_each(|slot| call.shared.kill(slot));
    call.client.closing |= me;
    match (by_address, count) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => call.reply.ok(),
        (false, count) => call.reply.integer(count as i64),
    }
    Ok(())
}

fn reply(call: &mut Call<'_>) -> Outcome {
    let mut options = OptionWords::new(call.args, 2);
    if options.take("ON") {
        call.client.replies = Replies::All;
        call.reply.ok();
    } else if options.take("OFF") {
        call.client.replies = Replies::None;
    } else if options.take("SKIP") {
        if call.client.replies != Replies::None {
            call.client.replies = Replies::SkipNext;
        }
    } else {
        return Err(Failure::SYNTAX);
    }
    Ok(())
}

fn no_evict(call: &mut Call<'_>) -> Outcome {
    let mut options = OptionWords::new(call.args, 2);
    call.client.no_evict = options.take("ON");
    if !call.client.no_evict && !options.take("OFF") {
        return Err(Failure::SYNTAX);
    }
    call.reply.ok();
    Ok(())
}

fn getredir(call: &mut Call<'_>) -> Outcome {
    call.reply.integer(-1);
    Ok(())
}

fn unblock(call: &mut Call<'_>) -> Outcome {
    let mut options = OptionWords::new(call.args, 3);
    if options.left() > 1 {
        return Err(Failure::subcommand("client", call.arg(1)));
    }
    let is_error = options.take("ERROR");
    if options.left() > 0 && !options.take("TIMEOUT") {
        return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into());
    }
    let (id, now_ms) = (u64::try_from(call.integer(2)?), call.keyspace.now());
    let slot = id.ok().and_then(|id| call.shared.blocked.slot_of(id));
    let connection = slot.and_then(|slot| call.shared.connections[slot].as_ref());
    let command = connection.and_then(|connection| connection.client.last_command);
    let released = slot.is_some_and(|slot| {
        let answer = |_, reply: &mut Reply| match is_error {
            true => reply.error(UNBLOCKED),
            false => reply.null_array(),
        };
        call.shared.release(slot, now_ms, answer)
    });
    if released && is_error {
        let stats = &mut call.shared.stats;
        stats.error(UNBLOCKED);
        if let Some(command) = command {
            stats.calls[usize::from(command)].failed += 1;
        }
    }
    call.reply.integer(i64::from(released));
    Ok(())
}

/// The reply to a client whose waiting was ended with ERROR.
const UNBLOCKED: &[u8] = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";

fn pause(call: &mut Call<'_>) -> Outcome {
    let mut options = OptionWords::new(call.args, 3);
    if options.left() > 1 {
        return Err(Failure::subcommand("client", call.arg(1)));
    }
    let writes = options.take("WRITE");
    if options.left() > 0 && !options.take("ALL") {
        return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into());
    }
    let length = timeout::milliseconds(call.arg(2))?;
    // Redis counts milliseconds since 1970: a pause that ends behind the last of them has ended already.
    let ms = i64::try_from(length.as_millis()).ok();
    let end_ms = ms.and_then(|ms| call.now_ms().checked_add(ms));
    let length = end_ms.map_or(Duration::ZERO, |_| length);
    call.shared.begin_pause(length, !writes);
    call.reply.ok();
    Ok(())
}

fn unpause(call: &mut Call<'_>) -> Outcome {
    let now_ms = call.keyspace.now();
    call.shared.end_pause(now_ms);
    call.reply.ok();
    Ok(())
}
