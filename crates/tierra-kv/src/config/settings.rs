//! The table of settings: name, whether it may change while the server runs, how to show and to read it.

use tierra_memory::FarSource;
use tierra_memory::emulation;
use tierra_memory::topology::NodeId;

use super::limit;
use super::values::{Config, DebugCommand, OutputLimit, OutputLimits};
use crate::keyspace::Eviction;
use crate::size;

/// A setting.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    /// Whether CONFIG SET may change it.
    pub(crate) live: bool,
    /// Whether its value may be several words; with one that takes a single one, a second is a mistake.
    pub(crate) takes_words: bool,
    pub(crate) get: fn(&Config) -> String,
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

/// All settings.
pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().chain(FIXED)
}

/// What settings were called before Redis 7, and are called since.
pub(crate) const OLD_NAMES: [(&str, &str); 4] = [
    ("hash-max-ziplist-entries", "hash-max-listpack-entries"),
    ("hash-max-ziplist-value", "hash-max-listpack-value"),
    ("zset-max-ziplist-entries", "zset-max-listpack-entries"),
    ("zset-max-ziplist-value", "zset-max-listpack-value"),
];

/// The name of a setting that may be given by its old one.
pub(crate) fn modern_name(name: &str) -> &str {
    let old = OLD_NAMES.iter().find(|(old, _)| *old == name);
    old.map_or(name, |(_, modern)| modern)
}

const fn live(
    name: &'static str,
    get: fn(&Config) -> String,
    set: fn(&mut Config, &str) -> Result<(), String>,
) -> Setting {
    Setting {
        name,
        live: true,
        takes_words: false,
        get,
        set,
    }
}

const fn at_start(
    name: &'static str,
    get: fn(&Config) -> String,
    set: fn(&mut Config, &str) -> Result<(), String>,
) -> Setting {
    Setting {
        name,
        live: false,
        takes_words: false,
        get,
        set,
    }
}

/// The same with a value of several words.
const fn words(setting: Setting) -> Setting {
    Setting {
        takes_words: true,
        ..setting
    }
}

fn number<T: TryFrom<i64>>(text: &str, least: i64, most: i64) -> Result<T, String> {
    let number: i64 = text
        .parse()
        .map_err(|_| "argument couldn't be parsed into an integer")?;
    let in_range = Some(number)
        .filter(|number| (least..=most).contains(number))
        .and_then(|number| T::try_from(number).ok());
    in_range.ok_or_else(|| format!("argument must be between {least} and {most} inclusive"))
}

fn bytes(text: &str) -> Result<u64, String> {
    size::parse(text).ok_or_else(|| "argument must be a memory value".into())
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

fn shown(yes: bool) -> String {
    if yes { "yes" } else { "no" }.into()
}

const INT_MAX: i64 = i32::MAX as i64;

const ONE_SOURCE: &str = "far memory is a node (far-node) or in a directory (far-path), not both";

pub(super) static SETTINGS: &[Setting] = &[
    at_start(
        "port",
        |c| c.port.to_string(),
        |c, v| number(v, 0, 65535).map(|n| c.port = n),
    ),
    words(at_start(
        "bind",
        |c| c.bind.join(" "),
        |c, v| {
            c.bind = v.split_whitespace().map(Into::into).collect();
            Ok(())
        },
    )),
    at_start(
        "unixsocket",
        |c| {
            c.unixsocket
                .as_ref()
                .map_or(String::new(), |path| path.display().to_string())
        },
        |c, v| {
            c.unixsocket = Some(v).filter(|path| !path.is_empty()).map(Into::into);
            Ok(())
        },
    ),
    at_start(
        "unixsocketperm",
        |c| format!("{:o}", c.unixsocketperm.unwrap_or(0)),
        |c, v| {
            let mode = u32::from_str_radix(v, 8).ok().filter(|mode| *mode <= 0o777);
            let mode =
                mode.ok_or("argument must be the octal digits of permissions, at most 777")?;
            c.unixsocketperm = Some(mode).filter(|mode| *mode > 0);
            Ok(())
        },
    ),
    at_start(
        "http",
        |c| c.http.map_or(String::new(), |address| address.to_string()),
        |c, v| {
            c.http =
                match v {
                    "" => None,
                    address => Some(address.parse().map_err(
                        |_| "argument must be an address with a port, as 127.0.0.1:7434",
                    )?),
                };
            Ok(())
        },
    ),
    at_start(
        "tcp-backlog",
        |c| c.tcp_backlog.to_string(),
        |c, v| number(v, 0, INT_MAX).map(|n| c.tcp_backlog = n),
    ),
    live(
        "protected-mode",
        |c| shown(c.protected_mode),
        |c, v| yes_or_no(v).map(|yes| c.protected_mode = yes),
    ),
    live(
        "requirepass",
        |c| c.requirepass.clone(),
        |c, v| {
            c.requirepass = v.into();
            Ok(())
        },
    ),
    live(
        "maxclients",
        |c| c.maxclients.to_string(),
        |c, v| number(v, 1, 1_000_000).map(|n| c.maxclients = n),
    ),
    live(
        "timeout",
        |c| c.timeout.to_string(),
        |c, v| number(v, 0, INT_MAX).map(|n| c.timeout = n),
    ),
    live(
        "tcp-keepalive",
        |c| c.tcp_keepalive.to_string(),
        |c, v| number(v, 0, INT_MAX).map(|n| c.tcp_keepalive = n),
    ),
    live(
        "maxmemory",
        |c| c.maxmemory.to_string(),
        |c, v| bytes(v).map(|n| c.maxmemory = n),
    ),
    live(
        "maxmemory-policy",
        |c| c.maxmemory_policy.name().into(),
        |c, v| {
            let mut named = Eviction::NAMES.iter();
            let (_, policy) = named
                .find(|(name, _)| name.eq_ignore_ascii_case(v))
                .ok_or_else(|| {
                    let names = Eviction::NAMES.map(|(name, _)| name).join(", ");
                    format!("argument(s) must be one of the following: {names}")
                })?;
            c.maxmemory_policy = *policy;
            Ok(())
        },
    ),
    live(
        "maxmemory-samples",
        |c| c.maxmemory_samples.to_string(),
        |c, v| number(v, 1, INT_MAX).map(|n| c.maxmemory_samples = n),
    ),
    live(
        "proto-max-bulk-len",
        |c| c.proto_max_bulk_len.to_string(),
        |c, v| {
            let bytes = bytes(v)?;
            // Redis's own limits; arguments are numbered with 32 bits.
            if !((1 << 20)..=(u64::from(u32::MAX) >> 1)).contains(&bytes) {
                return Err(format!(
                    "argument must be between {} and {} inclusive",
                    1 << 20,
                    u32::MAX >> 1
                ));
            }
            c.proto_max_bulk_len = bytes as i64;
            Ok(())
        },
    ),
    live(
        "client-query-buffer-limit",
        |c| c.client_query_buffer_limit.to_string(),
        |c, v| {
            let bytes = bytes(v)?;
            if !((1 << 20)..=u64::from(u32::MAX)).contains(&bytes) {
                return Err(format!(
                    "argument must be between {} and {} inclusive",
                    1 << 20,
                    u32::MAX
                ));
            }
            c.client_query_buffer_limit = bytes as usize;
            Ok(())
        },
    ),
    words(live(
        "client-output-buffer-limit",
        output_limits,
        set_output_limits,
    )),
    live(
        "slowlog-log-slower-than",
        |c| c.slowlog_log_slower_than.to_string(),
        |c, v| number(v, -1, i64::MAX).map(|n| c.slowlog_log_slower_than = n),
    ),
    live(
        "slowlog-max-len",
        |c| c.slowlog_max_len.to_string(),
        |c, v| number(v, 0, i64::MAX).map(|n| c.slowlog_max_len = n),
    ),
    live(
        "hz",
        |c| c.hz.to_string(),
        |c, v| number(v, 0, INT_MAX).map(|n: u64| c.hz = n.clamp(1, 500)),
    ),
    words(at_start(
        "emulate",
        |c| c.emulate.map_or("off".into(), |far| far.to_string()),
        |c, v| {
            c.emulate = emulation::parse(v).map_err(|error| error.to_string())?;
            Ok(())
        },
    )),
    at_start(
        "far-memory",
        |c| limit::shown(c.far_memory),
        |c, v| limit::parse(v).map(|limit| c.far_memory = limit),
    ),
    at_start(
        "far-node",
        |c| match &c.far {
            FarSource::Node(node) => node.0.to_string(),
            _ => "none".into(),
        },
        |c, v| {
            let node = match v {
                "none" => None,
                v => Some(NodeId(number(v, 0, i64::from(u16::MAX))?)),
            };
            match (node, &c.far) {
                (Some(_), FarSource::Directory(_)) => Err(ONE_SOURCE.into()),
                (None, FarSource::Directory(_)) => Ok(()),
                (node, _) => {
                    c.far = node.map_or(FarSource::Near, FarSource::Node);
                    Ok(())
                }
            }
        },
    ),
    at_start(
        "far-path",
        |c| match &c.far {
            FarSource::Directory(directory) => directory.display().to_string(),
            _ => String::new(),
        },
        |c, v| match (v, &c.far) {
            ("", FarSource::Node(_)) => Ok(()),
            (_, FarSource::Node(_)) => Err(ONE_SOURCE.into()),
            ("", _) => {
                c.far = FarSource::Near;
                Ok(())
            }
            (directory, _) => {
                c.far = FarSource::Directory(directory.into());
                Ok(())
            }
        },
    ),
    at_start(
        "hashtable-on-dram",
        |c| shown(c.hashtable_on_dram),
        |c, v| yes_or_no(v).map(|yes| c.hashtable_on_dram = yes),
    ),
    at_start(
        "enable-debug-command",
        |c| match c.enable_debug_command {
            DebugCommand::No => "no".into(),
            DebugCommand::Local => "local".into(),
            DebugCommand::Yes => "yes".into(),
        },
        |c, v| {
            c.enable_debug_command = match v {
                "no" => DebugCommand::No,
                "local" => DebugCommand::Local,
                "yes" => DebugCommand::Yes,
                _ => return Err("argument(s) must be one of the following: no, yes, local".into()),
            };
            Ok(())
        },
    ),
];

fn output_limits(config: &Config) -> String {
    let OutputLimits {
        normal,
        replica,
        pubsub,
    } = &config.output_limits;
    let classes = [("normal", normal), ("slave", replica), ("pubsub", pubsub)];
    let shown = classes.map(|(class, limit)| {
        let OutputLimit {
            hard_bytes,
            soft_bytes,
            soft_s,
        } = limit;
        format!("{class} {hard_bytes} {soft_bytes} {soft_s}")
    });
    shown.join(" ")
}

/// Classes that are not named keep their limits. Nothing changes where any is wrong.
fn set_output_limits(config: &mut Config, text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits = config.output_limits;
    for class in words.chunks(4) {
        let changed = match class[0].to_ascii_lowercase().as_str() {
            "normal" => &mut limits.normal,
            "slave" | "replica" => &mut limits.replica,
            "pubsub" => &mut limits.pubsub,
            _ => {
                return Err("Invalid client class specified in buffer limit configuration.".into());
            }
        };
        let limit = (|| {
            Some(OutputLimit {
                hard_bytes: size::parse(class[1])?,
                soft_bytes: size::parse(class[2])?,
                soft_s: class[3].parse().ok().filter(|s| *s <= i64::MAX as u64)?,
            })
        })();
        *changed = limit
            .ok_or("Error in hard, soft or soft_seconds setting in buffer limit configuration.")?;
    }
    config.output_limits = limits;
    Ok(())
}

/// Settings of Redis whose value here is always the same.
macro_rules! fixed {
    ($($name:literal $value:literal),* $(,)?) => {
        &[$(Setting {
            name: $name,
            live: true,
            takes_words: true,
            get: |_| $value.into(),
            set: |_, value| match value.eq_ignore_ascii_case($value) {
                true => Ok(()),
                false => Err(format!("Tierra has only '{}'", $value)),
            },
        }),*]
    };
}

static FIXED: &[Setting] = fixed![
    "save" "",
    "appendonly" "no",
    "databases" "16",
    "daemonize" "no",
    "cluster-enabled" "no",
    "io-threads" "1",
    "replicaof" "",
    "supervised" "no",
    "logfile" "",
    "syslog-enabled" "no",
    "notify-keyspace-events" "",
    "latency-monitor-threshold" "0",
    "activedefrag" "no",
];

/// Settings of Redis that only say how something is done which Tierra does not do at all, or does in its own way:
/// what `redis.conf` says of them may stay there.
pub(super) static WITHOUT_EFFECT: &[&str] = &[
    // Persistence, which `save` and `appendonly` switch on.
    "dir",
    "dbfilename",
    "rdbcompression",
    "rdbchecksum",
    "rdb-del-sync-files",
    "rdb-save-incremental-fsync",
    "stop-writes-on-bgsave-error",
    "appendfilename",
    "appenddirname",
    "appendfsync",
    "no-appendfsync-on-rewrite",
    "auto-aof-rewrite-percentage",
    "auto-aof-rewrite-min-size",
    "aof-load-truncated",
    "aof-use-rdb-preamble",
    "aof-timestamp-enabled",
    "aof-rewrite-incremental-fsync",
    // Replication and cluster, which `replicaof` and `cluster-enabled` switch on.
    "replica-serve-stale-data",
    "replica-read-only",
    "replica-priority",
    "replica-lazy-flush",
    "repl-diskless-sync",
    "repl-diskless-sync-delay",
    "repl-diskless-sync-max-replicas",
    "repl-diskless-load",
    "repl-disable-tcp-nodelay",
    "repl-backlog-size",
    "repl-backlog-ttl",
    "repl-timeout",
    "repl-ping-replica-period",
    // Kinds of values that there are not.
    "list-max-listpack-size",
    "list-max-ziplist-size",
    "list-compress-depth",
    "set-max-intset-entries",
    "hll-sparse-max-bytes",
    "stream-node-max-bytes",
    "stream-node-max-entries",
    "acllog-max-len",
    // Eviction.
    "maxmemory-eviction-tenacity",
    "lfu-log-factor",
    "lfu-decay-time",
    "active-defrag-ignore-bytes",
    "active-defrag-threshold-lower",
    "active-defrag-threshold-upper",
    // What Tierra does in its own way. It stays in the foreground: its parent knows the process, and the
    // file that a `redis.conf` names may be that of a Redis which runs.
    "pidfile",
    "always-show-logo",
    "set-proc-title",
    "proc-title-template",
    "loglevel",
    "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire",
    "lazyfree-lazy-server-del",
    "lazyfree-lazy-user-del",
    "lazyfree-lazy-user-flush",
    "activerehashing",
    "active-expire-effort",
    "dynamic-hz",
    "jemalloc-bg-thread",
    "latency-tracking",
    "disable-thp",
    "oom-score-adj",
    "oom-score-adj-values",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_setting_shows_it_reads() {
        let mut config = Config::default();
        for setting in settings() {
            let shown = (setting.get)(&config);
            assert_eq!(
                (setting.set)(&mut config, &shown),
                Ok(()),
                "{}",
                setting.name
            );
            assert_eq!((setting.get)(&config), shown, "{}", setting.name);
        }
    }

    #[test]
    fn wrong_values_are_refused_in_redis_words() {
        let refused = |name: &str, value: &str| {
            let setting = settings().find(|setting| setting.name == name).unwrap();
            (setting.set)(&mut Config::default(), value).unwrap_err()
        };
        assert_eq!(refused("maxmemory", "x"), "argument must be a memory value");
        assert_eq!(
            refused("timeout", "-1"),
            "argument must be between 0 and 2147483647 inclusive"
        );
        assert_eq!(
            refused("tcp-keepalive", "x"),
            "argument couldn't be parsed into an integer"
        );
        assert_eq!(
            refused("protected-mode", "maybe"),
            "argument must be 'yes' or 'no'"
        );
        assert_eq!(
            refused("client-output-buffer-limit", "foo"),
            "Wrong number of arguments in buffer limit configuration."
        );
        assert_eq!(
            refused("maxmemory-policy", "lru"),
            "argument(s) must be one of the following: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, \
             allkeys-lru, allkeys-lfu, allkeys-random, noeviction"
        );
        assert_eq!(
            refused("maxmemory-samples", "0"),
            "argument must be between 1 and 2147483647 inclusive"
        );
        assert_eq!(refused("appendonly", "yes"), "Tierra has only 'no'");
    }

    #[test]
    fn far_memory_comes_from_one_place() {
        let mut config = Config::default();
        let mut set = |name: &str, value: &str| {
            let setting = settings().find(|setting| setting.name == name).unwrap();
            (setting.set)(&mut config, value).map(|()| config.far.clone())
        };
        let directory = FarSource::Directory("/mnt/pmem0".into());
        assert_eq!(set("far-path", "/mnt/pmem0"), Ok(directory.clone()));
        assert_eq!(set("far-node", "1"), Err(ONE_SOURCE.into()));
        assert_eq!(set("far-node", "none"), Ok(directory));
        assert_eq!(set("far-path", ""), Ok(FarSource::Near));
        assert_eq!(set("far-node", "1"), Ok(FarSource::Node(NodeId(1))));
        assert_eq!(set("far-path", "/mnt/pmem0"), Err(ONE_SOURCE.into()));
    }
}
