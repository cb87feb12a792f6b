//! Settings of placement, live: limits of the tiers are told as they are written (bytes, `all` where there is none, 0 where nothing
//! may be there), and several change together or not at all.

use crate::support::{Client, Reply, Tierra};

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn shown(client: &mut Client, name: &str) -> Reply {
    match client.ask(&format!("CONFIG GET {name}")) {
        Reply::Array(mut pair) => pair.remove(1),
        other => panic!("expected a pair, got {other:?}"),
    }
}

fn info(client: &mut Client) -> String {
    match client.ask("INFO tiers") {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("expected text, got {other:?}"),
    }
}

#[test]
fn no_limit_is_all_and_nothing_is_0() {
    let server = Tierra::start("");
    let mut client = server.connect();
    for (value, told) in [("", "all"), ("0", "0"), ("8mb", "8388608"), ("ALL", "all")] {
        if !value.is_empty() {
            let set = client.ask(&format!("CONFIG SET near-memory {value}"));
            assert_eq!(set, Reply::Simple("OK".into()), "{value}");
        }
        assert_eq!(shown(&mut client, "near-memory"), bulk(told));
        let info = info(&mut client);
        assert!(
            info.contains(&format!("near_limit_bytes:{told}\r\n")),
            "{info}"
        );
        assert!(info.contains("far_limit_bytes:all\r\n"), "{info}");
    }
    assert_eq!(shown(&mut client, "far-memory"), bulk("all"));
}

#[test]
fn a_tier_of_no_memory_has_no_records() {
    for (settings, full) in [
        ("--far-memory 0 --memory-alloc-policy only-pmem", "far"),
        ("--near-memory 0 --memory-alloc-policy only-dram", "near"),
    ] {
        let server = Tierra::start(settings);
        let mut client = server.connect();
        let other = if full == "far" { "near" } else { "far" };
        for key in 0..100 {
            assert_eq!(
                client.ask(&format!("SET k{key} v")),
                Reply::Simple("OK".into())
            );
            assert_eq!(client.ask(&format!("OBJECT TIER k{key}")), bulk(other));
        }
        assert_eq!(shown(&mut client, &format!("{full}-memory")), bulk("0"));
        let info = info(&mut client);
        for line in [
            format!("{full}_records:0\r\n"),
            format!("{full}_limit_bytes:0\r\n"),
            format!("{other}_limit_bytes:all\r\n"),
        ] {
            assert!(info.contains(&line), "{line} is not in\n{info}");
        }
    }
}

#[test]
fn settings_that_belong_together_change_together_or_not_at_all() {
    let server = Tierra::start("");
    let mut client = server.connect();
    let (least, most) = ("dynamic-threshold-min", "dynamic-threshold-max");
    let set = client.ask(&format!("CONFIG SET {least} 20000 {most} 30000"));
    assert_eq!(set, Reply::Simple("OK".into()), "in either order");
    let thresholds = |client: &mut Client| (shown(client, least), shown(client, most));
    let expected = (bulk("20000"), bulk("30000"));
    assert_eq!(thresholds(&mut client), expected);
    let near = "argument must be a memory value, or 'all'";
    let above = "20000 is above dynamic-threshold-max, which is 10";
    for (request, about, why) in [
        (
            format!("CONFIG SET hz 20 {most} 40000 near-memory lots"),
            "near-memory",
            near,
        ),
        (format!("CONFIG SET hz 20 {most} 10"), least, above),
    ] {
        let error =
            format!("ERR CONFIG SET failed (possibly related to argument '{about}') - {why}");
        assert_eq!(client.ask(&request), Reply::Error(error));
        assert_eq!(thresholds(&mut client), expected);
        assert_eq!(shown(&mut client, "hz"), bulk("10"));
    }
}
