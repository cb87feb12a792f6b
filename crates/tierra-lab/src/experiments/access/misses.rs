//! Last-level misses by access mode: do they stay as many when a scan reads in place, and move from the kernel into the process?
//!
//! Each query of TPC-H runs once in a process of its own under valgrind's cachegrind, which simulates a last-level cache much
//! smaller than the data, as the paper's was. Cachegrind sees the process alone. What `read()` copies into frames misses in the
//! kernel: its lines are reckoned from the bytes that the scan reports, once each. Those of planning, counted in a process that only
//! explains the query, are taken off. The simulation stands for the hardware counters of the paper, which virtual machines lack.
//!
//! Source: Mustafa et al., SAMOS 2016, figure 7.

use std::path::Path;
use std::process::{Command, Stdio};

use tierra_data::Scale;
use tierra_engine::Access;
use tierra_memory::{CopyMethod, LINE_BYTES};
use tierra_sql::{Outcome, Work};

use super::benchmark::Benchmark;
use super::media::FRAME_BYTES;
use crate::bar::Bar;
use crate::children;
use crate::contender::Tierra;
use crate::error::{At, Context, LabError};
use crate::experiments::{Experiment, Measured};
use crate::lab::Lab;
use crate::progress;
use crate::results::Tier;
use crate::row::Row;
use crate::view::{Unit, View};

/// The program that counts.
const VALGRIND: &str = "valgrind";
/// The simulated last-level cache: bytes, ways, bytes of a line.
const CACHE: &str = "1048576,16,64";

/// How scans read, by the name of the mode.
const MODES: [Access; 3] = [
    Access::Framed(CopyMethod::Buffered),
    Access::Framed(CopyMethod::Mapped),
    Access::InPlace,
];

const VIEWS: [View; 2] = [
    View {
        title: "last-level misses of a query, over all of those with frames filled by read() (figure 7)",
        category: "query",
        series: "access and level",
        value: "over_buffered",
        per: None,
        unit: Unit::Ratio,
        mean: true,
    },
    View {
        title: "last-level misses of a query",
        category: "query",
        series: "access and level",
        value: "misses",
        per: None,
        unit: Unit::Count,
        mean: false,
    },
];

/// The experiment.
pub(in crate::experiments) struct AccessMisses;

impl Experiment for AccessMisses {
    fn name(&self) -> &'static str {
        "access-misses"
    }

    fn about(&self) -> &'static str {
        "where do the last-level misses of TPC-H happen, in the kernel or in the process? By simulation"
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        let scale = Scale::new(lab.size(0.02, 0.1)).by("the generator", "choosing a scale")?;
        let parameters = Row::new()
            .number("scale", scale.factor())
            .text("last_level_cache", CACHE)
            .count("frame_bytes", FRAME_BYTES);
        let mut rows = Vec::new();
        let valgrind = Command::new(VALGRIND)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if valgrind.is_ok_and(|status| status.success()) {
            let mut queries = Benchmark::Tpch.queries();
            queries.truncate(lab.size(1, queries.len()));
            let folder = lab.folder_in_memory()?;
            let database = folder.path().join("db");
            let tierra = Tierra::create_far(&database)?;
            let files = lab.folder("access-misses")?;
            Benchmark::Tpch.write(scale, &files, |file| tierra.load(file))?;
            tierra.settle()?;
            drop(tierra);
            let bar = progress::bar("queries", queries.len());
            for (name, _) in queries {
                bar.set_message(name);
                rows.extend(count(folder.path(), &database, name)?);
                bar.inc(1);
            }
            bar.finish_and_clear();
        } else if lab.is_quick() {
            println!("Misses are not counted: {VALGRIND} is not installed.");
        } else {
            // An empty result would replace one that holds misses.
            return Err("it is not installed").by(VALGRIND, "counting misses");
        }
        Ok(Measured {
            tier: Tier::Simulated,
            parameters,
            rows,
        })
    }

    /// The paper draws shares and states none.
    fn bars(&self, _rows: &[Row]) -> Vec<Bar> {
        Vec::new()
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }
}

/// The misses of a query in each mode.
fn count(folder: &Path, database: &Path, query: &str) -> Result<Vec<Row>, LabError> {
    let planning = run(folder, database, query, None)?;
    let mut found = Vec::new();
    for access in MODES {
        let Counted { misses, copied } = run(folder, database, query, Some(access))?;
        let in_process = misses.saturating_sub(planning.misses);
        found.push((format!("{access}, process"), in_process));
        if access == Access::Framed(CopyMethod::Buffered) {
            let lines = copied.div_ceil(LINE_BYTES as u64);
            found.push((format!("{access}, kernel, reckoned"), lines));
        }
    }
    // All of those of the first mode.
    let buffered: u64 = found.iter().take(2).map(|(_, misses)| misses).sum();
    let row = |(level, misses): (String, u64)| {
        Row::new()
            .text("query", query)
            .text("access and level", level)
            .count("misses", misses)
            .number("over_buffered", misses as f64 / buffered.max(1) as f64)
    };
    Ok(found.into_iter().map(row).collect())
}

/// What one process did.
struct Counted {
    misses: u64,
    /// Bytes copied into frames.
    copied: u64,
}

/// Runs a query, or explains it if no mode is given, in a process under cachegrind.
fn run(
    folder: &Path,
    database: &Path,
    query: &str,
    access: Option<Access>,
) -> Result<Counted, LabError> {
    let doing = || format!("counting the misses of {query}");
    let this = std::env::current_exe().by("the lab", "finding itself")?;
    let counts = folder.join("cachegrind.out");
    let mut command = Command::new(VALGRIND);
    command
        .args(["--tool=cachegrind", "--cache-sim=yes", "--quiet"])
        .arg(format!("--LL={CACHE}"))
        .arg(format!("--cachegrind-out-file={}", counts.display()))
        .arg(this)
        .arg("query")
        .arg(database)
        .arg(query);
    if let Some(access) = access {
        command.arg(access.to_string());
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = children::start(&mut command, None).by(VALGRIND, doing())?;
    let output = child.wait_with_output().by(VALGRIND, doing())?;
    let said = String::from_utf8_lossy(&output.stdout);
    let copied = said.trim().parse::<u64>();
    let (true, Ok(copied)) = (output.status.success(), copied) else {
        let failed = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed).by(VALGRIND, doing());
    };
    let text = std::fs::read_to_string(&counts).at(&counts)?;
    let misses = misses(&text)
        .ok_or("its file has no sums of data misses")
        .by(VALGRIND, doing())?;
    Ok(Counted { misses, copied })
}

/// The sum of last-level misses of reads and writes in a file of cachegrind.
fn misses(text: &str) -> Option<u64> {
    let words = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.split_whitespace())
    };
    let events = words("events:")?.zip(words("summary:")?);
    let counted = events.filter(|(event, _)| ["DLmr", "DLmw"].contains(event));
    let counted: Result<Vec<u64>, _> = counted.map(|(_, count)| count.parse()).collect();
    let counted = counted.ok().filter(|counted| counted.len() == 2)?;
    Some(counted.into_iter().sum())
}

/// Runs a query of TPC-H on one thread, or explains it if no mode is given, and prints the bytes that were copied into frames.
///
/// # Errors
/// [`LabError`]: there is no such query or mode, or it failed.
pub(in crate::experiments) fn query(
    database: &Path,
    name: &str,
    access: Option<&str>,
) -> Result<(), LabError> {
    let queries = Benchmark::Tpch.queries();
    let sql = queries.iter().find(|(known, _)| *known == name);
    let (_, sql) = sql
        .ok_or("TPC-H has no such query")
        .by("a child", format!("running {name}"))?;
    let tierra = Tierra::open_far(database)?;
    tierra.database().frames().set(FRAME_BYTES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .by("the runtime", "starting it")?;
    let work = runtime.block_on(async {
        let run = async |sql: &str| {
            let outcome = tierra.session().sql(sql).await;
            match outcome.by(Tierra::ENGINE, sql)? {
                Outcome::Rows(mut rows) => {
                    rows.collect().await.by(Tierra::ENGINE, sql)?;
                    Ok::<_, LabError>(rows.work())
                }
                Outcome::Done(_) => Ok(Work::default()),
            }
        };
        run("SET tierra.threads = 1").await?;
        match access {
            Some(access) => {
                run(&format!("SET tierra.access = '{access}'")).await?;
                run(sql).await
            }
            None => run(&format!("EXPLAIN {sql}")).await,
        }
    })?;
    println!("{}", work.bytes_copied);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_misses_are_read_by_their_names() {
        let text =
            "desc: LL cache: 1\nevents: Ir DLmr Dw DLmw\nfn=a\n1 2 3 4 5\nsummary: 10 20 30 4\n";
        assert_eq!(misses(text), Some(24));
        assert_eq!(misses("events: Ir\nsummary: 10\n"), None);
        assert_eq!(misses(""), None);
    }
}
