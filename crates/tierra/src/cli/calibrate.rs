//! `tierra calibrate`: measures and stores what interleaved lookups gain on this machine, which instructions its scans should use,
//! how long reading takes in each tier, and the fastest way to write its logs.

use std::path::{Path, PathBuf};

use clap::Args;
use tierra_engine::{Calibration, Effort, Measured, MeasuredMixes, write_profile};
use tierra_interleave::Execution;
use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::placement::LineTimes;
use tierra_memory::replication::{Profile, SIZE_CLASSES, Situation, class_bytes};

use super::open::OpenOptions;
use super::text_table::{Side, TextTable};
use super::{CommandError, progress};
use crate::cli::output::{self, tell};

/// The arguments of `tierra calibrate`.
#[derive(Args)]
pub(crate) struct CalibrateArguments {
    /// Directory of the database; it uses the measured group sizes from the next time it is opened
    #[arg(long, value_name = "DIR")]
    db: PathBuf,
    /// Measure under this emulated far memory as well; by default that of `tierra.toml`
    #[arg(long, value_name = "MEMORY")]
    emulate: Option<FarMemory>,
    /// Measure less data fewer times, for a first impression
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    open: OpenOptions,
}

/// Runs the command.
pub(crate) fn run(arguments: &CalibrateArguments) -> Result<(), CommandError> {
    let CalibrateArguments {
        db,
        emulate,
        quick,
        open,
    } = arguments;
    let effort = if *quick { Effort::QUICK } else { Effort::FULL };
    let database = open.open(db)?;
    let mut fars = vec![None];
    fars.extend(emulate.or(emulation::current()).map(Some));
    let bar = progress::steps_bar("calibrating", effort.steps(fars.len()));
    let measured = database.engine().calibrate(effort, &fars, || bar.inc(1));
    bar.finish_and_clear();
    let measured = measured.map_err(Box::new)?;
    for far in &fars {
        if let Some(far) = far {
            tell!("\nwith {far} emulated:");
        }
        let of_far = measured.iter().filter(|measured| measured.far == *far);
        output::write(format_args!("{}", table(of_far)));
    }
    let bar = progress::steps_bar("levels", effort.steps_of_levels(fars.len()));
    let mixes = database
        .engine()
        .calibrate_levels(effort, &fars, || bar.inc(1));
    bar.finish_and_clear();
    let mixes = mixes.map_err(Box::new)?;
    let chosen = mixes
        .iter()
        .filter_map(|measured| Some((measured.situation, measured.best()?.clone())));
    let tiers = database.engine().calibrate_tiers().map_err(Box::new)?;
    output::write(format_args!("\n{}", table_of_tiers(&tiers)));
    tell!("\nnanoseconds a line of 64 bytes");
    let calibration = Calibration::of(&measured).with_levels(chosen.collect());
    let calibration = calibration.with_tiers(tiers);
    let path = calibration.write(db);
    let path = path.map_err(|source| CommandError::File {
        action: "write the calibration into",
        path: db.clone(),
        source,
    })?;
    tell!("\nnanoseconds a lookup");
    output::write(format_args!("\n{}", table_of_mixes(&mixes)));
    tell!("\nmillion values a second; written to {}", path.display());
    calibrate_writes(database.engine(), db, effort)
}

/// For each situation the levels that are used, and their speed beside those of each level alone.
fn table_of_mixes(mixes: &[MeasuredMixes]) -> TextTable {
    let alone = |measured: &MeasuredMixes| {
        let of = measured.medians();
        let of = of.filter_map(|(mix, rate)| Some((mix.level()?.to_string(), rate)));
        of.collect::<Vec<_>>()
    };
    let levels = mixes.first().map(alone).unwrap_or_default();
    let columns =
        ["tier", "far memory", "operator", "threads", "columns"].map(|head| (head, Side::Left));
    let columns = columns.into_iter();
    let columns = columns.chain(
        levels
            .iter()
            .map(|(level, _)| (level.as_str(), Side::Right)),
    );
    let columns = columns.chain([
        ("chosen", Side::Right),
        ("levels, cores, round robin", Side::Left),
    ]);
    let mut table = TextTable::new(columns);
    for measured in mixes {
        let situation = &measured.situation;
        let millions = |rate: f64| format!("{:.0}", rate / 1e6);
        let far = situation
            .far
            .map_or("off".to_owned(), |far| far.to_string());
        let mut row = vec![
            situation.speed.to_string(),
            far,
            situation.operator.to_string(),
            situation.threads.to_string(),
            situation.columns.to_string(),
        ];
        row.extend(alone(measured).into_iter().map(|(_, rate)| millions(rate)));
        let best = measured.best();
        let mut all = measured.medians();
        let rate = all
            .find(|(mix, _)| Some(*mix) == best)
            .map(|(_, rate)| rate);
        row.push(rate.map_or(String::new(), millions));
        row.push(best.map_or(String::new(), ToString::to_string));
        table.push(row);
    }
    table
}

/// How long reading lines takes in each tier.
fn table_of_tiers(tiers: &[(String, LineTimes)]) -> TextTable {
    let mut table = TextTable::new([
        ("tier", Side::Left),
        ("in order", Side::Right),
        ("alone", Side::Right),
        ("all cores", Side::Right),
    ]);
    for (tier, times) in tiers {
        let ns = |ns: f64| format!("{ns:.1}");
        table.push(vec![
            tier.clone(),
            ns(times.in_order_ns),
            ns(times.alone_ns),
            ns(times.shared_ns),
        ]);
    }
    table
}

/// The calibration of logs.
fn calibrate_writes(
    database: &tierra_engine::Database,
    db: &Path,
    effort: Effort,
) -> Result<(), CommandError> {
    let far = database.tiers().into_iter();
    let copies = far.filter(|tier| tier.medium.is_some()).count();
    let bar = progress::steps_bar("writes", Profile::steps(copies, false));
    let profile = database.calibrate_writes(effort, || bar.inc(1));
    bar.finish_and_clear();
    let Some(profile) = profile.map_err(Box::new)? else {
        tell!("logs are in a file on a device: a write waits for the kernel, however it is made");
        return Ok(());
    };
    output::write(format_args!("\n{}", table_of_writes(&profile, copies)));
    let path = write_profile(&profile, db);
    let path = path.map_err(|source| CommandError::File {
        action: "write the replication profile into",
        path: db.to_owned(),
        source,
    })?;
    tell!(
        "\nnanoseconds a write to a log, one behind the other, by the best method; written to {}",
        path.display()
    );
    Ok(())
}

/// For each length the best method and its time, by number of copies.
fn table_of_writes(profile: &Profile, copies: usize) -> TextTable {
    let heads: Vec<_> = (1..=copies)
        .map(|copies| match copies {
            1 => "one copy".to_owned(),
            _ => format!("{copies} copies"),
        })
        .collect();
    let columns = [("bytes", Side::Right)].into_iter();
    let mut table =
        TextTable::new(columns.chain(heads.iter().map(|head| (head.as_str(), Side::Left))));
    for size_class in 0..SIZE_CLASSES {
        let best = |replicas| {
            let situation = Situation {
                is_transactional: false,
                is_sequential: true,
                replicas,
                size_class,
            };
            let best = profile.measured(situation).first();
            best.map_or(String::new(), |(method, tenths_ns)| {
                format!("{:.1} {method}", *tenths_ns as f64 / 10.0)
            })
        };
        let mut row = vec![class_bytes(size_class).to_string()];
        row.extend((0..copies).map(best));
        table.push(row);
    }
    table
}

fn table<'m>(measured: impl Iterator<Item = &'m Measured>) -> TextTable {
    let sizes: Vec<_> = Measured::sizes().collect();
    let heads: Vec<_> = sizes.iter().map(|size| format!("{size} lanes")).collect();
    let columns = [
        ("lookup", Side::Left),
        ("tier", Side::Left),
        ("plain", Side::Right),
    ];
    let columns = columns.into_iter();
    let columns = columns.chain(heads.iter().map(|head| (head.as_str(), Side::Right)));
    let columns = columns.chain([("chosen", Side::Left), ("measured on", Side::Left)]);
    let mut table = TextTable::new(columns);
    for measured in measured {
        let ns = |ns: f64| format!("{ns:.1}");
        let of_size = |size| {
            let mut ways = measured.interleaved_ns.iter();
            let way = ways.find(|way| way.0 == size);
            way.map_or(String::new(), |way| ns(way.1))
        };
        let chosen = match (measured.execution(), measured.interleaved_ns.len()) {
            (Execution::Plain, _) => "plain".to_owned(),
            (Execution::Interleaved, 1) => "interleaved".to_owned(),
            (Execution::Interleaved, _) => format!("{} lanes", measured.best().0),
        };
        let mut row = vec![
            measured.kind.to_string(),
            measured.speed.to_string(),
            ns(measured.plain_ns),
        ];
        row.extend(sizes.iter().copied().map(of_size));
        row.extend([chosen, measured.place.clone()]);
        table.push(row);
    }
    table
}
