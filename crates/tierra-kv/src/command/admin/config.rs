//! CONFIG: settings while the server runs.

use super::super::{
    ADMIN, Call, Command, DANGEROUS, Failure, Group, NOSCRIPT, Outcome, glob_matches,
};
use super::help::help;
use crate::clients::connections_allowed;
use crate::config::{self, ChangeError};
use crate::keyspace::Keyspace;

const fn of(name: &'static str, arity: i16, run: super::super::Run) -> Command {
    Command::new(name, arity, Group::Server, run).flags(ADMIN | NOSCRIPT | DANGEROUS)
}

pub(super) const CONFIG: Command = Command::container(
    "config",
    Group::Server,
    &[
        of("get", -3, get)
            .about("2.0.0", "The values of settings")
            .arguments("parameter(parameter)*"),
        of("set", -4, set)
            .about("2.0.0", "Changes settings")
            .arguments("parameter_value(parameter value)*"),
        of("resetstat", 2, resetstat).about("2.0.0", "Sets to zero what is counted"),
        of("rewrite", 2, rewrite).about("2.8.0", "Refused: configuration files are not written"),
        of("help", 2, help)
            .flags(0)
            .about("5.0.0", "What subcommands there are"),
    ],
)
.about("2.0.0", "Settings while the server runs");

/// The value of a setting of either kind.
fn value(call: &Call<'_>, name: &str) -> Option<String> {
    let name = config::modern_name(name);
    let setting = config::settings().find(|setting| setting.name == name);
    match setting {
        Some(setting) => Some((setting.get)(&call.shared.config)),
        None => (call.keyspace.setting(name)).map(|value| config::placement_shown(name, value)),
    }
}

fn get(call: &mut Call<'_>) -> Outcome {
    let names = || {
        config::settings()
            .map(|setting| setting.name)
            .chain(Keyspace::settings().iter().copied())
            .chain(config::OLD_NAMES.iter().map(|(old, _)| *old))
    };
    let mut found: Vec<(String, String)> = Vec::new();
    for pattern in call.args.from(2).iter() {
        let lower = pattern.to_ascii_lowercase();
        let matching = names().filter(|name| glob_matches(&lower, name.as_bytes()));
        for name in matching {
            // A name is returned as it was asked for; a pattern has the names that it describes.
            let shown = match pattern.eq_ignore_ascii_case(name.as_bytes()) {
                true => String::from_utf8_lossy(pattern).into_owned(),
                false => name.to_owned(),
            };
            if found
                .iter()
                .all(|(other, _)| !other.eq_ignore_ascii_case(name))
            {
                found.extend(value(call, name).map(|value| (shown, value)));
            }
        }
    }
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(())
}

fn failed(name: &str, why: &str) -> Failure {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}").into()
}

/// Whether there are settings of these names, each once, that may change.
fn check_names(names: &[&str]) -> Outcome {
    let mut seen: Vec<String> = Vec::new();
    for name in names {
        let lower = name.to_ascii_lowercase();
        let modern = config::modern_name(&lower);
        let setting = config::settings().find(|setting| setting.name == modern);
        if setting.is_none() && !Keyspace::settings().contains(&modern) {
            return Err(format!(
                "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
            )
            .into());
        }
        if setting.is_some_and(|setting| !setting.live) {
            return Err(failed(name, "can't set immutable config"));
        }
        if seen.iter().any(|other| other == modern) {
            return Err(failed(name, "duplicate parameter"));
        }
        seen.push(modern.into());
    }
    Ok(())
}

fn set(call: &mut Call<'_>) -> Outcome {
    if call.args.len() % 2 == 1 {
        return Err(Failure::SYNTAX);
    }
    let pairs: Vec<(String, &[u8])> = call
        .args
        .from(2)
        .pairs()
        .map(|(name, value)| {
            let name = String::from_utf8_lossy(Failure::shown(name));
            (name.into_owned(), value)
        })
        .collect();
    check_names(&pairs.iter().map(|(name, _)| &**name).collect::<Vec<_>>())?;
    // All or nothing: what is set is kept aside until the last one is right.
    let mut config = call.shared.config.clone();
    let mut placement = call.keyspace.placement().clone();
    for (name, value) in &pairs {
        let value =
            std::str::from_utf8(value).map_err(|_| failed(name, "the value is not UTF-8"))?;
        let lower = name.to_ascii_lowercase();
        let modern = config::modern_name(&lower);
        if Keyspace::settings().contains(&modern) {
            let given = config::placement_given(modern, value)
                .and_then(|value| placement.set(modern, &value));
            given.map_err(|why| failed(name, &why))?;
        } else if let Err(refused) = config.set_live(modern, value) {
            return Err(match refused {
                ChangeError::Invalid(why) => failed(name, &why),
                // The names were right a moment ago.
                ChangeError::Unknown | ChangeError::Immutable => {
                    failed(name, "can't set immutable config")
                }
            });
        }
    }
    placement
        .check()
        .map_err(|(name, why)| failed(name, &why))?;
    let wanted = config.maxclients;
    if wanted > call.shared.config.maxclients {
        let allowed = connections_allowed(wanted);
        if allowed < wanted {
            let why = format!(
                "The operating system is not able to handle the specified number of clients, try with {allowed}"
            );
            return Err(failed("maxclients", &why));
        }
    }
    if placement != *call.keyspace.placement() {
        call.keyspace.set_placement(placement);
    }
    call.keyspace.set_eviction(config.maxmemory_policy);
    call.shared.config = config;
    call.reply.ok();
    Ok(())
}

fn resetstat(call: &mut Call<'_>) -> Outcome {
    call.shared.stats.reset();
    call.keyspace.take_expired();
    call.reply.ok();
    Ok(())
}

fn rewrite(_: &mut Call<'_>) -> Outcome {
    Err("ERR configuration files are not written: change the file that --config names".into())
}
