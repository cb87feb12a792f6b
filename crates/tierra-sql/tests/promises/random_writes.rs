//! Random statements that change rows leave in Tierra what they leave in SQLite ([`written`](crate::written)).
//!
//! A difference is printed with its seed and the statements before it; `TIERRA_SEED=n` runs that seed alone, and
//! `TIERRA_SCRIPTS=n` runs more of them.

use crate::written::run;

/// Statements of a script.
const STATEMENTS: usize = 60;
/// Scripts of a run.
const SCRIPTS: u64 = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_writes_are_those_of_sqlite() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let dir = tempfile::tempdir().unwrap();
    let seeds = match number("TIERRA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TIERRA_SCRIPTS").unwrap_or(SCRIPTS),
    };
    let mut failed = 0;
    for seed in seeds {
        match run(seed, STATEMENTS, dir.path()).await {
            Ok(counts) => failed += counts.failed,
            Err(difference) => panic!("{difference}"),
        }
    }
    println!("{failed} statements failed on both sides");
}
