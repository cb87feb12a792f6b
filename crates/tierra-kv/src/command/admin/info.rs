//! INFO: what there is to know about the server, in sections of `name:value` lines.

use std::fmt::{Arguments, Write};

use super::super::{Call, Outcome};
use crate::catalog::REDIS_VERSION;
use crate::config::limit_shown;
use crate::keyspace::{DATABASES, DbId};

/// A section: its name, whether it is shown by default, and its function.
type Section = (&'static str, bool, fn(&Call<'_>, &mut Lines));

const SECTIONS: &[Section] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Commandstats", false, commandstats),
    ("Errorstats", true, errorstats),
    ("Cluster", true, cluster),
    ("Keyspace", true, keyspace),
    ("Tiers", true, tiers),
];

struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.write(format_args!("{name}:{value}\r\n"));
    }

    fn write(&mut self, text: Arguments<'_>) {
        self.0
            .write_fmt(text)
            .expect("text takes all that is written");
    }
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted: Vec<String> = call
        .args
        .from(1)
        .iter()
        .map(|word| String::from_utf8_lossy(word).to_lowercase())
        .collect();
    let named = |name: &str| wanted.iter().any(|word| word == name);
    let everything = named("all") || named("everything");
    call.shared.stats.expired += call.keyspace.take_expired();
    let mut lines = Lines(String::new());
    for (name, unasked, tell) in SECTIONS {
        let by_default = *unasked && (wanted.is_empty() || named("default"));
        if everything || by_default || named(&name.to_lowercase()) {
            if !lines.0.is_empty() {
                lines.0.push_str("\r\n");
            }
            lines.write(format_args!("# {name}\r\n"));
            tell(call, &mut lines);
        }
    }
    call.reply.verbatim(&lines.0);
    Ok(())
}

/// A size with a unit, as Redis shows it to people.
fn human(bytes: u64) -> String {
    let units = [
        (1u64 << 40, 'T'),
        (1 << 30, 'G'),
        (1 << 20, 'M'),
        (1 << 10, 'K'),
    ];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / unit as f64),
        None => format!("{bytes}B"),
    }
}

fn server(call: &Call<'_>, lines: &mut Lines) {
    let shared = &*call.shared;
    let uptime_s = shared.started.elapsed().as_secs();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    lines.add("redis_version", REDIS_VERSION);
    lines.add("tierra_version", env!("CARGO_PKG_VERSION"));
    lines.add("redis_mode", "standalone");
    lines.add(
        "os",
        format_args!("Linux {} {}", release.trim(), std::env::consts::ARCH),
    );
    lines.add("arch_bits", usize::BITS);
    lines.add("multiplexing_api", "epoll");
    lines.add("process_id", std::process::id());
    lines.add("run_id", &shared.run_id);
    lines.add("tcp_port", shared.port);
    lines.add("server_time_usec", call.keyspace.now() * 1000);
    lines.add("uptime_in_seconds", uptime_s);
    lines.add("uptime_in_days", uptime_s / 86_400);
    lines.add("hz", shared.config.hz);
    lines.add("configured_hz", shared.config.hz);
    lines.add(
        "config_file",
        shared
            .config
            .file
            .as_ref()
            .map_or(String::new(), |file| file.display().to_string()),
    );
}

fn clients(call: &Call<'_>, lines: &mut Lines) {
    let shared = &*call.shared;
    lines.add("connected_clients", shared.connected);
    lines.add("maxclients", shared.config.maxclients);
    lines.add(
        "client_recent_max_input_buffer",
        shared
            .others()
            .map(|(_, client)| client.input_bytes)
            .max()
            .unwrap_or(0),
    );
    lines.add(
        "client_recent_max_output_buffer",
        shared
            .others()
            .map(|(_, client)| client.output_bytes)
            .max()
            .unwrap_or(0),
    );
    lines.add("blocked_clients", shared.blocked.len());
    lines.add("tracking_clients", 0);
}

fn memory(call: &Call<'_>, lines: &mut Lines) {
    let (used, report) = (call.keyspace.used_bytes(), call.keyspace.report());
    let peak = call.shared.stats.used_bytes_peak.max(used);
    let resident = resident_bytes();
    let max = call.shared.config.maxmemory;
    lines.add("used_memory", used);
    lines.add("used_memory_human", human(used));
    lines.add("used_memory_rss", resident);
    lines.add("used_memory_rss_human", human(resident));
    lines.add("used_memory_peak", peak);
    lines.add("used_memory_peak_human", human(peak));
    let percent = |part: u64, of: u64| format!("{:.2}%", part as f64 * 100.0 / of.max(1) as f64);
    lines.add("used_memory_peak_perc", percent(used, peak));
    let dataset = report.near.object_bytes + report.far.object_bytes;
    lines.add("used_memory_dataset", dataset);
    lines.add("used_memory_dataset_perc", percent(dataset, used));
    lines.add("used_memory_overhead", report.table_bytes);
    let system = system_bytes();
    lines.add("total_system_memory", system);
    lines.add("total_system_memory_human", human(system));
    lines.add("maxmemory", max);
    lines.add("maxmemory_human", human(max));
    lines.add(
        "maxmemory_policy",
        call.shared.config.maxmemory_policy.name(),
    );
    lines.add(
        "mem_fragmentation_ratio",
        format_args!("{:.2}", resident as f64 / used.max(1) as f64),
    );
    lines.add(
        "mem_clients_normal",
        call.shared
            .others()
            .map(|(_, client)| client.bytes())
            .sum::<usize>(),
    );
}

/// Bytes of the process that are in memory; 0 where the system does not say.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * tierra_memory::base_page_bytes() as u64
}

/// Bytes of memory that the machine has; 0 where the system does not say.
fn system_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Nothing is written to a disk; tools ask nevertheless.
fn persistence(call: &Call<'_>, lines: &mut Lines) {
    lines.add("loading", 0);
    lines.add("rdb_changes_since_last_save", call.shared.stats.changes);
    lines.add("rdb_bgsave_in_progress", 0);
    lines.add("aof_enabled", 0);
}

fn stats(call: &Call<'_>, lines: &mut Lines) {
    let stats = &call.shared.stats;
    lines.add("total_connections_received", stats.connections);
    lines.add("total_commands_processed", stats.commands);
    lines.add("instantaneous_ops_per_sec", stats.ops_per_s);
    lines.add("total_net_input_bytes", stats.input_bytes);
    lines.add("total_net_output_bytes", stats.output_bytes);
    lines.add(
        "instantaneous_input_kbps",
        format_args!("{:.2}", stats.input_bytes_per_s as f64 / 1024.0),
    );
    lines.add(
        "instantaneous_output_kbps",
        format_args!("{:.2}", stats.output_bytes_per_s as f64 / 1024.0),
    );
    lines.add("rejected_connections", stats.rejected_connections);
    lines.add("expired_keys", stats.expired);
    lines.add("evicted_keys", stats.evicted);
    lines.add("keyspace_hits", stats.hits);
    lines.add("keyspace_misses", stats.misses);
    lines.add("total_error_replies", stats.errors.values().sum::<u64>());
    lines.add("total_reads_processed", stats.reads);
    lines.add("total_writes_processed", stats.writes);
    lines.add(
        "client_query_buffer_limit_disconnections",
        stats.query_buffer_limit_closed,
    );
    lines.add(
        "client_output_buffer_limit_disconnections",
        stats.output_buffer_limit_closed,
    );
    lines.add("request_batches", stats.batches);
}

fn replication(call: &Call<'_>, lines: &mut Lines) {
    lines.add("role", "master");
    lines.add("connected_slaves", 0);
    lines.add("master_replid", &call.shared.run_id);
    lines.add("master_repl_offset", 0);
}

fn cpu(_: &Call<'_>, lines: &mut Lines) {
    let (user_s, system_s) = cpu_seconds();
    lines.add("used_cpu_sys", format_args!("{system_s:.6}"));
    lines.add("used_cpu_user", format_args!("{user_s:.6}"));
}

/// Seconds that the process has computed, and the kernel for it; 0 where the system does not say.
fn cpu_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in parentheses and may hold anything; user and system time are the
    // twelfth and thirteenth field after it.
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let seconds = |index: usize| {
        let ticks = fields
            .get(index)
            .and_then(|ticks| ticks.parse::<u64>().ok())
            .unwrap_or(0);
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    };
    (seconds(11), seconds(12))
}

fn commandstats(call: &Call<'_>, lines: &mut Lines) {
    for (listed, calls) in call.shared.catalog.iter().zip(&call.shared.stats.calls) {
        if calls.calls + calls.rejected > 0 {
            let (name, spent_us) = (&listed.full_name, calls.spent_ns as f64 / 1000.0);
            lines.write(format_args!(
                "cmdstat_{name}:calls={},usec={:.0},usec_per_call={:.2},rejected_calls={},failed_calls={}\r\n",
                calls.calls,
                spent_us,
                spent_us / calls.calls.max(1) as f64,
                calls.rejected,
                calls.failed,
            ));
        }
    }
}

fn errorstats(call: &Call<'_>, lines: &mut Lines) {
    for (word, count) in &call.shared.stats.errors {
        lines.write(format_args!("errorstat_{word}:count={count}\r\n"));
    }
}

fn cluster(_: &Call<'_>, lines: &mut Lines) {
    lines.add("cluster_enabled", 0);
}

fn keyspace(call: &Call<'_>, lines: &mut Lines) {
    for id in 0..DATABASES as DbId {
        let (keys, expires) = (call.keyspace.len_of(id), call.keyspace.expiring_of(id));
        if keys > 0 {
            lines.write(format_args!(
                "db{id}:keys={keys},expires={expires},avg_ttl=0\r\n"
            ));
        }
    }
}

/// Where records are, which Redis does not know.
fn tiers(call: &Call<'_>, lines: &mut Lines) {
    let report = call.keyspace.report();
    // 0 is no memory, as in the settings.
    let near_limit = Some(report.near.limit_bytes).filter(|bytes| *bytes < u64::MAX);
    let tiers = [
        ("near", report.near, near_limit),
        ("far", report.far, call.shared.config.far_memory),
    ];
    for (name, used, limit) in tiers {
        lines.write(format_args!(
            "{name}_records:{}\r\n{name}_used_bytes:{}\r\n{name}_held_bytes:{}\r\n{name}_limit_bytes:{}\r\n",
            used.objects, used.object_bytes, used.held_bytes, limit_shown(limit),
        ));
    }
    lines.add("far_source", &call.shared.config.far);
    lines.add("table_bytes", report.table_bytes);
    lines.add("far_table_bytes", report.far_table_bytes);
    lines.add("windows", report.windows.windows);
    lines.add("window_keys", report.windows.keys);
    lines.add("prefetched_near", report.windows.fetched_near);
    lines.add("prefetched_far", report.windows.fetched_far);
    lines.add("migrated_to_near", report.migrations.to_near);
    lines.add("migrated_to_far", report.migrations.to_far);
    lines.add("migrated_bytes", report.migrations.bytes);
    lines.add("migrations_refused", report.migrations.refused);
    lines.add("compacted_records", report.migrations.compacted);
}
