//! Metrics, the state and the samples: what they say is so, and the page's files need nothing from elsewhere.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::server::{PATIENCE, TestServer};

/// The metrics of a scrape by name and labels.
fn metrics(client: &mut Client) -> BTreeMap<String, f64> {
    let answer = client.get("/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let lines = answer.text().lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    pairs.collect()
}

fn fill(client: &mut Client) {
    for sql in [
        "CREATE TABLE t (n BIGINT PRIMARY KEY, \"<img src=x onerror=alert(1)>\" DOUBLE)",
        "INSERT INTO t SELECT value, value FROM generate_series(1, 200000)",
    ] {
        assert_eq!(client.sql(sql).status, 200, "{sql}");
    }
}

#[test]
fn metrics_are_those_of_the_tables() {
    let server = TestServer::start();
    let mut client = server.connect();
    fill(&mut client);
    let before = metrics(&mut client);
    for _ in 0..3 {
        client.rows("SET tierra.slow_ms = 0; SELECT sum(n) AS n FROM t WHERE n % 3 = 1");
    }
    client.sql("SELECT nothing");
    let after = metrics(&mut client);
    let grown = |name: &str| after[name] - before[name];
    assert_eq!(grown("tierra_query_seconds_count"), 7.0);
    assert_eq!(grown("tierra_query_seconds_bucket{le=\"+Inf\"}"), 7.0);
    assert_eq!(grown("tierra_queries_failed_total"), 1.0);
    assert!(grown("tierra_query_seconds_sum") > 0.0);
    let noted = client.rows(
        "SELECT count(*) AS count, sum(bytes_near) AS near, sum(bytes_far) AS far FROM tierra_slow_queries WHERE text LIKE 'SELECT sum(n)%'",
    );
    assert_eq!(noted[0]["count"], json!(3));
    let read = ["near", "far"].map(|speed| {
        let grown = grown(&format!("tierra_read_bytes_total{{speed=\"{speed}\"}}"));
        assert_eq!(noted[0][speed].as_f64(), Some(grown), "{speed}");
        grown
    });
    assert!(read[0] + read[1] > 0.0);
    assert_eq!(after["tierra_queries_running"], 0.0);
    let tiers = client.rows("SELECT name, speed, used_bytes, written_bytes FROM tierra_tiers");
    let metrics = metrics(&mut client);
    for tier in tiers.as_array().unwrap() {
        let (name, speed) = (
            tier["name"].as_str().unwrap(),
            tier["speed"].as_str().unwrap(),
        );
        assert_eq!(
            metrics[&format!("tierra_tier_used_bytes{{tier=\"{name}\",speed=\"{speed}\"}}")],
            tier["used_bytes"].as_f64().unwrap()
        );
        let Some(written) = tier["written_bytes"].as_f64() else {
            continue;
        };
        let by_cause = ["extents", "logs", "superblock", "repair"].map(|cause| {
            metrics[&format!("tierra_written_bytes_total{{tier=\"{name}\",cause=\"{cause}\"}}")]
        });
        assert_eq!(by_cause.iter().sum::<f64>(), written);
    }
    // Classes add up.
    let mut last = 0.0;
    for bound in [
        "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0",
        "2.5", "5.0", "10.0", "30.0", "60.0", "+Inf",
    ] {
        let count = metrics[&format!("tierra_query_seconds_bucket{{le=\"{bound}\"}}")];
        assert!(count >= last, "{bound}");
        last = count;
    }
    assert_eq!(last, metrics["tierra_query_seconds_count"]);
}

#[test]
fn a_scraper_gets_the_format_that_it_asks_for() {
    let server = TestServer::start();
    let answer = server.connect().get_with(
        "/metrics",
        "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1\r\n",
    );
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text")
    );
    assert!(answer.text().ends_with("# EOF\n"));
    assert!(answer.text().contains("# TYPE tierra_read_bytes counter\n"));
    let answer = server.connect().get("/metrics");
    assert!(!answer.text().contains("# EOF"));
    assert!(
        answer
            .text()
            .contains("# TYPE tierra_read_bytes_total counter\n")
    );
}

/// The columns of the state, as `tierra_columns` lists them.
fn told_columns(client: &mut Client) -> Value {
    let state = client.get("/api/state").json();
    let columns = state["columns"].as_array().unwrap().iter();
    let mut told: Vec<Value> = columns
        .map(|column| {
            json!({
                "table_name": column["table"], "column_name": column["column"], "bytes": column["bytes"],
                "near_bytes": column["near_bytes"], "index_bytes": column["index_bytes"],
                "index_near_bytes": column["index_near_bytes"],
            })
        })
        .collect();
    told.sort_by_key(|column| column["column_name"].to_string());
    json!(told)
}

fn listed_columns(client: &mut Client) -> Value {
    client.rows("SELECT table_name, column_name, bytes, near_bytes, index_bytes, index_near_bytes FROM tierra_columns ORDER BY column_name")
}

#[test]
fn the_state_is_that_of_the_tables() {
    let server = TestServer::start();
    let mut client = server.connect();
    fill(&mut client);
    // Near copies are still being made.
    let start = Instant::now();
    while told_columns(&mut client) != listed_columns(&mut client) {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(told_columns(&mut client).as_array().unwrap().len(), 2);
    let start = Instant::now();
    let copies = loop {
        let state = client.get("/api/state").json();
        let copies = state["copies"].clone();
        if copies.as_array().is_some_and(|copies| !copies.is_empty()) {
            break copies;
        }
        assert!(start.elapsed() < PATIENCE, "{state}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(
        (&copies[0]["table"], &copies[0]["number"]),
        (&json!("t"), &json!(1))
    );
    let state = client.get("/api/state").json();
    assert_eq!(state["faults"]["found"], json!(0));
    client.sql("SET tierra.slow_ms = 0; SELECT 'a slow one' AS s");
    let state = client.get("/api/state").json();
    assert_eq!(state["slow"][0]["text"], json!("SELECT 'a slow one' AS s"));
    assert_eq!(state["slow"][0]["state"], json!("ended"));
}

#[test]
fn a_sample_is_taken_every_second() {
    let start = Instant::now();
    let server = TestServer::start();
    let mut client = server.connect();
    let (asked, answer) = loop {
        let asked = Instant::now();
        let answer = client.get("/api/samples").json();
        if answer["samples"].as_array().unwrap().len() >= 3 {
            break (asked, answer);
        }
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(start.elapsed() > Duration::from_millis(1_500));
    let names = answer["names"].as_array().unwrap();
    let place = |name: &str| names.iter().position(|other| other == name).unwrap();
    let bounds = answer["time_bounds_s"].as_array().unwrap().len();
    let samples = answer["samples"].as_array().unwrap();
    for pair in samples.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert!(before[0].as_u64() < after[0].as_u64());
        assert_eq!(after[1].as_array().unwrap().len(), names.len() + bounds + 1);
        assert!(after[1][place("near_budget_bytes")].as_u64() > Some(0));
    }
    let last = samples.last().unwrap()[0].as_u64().unwrap();
    let news = client.get(&format!("/api/samples?since={last}")).json();
    let news = news["samples"].as_array().unwrap().len();
    // One that was late, and one that came since.
    assert!(news as u64 <= 2 + asked.elapsed().as_secs(), "{news}");
    let wrong = client.get("/api/samples?since=x");
    assert_eq!(wrong.status, 400);
    assert!(wrong.message().contains("since"), "{}", wrong.message());
}

/// No file of the page names another host, and none has a script or style in it that the policy would refuse.
#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/chart.js", "text/javascript; charset=utf-8"),
        ("/format.js", "text/javascript; charset=utf-8"),
        ("/sql.js", "text/javascript; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let answer = client.get(path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some(kind))
        );
        let text = answer.text().replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:",
            "https:",
            "//cdn",
            "innerHTML",
            "outerHTML",
            "eval(",
            "<script>",
            " style=",
            " onclick=",
        ] {
            assert!(!text.contains(word), "{path} has {word}");
        }
    }
}
