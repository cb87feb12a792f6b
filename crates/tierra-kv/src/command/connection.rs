//! Commands about the connection itself.

use super::keys::database;
use super::options::OptionWords;
use super::{Call, Command, FAST, Failure, Group, NO_AUTH, NOSCRIPT, Outcome, UNQUEUED, admin};
use crate::catalog::REDIS_VERSION;
use crate::clients::Replies;

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::Connection, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("ping", -1, ping)
        .flags(FAST)
        .about("1.0.0", "Replies with PONG, or with its argument").arguments("[message]"),
    of("echo", 2, echo)
        .flags(FAST)
        .about("1.0.0", "Replies with its argument").arguments("message"),
    of("select", 2, select)
        .flags(FAST)
        .about("1.0.0", "Selects a database").arguments("index:integer"),
    of("auth", -2, auth)
        .flags(NOSCRIPT | FAST | NO_AUTH)
        .about("1.0.0", "Says the password").arguments("[username@6.0.0] password"),
    of("hello", -1, hello)
        .flags(NOSCRIPT | FAST | NO_AUTH)
        .about("6.0.0", "Chooses the protocol").arguments("[arguments(protover:integer [AUTH username_password(username password)] [SETNAME clientname])]"),
    of("quit", -1, quit)
        .flags(NOSCRIPT | FAST | NO_AUTH | UNQUEUED)
        .about("1.0.0", "Ends the connection"),
    of("reset", 1, reset)
        .flags(NOSCRIPT | FAST | NO_AUTH | UNQUEUED)
        .about("6.2.0", "Makes the connection as if it were new"),
    of("wait", 3, wait)
        .flags(NOSCRIPT | FAST)
        .about("3.0.0", "How many replicas have everything: none").arguments("numreplicas:integer timeout:integer"),
    admin::CLIENT,
    admin::COMMAND,
];

fn ping(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        1 => call.reply.simple("PONG"),
        2 => call.reply.bulk(call.args.at(1)),
        _ => return Err(Failure::arity("ping")),
    }
    Ok(())
}

fn echo(call: &mut Call<'_>) -> Outcome {
    call.reply.bulk(call.args.at(1));
    Ok(())
}

fn select(call: &mut Call<'_>) -> Outcome {
    call.client.db = database(call.integer(1)?)?;
    call.reply.ok();
    Ok(())
}

/// Whether it is the password. The time it takes does not reveal how much of it is correct.
fn is_password(expected: &[u8], given: &[u8]) -> bool {
    let differing = expected
        .iter()
        .zip(given)
        .fold(0, |differing, (a, b)| differing | (a ^ b));
    differing == 0 && expected.len() == given.len()
}

fn login(call: &mut Call<'_>, user: &[u8], password: &[u8]) -> Outcome {
    // Without a password everyone may come in, whatever they say, as the one user there is.
    let right = !call.shared.is_guarded()
        || is_password(call.shared.config.requirepass.as_bytes(), password);
    if user != b"default" || !right {
        return Err(Failure::PASSWORD);
    }
    call.client.authenticated = true;
    Ok(())
}

fn auth(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        2 if !call.shared.is_guarded() => {
            return Err("ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?".into());
        }
        2 => login(call, b"default", call.arg(1))?,
        3 => login(call, call.arg(1), call.arg(2))?,
        _ => return Err(Failure::SYNTAX),
    }
    call.reply.ok();
    Ok(())
}

fn hello(call: &mut Call<'_>) -> Outcome {
    let resp3 = match call.args.get(1).map(crate::number::parse_i64) {
        None => None,
        Some(Some(2)) => Some(false),
        Some(Some(3)) => Some(true),
        Some(Some(_)) => return Err("NOPROTO unsupported protocol version".into()),
        Some(None) => return Err("ERR Protocol version is not an integer or out of range".into()),
    };
    let mut options = OptionWords::new(call.args, 2);
    // One after another, as Redis does: what comes before a mistake is done.
    while options.left() > 0 {
        if options.take_with("AUTH", 2) {
            let (user, password) = (options.value()?, options.value()?);
            login(call, user, password)?;
        } else if options.take_with("SETNAME", 1) {
            admin::set_name(call.client, options.value()?)?;
        } else {
            let option = Failure::shown(options.value()?);
            return Err(Failure::Owned(
                [b"ERR Syntax error in HELLO option '", option, b"'"].concat(),
            ));
        }
    }
    if !call.client.authenticated && call.shared.is_guarded() {
        return Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time".into());
    }
    if let Some(resp3) = resp3 {
        call.reply.resp3 = resp3;
        call.client.resp3 = resp3;
    }
    let reply = &mut *call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if reply.resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.client.id as i64);
    for (name, value) in [("mode", "standalone"), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

fn quit(call: &mut Call<'_>) -> Outcome {
    call.client.closing = true;
    call.reply.ok();
    Ok(())
}

fn reset(call: &mut Call<'_>) -> Outcome {
    let client = &mut *call.client;
    call.shared.watches.forget(client.id, &mut client.watched);
    if let Some(queue) = client.queue.take() {
        call.shared.defer_free(queue);
    }
    call.shared.forget_monitor(client);
    client.db = 0;
    client.name.clear();
    client.replies = Replies::All;
    client.no_evict = false;
    client.authenticated = !call.shared.is_guarded();
    client.resp3 = false;
    call.reply.resp3 = false;
    call.reply.simple("RESET");
    Ok(())
}

fn wait(call: &mut Call<'_>) -> Outcome {
    call.integer(1)?;
    if call
        .integer(2)
        .map_err(|_| "ERR timeout is not an integer or out of range")?
        < 0
    {
        return Err("ERR timeout is negative".into());
    }
    call.reply.integer(0);
    Ok(())
}
