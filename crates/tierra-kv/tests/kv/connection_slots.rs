//! A connection's slot is reused by the next one, but never while the previous one is still queued.
//!
//! Each test holds the server up (DEBUG SLEEP), so that what happens meanwhile is handled in one event-loop iteration. On a machine so
//! loaded that it is not, a test passes without having tried anything; it never fails for that.

use std::time::Duration;

use crate::support::{Client, Reply, Tierra};

/// While the server sleeps in the middle of a batch.
fn meanwhile() {
    std::thread::sleep(Duration::from_millis(60));
}

fn id(client: &mut Client) -> i64 {
    match client.ask("CLIENT ID") {
        Reply::Integer(id) => id,
        other => panic!("expected a number, got {other:?}"),
    }
}

#[test]
fn a_client_in_the_slot_of_one_killed_in_the_queue_is_served_once_an_iteration() {
    let server = Tierra::start("--enable-debug-command yes");
    let (mut killed, mut killer) = (server.connect(), server.connect());
    let (victim, _) = (id(&mut killed), id(&mut killer));
    // One batch takes some of these requests; for the others the client queues up again.
    killer.send_bytes(b"DEBUG SLEEP 0.2\r\n");
    meanwhile();
    killed.send_bytes(&b"PING\r\n".repeat(2000));
    // The second batch: the client is killed while it is in the queue, and another one connects before the next iteration.
    let kill = format!("CLIENT KILL ID {victim}\r\nDEBUG SLEEP 0.2\r\n");
    killer.send_bytes(kill.as_bytes());
    assert_eq!(killer.receive(), Reply::Simple("OK".into()));
    meanwhile();
    let mut comes = server.connect();
    // More than one read takes, and fewer requests than a batch: the second look would read on.
    let large = |number: u8| vec![number; 20 << 10];
    let requests: Vec<_> = (0..10).map(|n| vec![b"ECHO".to_vec(), large(n)]).collect();
    comes.send(&requests);
    assert_eq!(killer.receive(), Reply::Integer(1));
    assert_eq!(killer.receive(), Reply::Simple("OK".into()));
    for number in 0..10 {
        assert!(
            comes.receive() == Reply::Bulk(large(number)),
            "reply {number}"
        );
    }
    assert_eq!(killer.ask("PING"), Reply::Simple("PONG".into()));
}
