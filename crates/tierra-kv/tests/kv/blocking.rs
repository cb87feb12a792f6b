//! Clients that wait for a sorted set, or for the end of a pause: who is served with what, in which order, as Redis 7.0 does it.
//!
//! Nothing here waits for time to pass: a client is waited for until the server says that it waits, or until it has its reply.

use std::io::Write;

use crate::random::{Random, setting};
use crate::support::{Client, Redis, Reply, Tierra, assert_alive, bulk, error, ok, text, until};

fn words(request: &str) -> Vec<Vec<u8>> {
    let words = request.split(' ');
    words.map(|word| word.as_bytes().to_vec()).collect()
}

/// A key with its member and score, as BZPOPMIN replies with them.
fn popped(key: &str, member: &str, score: &str) -> Reply {
    Reply::Array(vec![bulk(key), bulk(member), bulk(score)])
}

/// Turns until so many clients wait.
fn until_blocked(control: &mut Client, count: usize) {
    let expected = format!("blocked_clients:{count}\r");
    until("so many wait", || {
        text(control.ask("INFO clients")).contains(&expected)
    });
}

/// Clients of one server, of which some wait.
struct Side {
    connect: Box<dyn Fn() -> Client>,
    control: Client,
    clients: Vec<Client>,
    ids: Vec<i64>,
    /// How many replies each has to get.
    owed: Vec<usize>,
}

impl Side {
    fn new(connect: Box<dyn Fn() -> Client>, count: usize) -> Self {
        let mut side = Self {
            control: connect(),
            connect,
            clients: Vec::new(),
            ids: Vec::new(),
            owed: vec![0; count],
        };
        for at in 0..count {
            side.clients.push((side.connect)());
            side.ids.push(0);
            side.begin(at);
        }
        side
    }

    /// Those with odd numbers speak RESP3.
    fn begin(&mut self, at: usize) {
        self.ids[at] = self.clients[at].id();
        if at % 2 == 1 {
            self.clients[at].ask("HELLO 3");
        }
    }

    /// A client goes, and another one comes instead.
    fn replace(&mut self, at: usize) {
        self.clients[at] = (self.connect)();
        let gone = format!("CLIENT LIST ID {}", self.ids[at]);
        until("it has gone", || {
            !text(self.control.ask(&gone)).contains("id=")
        });
        self.owed[at] = 0;
        self.begin(at);
    }

    fn send(&mut self, at: usize, requests: &[String]) {
        // As the number of the client that is meant is here.
        let requests = requests.iter().map(|request| {
            let mut request = request.clone();
            for (at, id) in self.ids.iter().enumerate() {
                request = request.replace(&format!("@{at}"), &id.to_string());
            }
            words(&request)
        });
        let requests: Vec<_> = requests.collect();
        self.owed[at] += requests.len();
        self.clients[at].send(&requests);
    }

    /// Everything that is replied until nothing more happens, and who waits then.
    fn settle(&mut self) -> (Vec<Vec<Reply>>, Vec<bool>) {
        let mut replies = vec![Vec::new(); self.clients.len()];
        let mut was_quiet = false;
        loop {
            let list = text(self.control.ask("CLIENT LIST"));
            let waits = |id: &i64| {
                let mut lines = list.lines();
                let line = lines.find(|line| line.starts_with(&format!("id={id} ")));
                let line = line.unwrap_or_else(|| panic!("{id} is not in\n{list}"));
                let (_, flags) = line.split_once("flags=").unwrap();
                flags.split(' ').next().unwrap().contains('b')
            };
            let waiting: Vec<bool> = self.ids.iter().map(waits).collect();
            let mut quiet = true;
            for (at, client) in self.clients.iter_mut().enumerate() {
                while self.owed[at] > 0 && client.has_reply() {
                    replies[at].push(client.receive());
                    self.owed[at] -= 1;
                    quiet = false;
                }
                quiet &= self.owed[at] == 0 || waiting[at];
            }
            // Replies may be written behind a list that was made after them, but not behind two.
            if quiet && was_quiet {
                let count = waiting.iter().filter(|waits| **waits).count();
                let info = text(self.control.ask("INFO clients"));
                assert!(
                    info.contains(&format!("blocked_clients:{count}\r")),
                    "{info}"
                );
                return (replies, waiting);
            }
            was_quiet = quiet;
        }
    }
}

/// Small letters stand for: `k` a key, `z` a key that is a sorted set or nothing, `m` a member, `d` a score, `b` a database,
/// `j` another client.
const REQUESTS: &[&str] = &[
    "ZADD k d m",
    "ZADD k d m",
    "ZADD k d m",
    "ZADD k d m d m d m",
    "ZADD k d m d m d m d m d m",
    "ZADD z d m d m",
    "ZINCRBY k d m",
    "ZREM k m",
    "ZPOPMIN k",
    "ZRANGE k 0 -1",
    "DEL k k z",
    "SET k v",
    "GET k",
    "RENAME k k",
    "RENAME z k",
    "COPY k k REPLACE",
    "COPY k k DB b REPLACE",
    "MOVE k b",
    "ZUNIONSTORE z 2 k k",
    "ZRANGESTORE z k 0 1",
    "SELECT b",
    "FLUSHALL",
    "WATCH k",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "CLIENT UNBLOCK j",
    "CLIENT UNBLOCK j TIMEOUT",
    "CLIENT UNBLOCK j ERROR",
    "INCR k",
];

const WAITING: &[&str] = &[
    "BZPOPMIN k 0",
    "BZPOPMIN k k k 1000",
    "BZPOPMAX k k 0",
    "BZPOPMAX z k 1000.5",
    "BZPOPMIN z 0",
    "BZMPOP 0 1 k MIN",
    "BZMPOP 1000 2 z k MAX COUNT 2",
    "BZMPOP 0 3 k k k MIN COUNT 10",
];

fn draw(random: &mut Random, templates: &[&str], clients: usize) -> String {
    let words: Vec<String> = random
        .one_of(templates)
        .split(' ')
        .map(|word| match word {
            "k" => format!("k{}", random.below(3)),
            "z" => format!("z{}", random.below(2)),
            "m" => format!("m{}", random.below(5)),
            "d" => random.below(4).to_string(),
            "b" => random.below(2).to_string(),
            "j" => format!("@{}", random.below(clients)),
            other => other.into(),
        })
        .collect();
    words.join(" ")
}

#[test]
fn waiting_clients_are_served_as_redis_serves_them() {
    const CLIENTS: usize = 6;
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    let (their_path, our_path) = (redis.folder.path().join("redis.sock"), tierra.path.clone());
    let seed = setting("TIERRA_KV_SEED", 1);
    let mut random = Random(seed);
    for round in 0..setting("TIERRA_KV_ROUNDS", 60).div_ceil(3) {
        let mut log = Vec::new();
        let paths = [their_path.clone(), our_path.clone()];
        let mut sides = paths.map(|path| {
            let connect = move || Client::connect(&path);
            let mut side = Side::new(Box::new(connect), CLIENTS);
            assert_eq!(side.control.ask("FLUSHALL"), ok());
            side
        });
        let (mut waiting, mut is_paused) = (vec![false; CLIENTS], false);
        for _ in 0..50 {
            let at = random.below(CLIENTS);
            if random.below(12) == 0 {
                let (request, pauses) = match random.below(3) {
                    0 => ("CLIENT PAUSE 1000000 WRITE", true),
                    _ => ("CLIENT UNPAUSE", false),
                };
                log.push(request.into());
                is_paused = pauses;
                for side in &mut sides {
                    assert_eq!(side.control.ask(request), ok());
                }
            } else if waiting[at] {
                // Sometimes it leaves instead of waiting.
                if random.below(4) == 0 {
                    log.push(format!("{at} leaves"));
                    sides.iter_mut().for_each(|side| side.replace(at));
                }
            } else {
                // What is behind a request that may wait has no effect: Redis goes on with one client after another, Tierra by batches.
                let plain = random.below(4);
                let mut requests: Vec<String> = (0..plain)
                    .map(|_| draw(&mut random, REQUESTS, CLIENTS))
                    // Redis ends where this meets a client whose request waits for the end of a pause.
                    .filter(|request| !(is_paused && request.starts_with("CLIENT UNBLOCK")))
                    .collect();
                if random.below(3) > 0 {
                    requests.push(draw(&mut random, WAITING, CLIENTS));
                    let pings = random.below(3);
                    requests.extend((0..pings).map(|_| "PING".into()));
                }
                log.push(format!("{at}: {}", requests.join(" | ")));
                sides.iter_mut().for_each(|side| side.send(at, &requests));
            }
            let [theirs, ours] = sides.each_mut().map(Side::settle);
            let told = || format!("seed {seed}, round {round}\n{}", log.join("\n"));
            assert_eq!(
                ours,
                theirs,
                "Tierra on the left, Redis on the right\n{}",
                told()
            );
            waiting = ours.1;
        }
        for side in &mut sides {
            assert_eq!(side.control.ask("CLIENT UNPAUSE"), ok());
        }
    }
}

#[test]
fn a_conversation_between_three_goes_as_with_redis() {
    let Some(redis) = Redis::start() else {
        println!("redis-server 7.0 is not on the path: nothing is compared");
        return;
    };
    let tierra = Tierra::start("");
    let (their_path, our_path) = (redis.folder.path().join("redis.sock"), tierra.path.clone());
    for script in [
        // What two keys were first decides, and a transaction is served at its end.
        "0 BZMPOP 0 2 q k MAX COUNT 3|1 BZPOPMIN k 0|2 MULTI|2 SET q x|2 DEL q|2 ZADD k 1 a 2 b|2 ZADD q 3 c|2 EXEC|2 ZADD k 1 x",
        // What another type has does not wake, and what becomes a set by another name does.
        "0 BZPOPMIN k 0|2 SET k v|2 HSET k f v|2 ZADD z 1 m|2 RENAME z k|0 BZPOPMAX k z 0|2 SELECT 1|2 ZADD k 2 n|2 MOVE k 0|\
            0 BZPOPMAX k 0|2 ZADD k 3 n|2 SWAPDB 0 1|0 BZPOPMIN k 0|1 SELECT 1|1 ZADD z 5 m|1 COPY z k DB 0",
        "0 SET k v|0 BZPOPMIN none k 0|0 BZPOPMIN none k x|0 BZMPOP 0 2 none k MIN|0 MULTI|0 BZPOPMIN none 0|0 BZMPOP 0 1 none MIN|\
            0 BZPOPMIN k 0|0 BZPOPMIN none x|0 EXEC",
        // What is taken at once and later touches what others watch.
        "1 WATCH k|0 BZPOPMIN k 0|2 ZADD k 1 m|1 MULTI|1 PING|1 EXEC|2 ZADD k 1 m|1 WATCH k|0 BZPOPMIN k 0|1 MULTI|1 PING|1 EXEC",
        "0 BZPOPMIN k 0|1 CLIENT UNBLOCK @0|0 BZPOPMIN k 0|1 CLIENT UNBLOCK @0 ERROR|1 CLIENT UNBLOCK @0|1 CLIENT UNBLOCK @1|\
            1 BZMPOP 0 1 k MIN|0 CLIENT UNBLOCK @1 timeout|1 INFO errorstats",
        // Reads go on in a pause, mistakes are told at once, and what waits is done in order.
        "2 CLIENT PAUSE 1000000 WRITE|0 GET k|0 SET k|0 NOTHING|0 SET k v|1 MULTI|1 GET k|1 EXEC|1 GETSET k w|2 GET k|2 CLIENT UNPAUSE|2 GET k",
        "0 MULTI|0 SET k v|1 MULTI|1 GET k|2 CLIENT PAUSE 1000000 write|1 EXEC|0 EXEC|1 MULTI|1 SET k w|2 CLIENT UNPAUSE|1 EXEC",
        "0 BZPOPMIN none 0|2 CLIENT PAUSE 1000000 WRITE|1 BZPOPMIN other 0|2 CLIENT UNBLOCK @0|2 CLIENT UNPAUSE|2 CLIENT UNBLOCK @1|\
            2 CLIENT PAUSE -1|2 CLIENT PAUSE x y|2 CLIENT PAUSE 1 write all|2 CLIENT PAUSE|2 CLIENT UNPAUSE x|2 CLIENT PAUSE 9223372036854775807|2 PING",
    ] {
        let paths = [their_path.clone(), our_path.clone()];
        let mut sides = paths.map(|path| {
            let connect = move || Client::connect(&path);
            let mut side = Side::new(Box::new(connect), 3);
            for request in ["FLUSHALL", "CONFIG RESETSTAT"] {
                assert_eq!(side.control.ask(request), ok());
            }
            side
        });
        for request in script.split('|').map(str::trim_start) {
            let (at, words) = request.split_once(' ').unwrap();
            let at = at.parse().unwrap();
            let [theirs, ours] = sides.each_mut().map(|side| {
                side.send(at, &[words.into()]);
                side.settle()
            });
            assert_eq!(ours, theirs, "{request} of {script}");
        }
    }
}

#[test]
fn who_wants_no_reply_is_served_without_one() {
    let server = Tierra::start("");
    let (mut waits, mut client) = (server.connect(), server.connect());
    for (off, on) in [("SKIP", ""), ("OFF", "CLIENT REPLY ON\r\n")] {
        waits
            .send_bytes(format!("CLIENT REPLY {off}\r\nBZPOPMIN k 0\r\n{on}ECHO x\r\n").as_bytes());
        until_blocked(&mut client, 1);
        assert_eq!(client.ask("ZADD k 1 m"), Reply::Integer(1));
        assert_eq!(client.ask("EXISTS k"), Reply::Integer(0), "{off}");
        if !on.is_empty() {
            assert_eq!(waits.receive(), ok());
        }
        assert_eq!(waits.receive(), bulk("x"), "{off}");
    }
}

#[test]
fn of_many_that_wait_each_is_served_in_its_turn() {
    const WAITING: usize = 200;
    let server = Tierra::start("");
    let mut writer = server.connect();
    let mut clients: Vec<Client> = (0..WAITING)
        .map(|at| {
            let mut client = server.connect();
            // What stands behind it comes after it.
            client.send_bytes(format!("BZPOPMIN k{} k 0\r\nECHO {at}\r\n", at % 7).as_bytes());
            until_blocked(&mut writer, at + 1);
            client
        })
        .collect();
    let mut zadd = "ZADD k".to_string();
    (0..WAITING / 2).for_each(|at| zadd += &format!(" {at} m{at}"));
    assert_eq!(writer.ask(&zadd), Reply::Integer(WAITING as i64 / 2));
    assert_eq!(writer.ask("EXISTS k"), Reply::Integer(0));
    for (at, client) in clients.iter_mut().enumerate().take(WAITING / 2) {
        assert_eq!(
            client.receive(),
            popped("k", &format!("m{at}"), &at.to_string())
        );
        assert_eq!(client.receive(), bulk(&at.to_string()));
    }
    until_blocked(&mut writer, WAITING / 2);
    // The first of the rest that waits for k3, however many wait for others.
    let first = (WAITING / 2..).find(|at| at % 7 == 3).unwrap();
    assert_eq!(writer.ask("ZADD k3 1.5 m"), Reply::Integer(1));
    assert_eq!(clients[first].receive(), popped("k3", "m", "1.5"));
    assert!(!clients[first + 7].has_reply());
    until_blocked(&mut writer, WAITING / 2 - 1);
    // The server ends as ever.
    writer.send_bytes(b"SHUTDOWN NOSAVE\r\n");
    for client in clients
        .drain(WAITING / 2..)
        .filter(|_| true)
        .skip(first + 1 - WAITING / 2)
    {
        assert_eq!(client.rest(), b"");
    }
}

/// Its end arrives before the member does: a client that has gone is not served.
#[test]
fn what_is_popped_for_those_who_have_gone_is_not_lost() {
    let server = Tierra::start("");
    let mut writer = server.connect();
    for round in 0..50 {
        let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            client.send_bytes(b"BZMPOP 0 2 other k MAX COUNT 5\r\nPING\r\n");
            until_blocked(&mut writer, at + 1);
        }
        let mut last = clients.pop().unwrap();
        match round % 3 {
            0 => drop(clients),
            1 => {
                // In one pipeline with what it would be served.
                let ids: Vec<String> = text(writer.ask("CLIENT LIST"))
                    .lines()
                    .filter(|line| line.contains("cmd=bzmpop"))
                    .map(|line| line[3..line.find(' ').unwrap()].to_string())
                    .collect();
                let kill = ids[..2].iter().map(|id| format!("CLIENT KILL ID {id}\r\n"));
                writer.send_bytes(
                    (kill.collect::<String>() + "INFO clients\r\nZADD k 0 x\r\nDEL k\r\n")
                        .as_bytes(),
                );
                assert_eq!(
                    [writer.receive(), writer.receive()],
                    [Reply::Integer(1), Reply::Integer(1)]
                );
                assert!(text(writer.receive()).contains("blocked_clients:1\r"));
                assert_eq!(
                    [writer.receive(), writer.receive()],
                    [Reply::Integer(1), Reply::Integer(0)]
                );
                let pair = Reply::Array(vec![bulk("x"), bulk("0")]);
                assert_eq!(
                    last.receive(),
                    Reply::Array(vec![bulk("k"), Reply::Array(vec![pair])])
                );
                assert_eq!(last.receive(), Reply::Simple("PONG".into()));
                clients
                    .into_iter()
                    .for_each(|client| assert_eq!(client.rest(), b""));
                continue;
            }
            _ => {
                let one = clients.pop();
                assert_eq!(writer.ask("PING"), Reply::Simple("PONG".into()));
                drop((one, clients));
            }
        }
        assert_eq!(writer.ask("ZADD k 1 m"), Reply::Integer(1));
        let pair = Reply::Array(vec![bulk("m"), bulk("1")]);
        let expected = Reply::Array(vec![bulk("k"), Reply::Array(vec![pair])]);
        assert_eq!(last.receive(), expected, "the one who is there");
        assert_eq!(last.receive(), Reply::Simple("PONG".into()));
        drop(last);
        assert_eq!(writer.ask("EXISTS k"), Reply::Integer(0));
    }
    assert_alive(&server);
}

#[test]
fn time_comes_for_those_who_wait_and_for_pauses() {
    let server = Tierra::start("");
    let (mut one, mut other) = (server.connect(), server.connect());
    // Some at once, some later, and their pipelines go on.
    for timeout in ["0.001", "0.02", "1e-30", "0.005"] {
        one.send_bytes(format!("BZPOPMIN k {timeout}\r\nECHO after\r\n").as_bytes());
    }
    assert_eq!(other.ask("HELLO 3").clone(), other.ask("HELLO 3"));
    assert_eq!(other.ask("BZMPOP 0.01 1 k MIN"), Reply::Null);
    for _ in 0..4 {
        assert_eq!([one.receive(), one.receive()], [Reply::Null, bulk("after")]);
    }
    until_blocked(&mut one, 0);
    // All are paused, also the client that could end it, and time ends it.
    assert_eq!(one.ask("CLIENT PAUSE 30"), ok());
    one.send_bytes(b"PING\r\n");
    other.send_bytes(b"CLIENT UNPAUSE\r\nNOTHING\r\n");
    assert_eq!(one.receive(), Reply::Simple("PONG".into()));
    assert_eq!(other.receive(), ok());
    assert!(matches!(other.receive(), Reply::Error(_)));
    // What stands behind a pause in one pipeline is paused.
    one.send_bytes(
        b"MULTI\r\nCLIENT PAUSE 1000000 WRITE\r\nSET n 1\r\nEXEC\r\nGET n\r\nSET k v\r\nGET k\r\n",
    );
    let queued = Reply::Simple("QUEUED".into());
    let done = Reply::Array(vec![ok(), ok()]);
    for reply in [ok(), queued.clone(), queued, done, bulk("1")] {
        assert_eq!(one.receive(), reply);
    }
    until_blocked(&mut other, 1);
    assert_eq!(other.ask("GET k"), Reply::Null);
    // Nothing expires and nothing is evicted, and one who goes is not waited for.
    drop(one);
    until_blocked(&mut other, 0);
    assert_eq!(other.ask("CLIENT UNPAUSE"), ok());
    assert_eq!(other.ask("GET k"), Reply::Null);
}

#[test]
fn who_waits_counts_and_is_listed() {
    let server = Tierra::start("--maxclients 3");
    let (mut waits, mut monitor, mut client) =
        (server.connect(), server.connect(), server.connect());
    assert_eq!(monitor.ask("MONITOR"), ok());
    waits.send_bytes(b"BZPOPMIN k 0\r\nECHO later\r\n");
    until_blocked(&mut client, 1);
    assert_eq!(
        server.connect().rest(),
        b"-ERR max number of clients reached\r\n"
    );
    let list = text(client.ask("CLIENT LIST"));
    assert!(
        list.contains("flags=bU") && list.contains("cmd=bzpopmin"),
        "{list}"
    );
    assert_eq!(client.ask("ZADD k 1 m"), Reply::Integer(1));
    assert_eq!(waits.receive(), popped("k", "m", "1"));
    assert_eq!(waits.receive(), bulk("later"));
    assert_eq!(client.ask("ECHO end"), bulk("end"));
    // It is told when it is asked for, and not again when it is served.
    let mut told = Vec::new();
    while told
        .last()
        .is_none_or(|line: &String| !line.ends_with("\"end\""))
    {
        let Reply::Simple(line) = monitor.receive() else {
            panic!("a line is told")
        };
        told.push(line);
    }
    let with = |word: &str| told.iter().filter(|line| line.contains(word)).count();
    assert_eq!(
        (with("BZPOPMIN"), with("ZADD"), with("ZPOPMIN\"")),
        (1, 1, 1),
        "{told:?}"
    );
    assert_eq!(waits.ask("CLIENT UNBLOCK 100"), Reply::Integer(0));
    assert_eq!(
        waits.ask("CLIENT UNBLOCK 1 NOW"),
        error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
    );
}

#[test]
fn who_waits_may_not_send_for_ever() {
    let server = Tierra::start("--client-query-buffer-limit 1mb");
    let mut client = server.connect();
    let mut stream = std::os::unix::net::UnixStream::connect(&server.path).unwrap();
    stream.write_all(b"BZPOPMIN k 0\r\n").unwrap();
    until_blocked(&mut client, 1);
    let pings = b"PING\r\n".repeat(10_000);
    let sent = (0..1000)
        .take_while(|_| stream.write_all(&pings).is_ok())
        .count();
    assert!(sent < 1000, "a client sent {sent} pieces");
    until_blocked(&mut client, 0);
    assert_eq!(client.ask("ZADD k 1 m"), Reply::Integer(1));
    assert_eq!(client.ask("ZCARD k"), Reply::Integer(1));
}

/// In a pause keys whose time has come are not found, and stay: nothing changes, as in Redis.
#[test]
fn no_key_expires_in_a_pause() {
    let (server, redis) = (Tierra::start("--hz 100"), Redis::start());
    let mut clients = vec![server.connect()];
    clients.extend(redis.as_ref().map(Redis::connect));
    let mut replies = vec![Vec::new(); clients.len()];
    for (client, replies) in clients.iter_mut().zip(&mut replies) {
        for pause in ["WRITE", "ALL"] {
            let length = if pause == "ALL" { 600 } else { 1_000_000 };
            // At once, so that the pause begins long before the time of these keys comes.
            let requests = format!(
                "SET a v PX 200\r\nSET b v PX 200\r\nHSET h f v\r\nCLIENT PAUSE {length} {pause}\r\n"
            );
            client.send_bytes(requests.as_bytes());
            for expected in [ok(), ok(), Reply::Integer(1), ok()] {
                assert_eq!(client.receive(), expected);
            }
            // It comes while nothing may change.
            std::thread::sleep(std::time::Duration::from_millis(300));
            if pause == "WRITE" {
                for request in [
                    "GET a",
                    "EXISTS a b h",
                    "TTL a",
                    "TYPE a",
                    "DBSIZE",
                    "HGETALL h",
                ] {
                    replies.push(client.ask(request));
                }
                replies.push(Reply::Integer(i64::from(
                    text(client.ask("INFO stats")).contains("expired_keys:0\r"),
                )));
                assert_eq!(client.ask("CLIENT UNPAUSE"), ok());
            }
            for request in ["GET a", "EXISTS b", "SET b w", "DEL h a b", "DBSIZE"] {
                replies.push(client.ask(request));
            }
        }
    }
    assert_eq!(replies[0][4], Reply::Integer(3), "{replies:?}");
    assert_eq!(replies[0][6], Reply::Integer(1), "{replies:?}");
    assert!(
        replies.iter().all(|other| *other == replies[0]),
        "{replies:#?}"
    );
}

/// Some key is asked for while all that there are have expired and may not go.
#[test]
fn a_random_key_is_looked_for_in_vain_in_a_pause() {
    let server = Tierra::start("");
    let mut client = server.connect();
    // In one piece: keys that expire are then not looked for before the pause begins.
    client.send_bytes(b"SET a v PX 1\r\nCLIENT PAUSE 1000000 WRITE\r\n");
    assert_eq!([client.receive(), client.receive()], [ok(), ok()]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(client.ask("RANDOMKEY"), Reply::Null);
    assert_eq!(
        client.ask("SCAN 0"),
        Reply::Array(vec![bulk("0"), Reply::Array(Vec::new())])
    );
    assert_eq!(client.ask("DBSIZE"), Reply::Integer(1));
    assert_eq!(client.ask("CLIENT UNPAUSE"), ok());
    assert_eq!(client.ask("GET a"), Reply::Null);
    assert_eq!(client.ask("DBSIZE"), Reply::Integer(0));
}
