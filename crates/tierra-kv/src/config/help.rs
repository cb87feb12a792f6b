//! All settings with their defaults, for `--help`.

use std::fmt::Write;

use super::{Config, placement_shown, settings};
use crate::keyspace::Settings;

/// What settings are about, and those that are.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Where it listens: an address behind '-' may be missing; port 0 is none",
        &[
            "port",
            "bind",
            "unixsocket",
            "unixsocketperm",
            "tcp-backlog",
        ],
    ),
    (
        "Whom it serves: without a password only clients of this machine",
        &["protected-mode", "requirepass", "enable-debug-command"],
    ),
    (
        "How many clients, for how long, and how much may wait of each",
        &[
            "maxclients",
            "timeout",
            "tcp-keepalive",
            "proto-max-bulk-len",
            "client-query-buffer-limit",
            "client-output-buffer-limit",
        ],
    ),
    (
        "How much may be stored (0: no limit), and which keys go beyond that",
        &["maxmemory", "maxmemory-policy", "maxmemory-samples"],
    ),
    (
        "What is noted, how often expired keys are looked for, and where metrics are told over HTTP",
        &["slowlog-log-slower-than", "slowlog-max-len", "hz", "http"],
    ),
    (
        "Which records are in near memory, and how much of each tier they may take (all: no limit)",
        &[
            "memory-alloc-policy",
            "near-memory",
            "far-memory",
            "hashtable-on-dram",
        ],
    ),
    (
        "Where far memory is: a node, a file in a directory, or near memory made slower",
        &["far-node", "far-path", "emulate"],
    ),
    (
        "How the policies 'threshold' and 'ratio' tell records apart",
        &[
            "static-threshold",
            "dram-pmem-ratio",
            "initial-dynamic-threshold",
            "dynamic-threshold-min",
            "dynamic-threshold-max",
            "memory-ratio-check-period",
        ],
    ),
    (
        "Up to which size a hash or sorted set is one record",
        &[
            "hash-max-listpack-entries",
            "hash-max-listpack-value",
            "zset-max-listpack-entries",
            "zset-max-listpack-value",
        ],
    ),
];

/// Every setting, its default, and what it is about.
pub fn settings_help() -> String {
    let (config, placement) = (Config::default(), Settings::default());
    let mut text = String::from(
        "Settings and their defaults: '--NAME VALUE' here, 'NAME VALUE' in a line of --config FILE, which\n\
         may be a redis.conf. What is said here comes first. CONFIG SET changes those with * later.\n",
    );
    for (about, names) in GROUPS {
        write!(text, "\n{about}:\n").expect("text takes all that is written");
        for name in *names {
            let setting = settings().find(|setting| setting.name == *name);
            let (live, value) = match setting {
                Some(setting) => (setting.live, (setting.get)(&config)),
                None => (true, placement.get(name).unwrap_or_default()),
            };
            let star = if live { "*" } else { "" };
            let value = match placement_shown(name, value) {
                value if value.is_empty() || value.contains(' ') => format!("\"{value}\""),
                value => value,
            };
            let name = format!("--{name}{star}");
            writeln!(text, "  {name:<30} {value}").expect("text takes all that is written");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::settings::SETTINGS;
    use super::*;
    use crate::keyspace::Keyspace;

    #[test]
    fn every_setting_is_in_one_group_and_in_the_document() {
        let document = include_str!("../../../../docs/kv.md");
        // Where the value is always the same there is nothing to show.
        let mut names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
        names.extend(Keyspace::settings());
        let mut listed: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        for name in &names {
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, names);
    }

    #[test]
    fn the_list_tells_defaults_and_what_may_change() {
        let help = settings_help();
        for line in [
            "  --port                         6379\n",
            "  --bind                         \"127.0.0.1 -::1\"\n",
            "  --requirepass*                 \"\"\n",
            "  --near-memory*                 all\n",
            "  --far-memory                   all\n",
            "  --dram-pmem-ratio*             \"1 3\"\n",
        ] {
            assert!(help.contains(line), "{line} is not in\n{help}");
        }
    }
}
