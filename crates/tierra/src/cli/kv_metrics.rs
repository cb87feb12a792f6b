//! The metrics of `tierra kv`. docs/monitoring.md says what each means.

use tierra_http::metrics::{Kind, Text, build_info};
use tierra_kv::Numbers;

/// Writes them.
pub(super) fn write(numbers: &Numbers, text: &mut Text) {
    build_info(text);
    let report = &numbers.report;
    for (name, kind, help, value) in [
        (
            "tierra_kv_clients",
            Kind::Gauge,
            "Connected clients.",
            numbers.clients,
        ),
        (
            "tierra_kv_keys",
            Kind::Gauge,
            "Keys of all databases.",
            numbers.keys,
        ),
        (
            "tierra_kv_table_bytes",
            Kind::Gauge,
            "Bytes of hash tables, orders and queues.",
            report.table_bytes,
        ),
        (
            "tierra_kv_connections",
            Kind::Counter,
            "Connections accepted.",
            numbers.connections,
        ),
        (
            "tierra_kv_rejected_connections",
            Kind::Counter,
            "Connections turned away.",
            numbers.rejected_connections,
        ),
        (
            "tierra_kv_commands",
            Kind::Counter,
            "Commands executed.",
            numbers.commands,
        ),
        (
            "tierra_kv_errors",
            Kind::Counter,
            "Errors replied.",
            numbers.errors,
        ),
        (
            "tierra_kv_input_bytes",
            Kind::Counter,
            "Bytes of requests.",
            numbers.input_bytes,
        ),
        (
            "tierra_kv_output_bytes",
            Kind::Counter,
            "Bytes of replies.",
            numbers.output_bytes,
        ),
        (
            "tierra_kv_hits",
            Kind::Counter,
            "Keys that were found.",
            numbers.hits,
        ),
        (
            "tierra_kv_misses",
            Kind::Counter,
            "Keys that were not found.",
            numbers.misses,
        ),
        (
            "tierra_kv_expired_keys",
            Kind::Counter,
            "Keys that expired.",
            numbers.expired,
        ),
        (
            "tierra_kv_evicted_keys",
            Kind::Counter,
            "Keys that were evicted.",
            numbers.evicted,
        ),
        (
            "tierra_kv_windows",
            Kind::Counter,
            "Groups of keys that were looked up together.",
            report.windows.windows,
        ),
        (
            "tierra_kv_window_keys",
            Kind::Counter,
            "Keys in these groups.",
            report.windows.keys,
        ),
        (
            "tierra_kv_migrated_bytes",
            Kind::Counter,
            "Bytes of records that were moved, within a tier too.",
            report.migrations.bytes,
        ),
        (
            "tierra_kv_migrations_refused",
            Kind::Counter,
            "Hot records that stayed far, because near memory was full or enough had moved.",
            report.migrations.refused,
        ),
    ] {
        text.family(name, kind, help);
        text.sample(&[], value);
    }
    let (near, far) = (report.near, report.far);
    for (name, kind, help, of_near, of_far) in [
        (
            "tierra_kv_records",
            Kind::Gauge,
            "Records, by the speed of their memory.",
            near.objects,
            far.objects,
        ),
        (
            "tierra_kv_used_bytes",
            Kind::Gauge,
            "Bytes of records, each rounded up to its size class.",
            near.object_bytes,
            far.object_bytes,
        ),
        (
            "tierra_kv_held_bytes",
            Kind::Gauge,
            "Bytes of the pages that hold them.",
            near.held_bytes,
            far.held_bytes,
        ),
        (
            "tierra_kv_prefetched_records",
            Kind::Counter,
            "Records fetched ahead of their use.",
            report.windows.fetched_near,
            report.windows.fetched_far,
        ),
        (
            "tierra_kv_migrated_records",
            Kind::Counter,
            "Records that were moved to memory of this speed.",
            report.migrations.to_near,
            report.migrations.to_far,
        ),
    ] {
        text.family(name, kind, help);
        text.sample(&[("speed", "near")], of_near);
        text.sample(&[("speed", "far")], of_far);
    }
    text.family(
        "tierra_kv_limit_bytes",
        Kind::Gauge,
        "Bytes of pages that records may hold, where there is a limit.",
    );
    for (speed, tier) in [("near", near), ("far", far)] {
        if tier.limit_bytes < u64::MAX {
            text.sample(&[("speed", speed)], tier.limit_bytes);
        }
    }
}
