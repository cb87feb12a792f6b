//! What the server promises to clients that behave.

use crate::support::{Client, Reply, Tierra, bulk, error, ok, text, until};

#[test]
fn a_pipeline_sees_its_own_changes() {
    let server = Tierra::start("");
    let mut client = server.connect();
    client.send_bytes(b"SET k 1\r\nGET k\r\nDEL k\r\nGET k\r\nSET k 2\r\nRENAME k l\r\nGET k\r\nGET l\r\nFLUSHALL\r\nGET l\r\n");
    let expected = [
        ok(),
        bulk("1"),
        Reply::Integer(1),
        Reply::Null,
        ok(),
        ok(),
        Reply::Null,
        bulk("2"),
        ok(),
        Reply::Null,
    ];
    for reply in expected {
        assert_eq!(client.receive(), reply);
    }
}

#[test]
fn pipelines_of_any_length_are_answered_in_order() {
    let server = Tierra::start("");
    let (mut one, mut other) = (server.connect(), server.connect());
    let requests = |who: &str| {
        (0..1000)
            .map(|n| format!("SET {who}{n} {n}\r\nGET {who}{n}\r\nMGET {who}0 {who}{n}\r\n"))
            .collect::<String>()
    };
    one.send_bytes(requests("a").as_bytes());
    other.send_bytes(requests("b").as_bytes());
    for client in [&mut one, &mut other] {
        for n in 0..1000 {
            assert_eq!(client.receive(), ok());
            assert_eq!(client.receive(), bulk(&n.to_string()));
            assert_eq!(
                client.receive(),
                Reply::Array(vec![bulk("0"), bulk(&n.to_string())])
            );
        }
    }
}

#[test]
fn as_many_keys_as_one_likes_are_looked_up_at_once() {
    let server = Tierra::start("");
    let mut client = server.connect();
    let (mut mset, mut mget) = ("MSET".to_string(), "MGET missing".to_string());
    for n in 0..1000 {
        mset += &format!(" k{n} {n}");
        mget += &format!(" k{n}");
    }
    assert_eq!(client.ask(&mset), ok());
    let expected = std::iter::once(Reply::Null).chain((0..1000).map(|n| bulk(&n.to_string())));
    assert_eq!(client.ask(&mget), Reply::Array(expected.collect()));
    assert_eq!(
        client.ask(&mget.replace("MGET", "DEL")),
        Reply::Integer(1000)
    );
}

#[test]
fn as_many_members_as_one_likes_are_sorted_by_their_keys() {
    let server = Tierra::start("");
    let mut client = server.connect();
    // 7 and 1000 have no divisor in common: each weight comes once.
    let weight = |member: usize| member * 7 % 1000;
    for member in 0..1000 {
        client.ask(&format!("ZADD set 0 {member}"));
        client.ask(&format!("SET w:{member} {}", weight(member)));
        client.ask(&format!("HSET h:{member} f {member}"));
    }
    let mut members: Vec<usize> = (0..1000).collect();
    members.sort_by_key(|&member| std::cmp::Reverse(weight(member)));
    let expected = members[10..990].iter().flat_map(|&member| {
        let weight = bulk(&weight(member).to_string());
        [weight, Reply::Null, bulk(&member.to_string())]
    });
    let sort = "SORT set BY w:* DESC LIMIT 10 980 GET w:* GET none:* GET h:*->f";
    assert_eq!(client.ask(sort), Reply::Array(expected.collect()));
    let why = "ERR SORT with STORE makes a list, which Tierra does not have: without STORE the elements are replied";
    assert_eq!(client.ask("SORT set STORE list"), error(why));
    assert_eq!(client.ask("EXISTS list"), Reply::Integer(0));
}

#[test]
fn large_values_come_back_whole_and_in_pieces() {
    let server = Tierra::start("");
    let mut client = server.connect();
    let value: Vec<u8> = (0..5_000_000u32)
        .map(|n| (n * 7 + n / 1000) as u8)
        .collect();
    client.send(&[vec![b"SET".to_vec(), b"large".to_vec(), value.clone()]]);
    assert_eq!(client.receive(), ok());
    assert_eq!(client.ask("GET large"), Reply::Bulk(value.clone()));
    assert_eq!(
        client.ask("GETRANGE large 4999999 -1"),
        Reply::Bulk(value[4_999_999..].to_vec())
    );
}

#[test]
fn requests_may_arrive_byte_by_byte() {
    let server = Tierra::start("");
    let mut client = server.connect();
    for byte in b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\nal\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" {
        client.send_bytes(&[*byte]);
    }
    assert_eq!(client.receive(), ok());
    assert_eq!(client.receive(), bulk("v\r\nal"));
}

#[test]
fn both_protocols_are_spoken() {
    let server = Tierra::start("");
    let mut client = server.connect();
    client.ask("ZADD z 1.5 a 2 b");
    client.ask("HSET h f v");
    assert!(matches!(client.ask("HELLO 3"), Reply::Map(fields) if fields[5] == Reply::Integer(3)));
    assert_eq!(
        client.ask("HGETALL h"),
        Reply::Map(vec![bulk("f"), bulk("v")])
    );
    assert_eq!(client.ask("ZSCORE z a"), Reply::Double("1.5".into()));
    let pair =
        |member: &str, score: &str| Reply::Array(vec![bulk(member), Reply::Double(score.into())]);
    assert_eq!(
        client.ask("ZRANGE z 0 -1 WITHSCORES"),
        Reply::Array(vec![pair("a", "1.5"), pair("b", "2")])
    );
    assert_eq!(client.ask("GET missing"), Reply::Null);
    assert!(
        matches!(client.ask("HELLO 2"), Reply::Array(fields) if fields[5] == Reply::Integer(2))
    );
    assert_eq!(
        client.ask("HGETALL h"),
        Reply::Array(vec![bulk("f"), bulk("v")])
    );
}

#[test]
fn transactions_fail_when_what_they_watch_has_changed() {
    let server = Tierra::start("");
    let (mut one, mut other) = (server.connect(), server.connect());
    let change = |change: &str, one: &mut Client, other: &mut Client| {
        for request in ["SELECT 0", "FLUSHALL", "SET k 1", "WATCH k missing"] {
            assert_eq!(one.ask(request), ok(), "{request}");
        }
        other.ask(change);
        for (request, reply) in [("MULTI", "OK"), ("INCR n", "QUEUED"), ("INCR n", "QUEUED")] {
            assert_eq!(one.ask(request), Reply::Simple(reply.into()));
        }
        one.ask("EXEC")
    };
    let done = Reply::Array(vec![Reply::Integer(1), Reply::Integer(2)]);
    for (request, reply) in [
        ("GET k", &done),
        ("SET other 1", &done),
        ("SET k 2", &Reply::Null),
        ("DEL k", &Reply::Null),
        ("SET missing 1", &Reply::Null),
        ("EXPIRE k 100", &Reply::Null),
        ("PEXPIREAT k 1", &Reply::Null),
        ("FLUSHALL", &Reply::Null),
        ("SWAPDB 0 1", &Reply::Null),
        ("COPY k missing", &Reply::Null),
        ("RENAME k missing", &Reply::Null),
    ] {
        assert_eq!(&change(request, &mut one, &mut other), reply, "{request}");
    }
    // The watch of a key ends with the transaction.
    one.send_bytes(b"SET k 1\r\nWATCH k\r\nMULTI\r\nEXEC\r\nSET k 2\r\nMULTI\r\nGET k\r\nEXEC\r\n");
    let replies: Vec<Reply> = (0..8).map(|_| one.receive()).collect();
    assert_eq!(replies[7], Reply::Array(vec![bulk("2")]));
}

#[test]
fn keys_expire_whether_anyone_looks_or_not() {
    let server = Tierra::start("--hz 100");
    let mut client = server.connect();
    for n in 0..2000 {
        client.send_bytes(format!("SET k{n} v PX 1\r\n").as_bytes());
    }
    for _ in 0..2000 {
        assert_eq!(client.receive(), ok());
    }
    client.ask("SET stays v EX 1000");
    until("the others have expired", || {
        client.ask("DBSIZE") == Reply::Integer(1)
    });
    assert_eq!(client.ask("GET k7"), Reply::Null);
    assert!(text(client.ask("INFO keyspace")).contains("db0:keys=1,expires=1"));
}

#[test]
fn few_of_many_are_chosen_and_none_twice() {
    let server = Tierra::start("");
    let mut client = server.connect();
    let words = |name: &str, pair: &dyn Fn(u32) -> String| {
        let all: String = (0..1000).map(|n| format!(" {}", pair(n))).collect();
        format!("{name} {name}{all}")
    };
    assert_eq!(
        client.ask(&words("HSET", &|n| format!("f{n} v{n}"))),
        Reply::Integer(1000)
    );
    assert_eq!(
        client.ask(&words("ZADD", &|n| format!("{n} m{n}"))),
        Reply::Integer(1000)
    );
    for count in [1, 7, 249, 250, 999, 1000, 5000] {
        for (request, first) in [("HRANDFIELD HSET", "f"), ("ZRANDMEMBER ZADD", "m")] {
            let Reply::Array(mut chosen) = client.ask(&format!("{request} {count}")) else {
                panic!("an array")
            };
            assert_eq!(chosen.len(), count.min(1000));
            assert!(chosen.iter().all(
                |name| matches!(name, Reply::Bulk(name) if name.starts_with(first.as_bytes()))
            ));
            chosen.sort();
            chosen.dedup();
            assert_eq!(chosen.len(), count.min(1000));
        }
    }
}
