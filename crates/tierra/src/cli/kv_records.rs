//! The numbers of `tierra kv`, for Prometheus and for its page. docs/monitoring.md says what each means.

use tierra_http::Records;
use tierra_http::metrics::{Kind, Text, build_info};
use tierra_kv::{Numbers, NumbersReader};

/// What begins the name of each metric.
const PREFIX: &str = "tierra_kv_";
const SPEEDS: [&str; 2] = ["near", "far"];

/// Numbers of one kind.
struct Family {
    /// With [`PREFIX`].
    name: &'static str,
    kind: Kind,
    help: &'static str,
    of: Of,
}

/// What the numbers of a family are of.
enum Of {
    All(u64),
    /// By the speed of memory. `None`: no limit.
    Speeds([Option<u64>; 2]),
}

/// The numbers of a running server.
pub(super) struct KvRecords(pub(super) NumbersReader);

impl Records for KvRecords {
    fn write_metrics(&self, text: &mut Text) {
        build_info(text);
        for family in families(&self.0.read()) {
            text.family(family.name, family.kind, family.help);
            match family.of {
                Of::All(value) => text.sample(&[], value),
                Of::Speeds(values) => {
                    for (speed, value) in SPEEDS.into_iter().zip(values) {
                        if let Some(value) = value {
                            text.sample(&[("speed", speed)], value);
                        }
                    }
                }
            }
        }
    }

    fn names(&self) -> Vec<String> {
        let families = families(&Numbers::default());
        let names = families.iter().flat_map(|family| {
            let name = family.name.trim_start_matches(PREFIX);
            match family.of {
                Of::All(_) => vec![name.to_string()],
                Of::Speeds(_) => SPEEDS.map(|speed| format!("{speed}_{name}")).into(),
            }
        });
        names.collect()
    }

    /// Zero stands for no limit.
    fn sample(&self) -> Vec<u64> {
        let families = families(&self.0.read());
        let numbers = families.iter().flat_map(|family| match family.of {
            Of::All(value) => vec![value],
            Of::Speeds(values) => values.map(Option::unwrap_or_default).into(),
        });
        numbers.collect()
    }
}

fn families(numbers: &Numbers) -> Vec<Family> {
    let report = &numbers.report;
    let all = [
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
    ];
    let (near, far) = (report.near, report.far);
    let limits = [near, far].map(|tier| Some(tier.limit_bytes).filter(|limit| *limit < u64::MAX));
    let by_speed = [
        (
            "tierra_kv_records",
            Kind::Gauge,
            "Records, by the speed of their memory.",
            [Some(near.objects), Some(far.objects)],
        ),
        (
            "tierra_kv_used_bytes",
            Kind::Gauge,
            "Bytes of records, each rounded up to its size class.",
            [Some(near.object_bytes), Some(far.object_bytes)],
        ),
        (
            "tierra_kv_held_bytes",
            Kind::Gauge,
            "Bytes of the pages that hold them.",
            [Some(near.held_bytes), Some(far.held_bytes)],
        ),
        (
            "tierra_kv_prefetched_records",
            Kind::Counter,
            "Records fetched ahead of their use.",
            [
                Some(report.windows.fetched_near),
                Some(report.windows.fetched_far),
            ],
        ),
        (
            "tierra_kv_migrated_records",
            Kind::Counter,
            "Records that were moved to memory of this speed.",
            [
                Some(report.migrations.to_near),
                Some(report.migrations.to_far),
            ],
        ),
        (
            "tierra_kv_limit_bytes",
            Kind::Gauge,
            "Bytes of pages that records may hold, where there is a limit.",
            limits,
        ),
    ];
    let all = all.map(|(name, kind, help, value)| (name, kind, help, Of::All(value)));
    let by_speed =
        by_speed.map(|(name, kind, help, values)| (name, kind, help, Of::Speeds(values)));
    let families = all.into_iter().chain(by_speed);
    let families = families.map(|(name, kind, help, of)| Family {
        name,
        kind,
        help,
        of,
    });
    families.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_asks_for_numbers_that_there_are() {
        let names = KvRecords(NumbersReader::default()).names();
        assert_eq!(
            names.len(),
            KvRecords(NumbersReader::default()).sample().len()
        );
        let page = include_str!("../../../tierra-http/page/kv.js");
        let asked = page.split('"').skip(1).step_by(2);
        let numbers = asked.filter(|text| {
            text.contains('_')
                || [
                    "commands",
                    "errors",
                    "hits",
                    "misses",
                    "keys",
                    "windows",
                    "connections",
                    "clients",
                ]
                .contains(text)
        });
        let mut count = 0;
        for name in numbers {
            assert!(names.iter().any(|known| known == name), "{name}");
            count += 1;
        }
        assert!(count > 20, "{count}");
    }
}
