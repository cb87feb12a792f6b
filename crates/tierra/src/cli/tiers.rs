//! `tierra tiers`: shows and measures the memory of this machine, and the part of it that a database uses.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use tempfile::TempDir;
use tierra_memory::{
    Durability, Pool, PoolOptions, Size, Topology, emulation,
    measure::{self, Effort, Measurement},
    topology::{DaxDevice, Mount, Node},
};

use super::{
    CommandError,
    open::OpenOptions,
    text_table::{Side, TextTable},
    units::{Bytes, Count},
};
use crate::cli::output::{self, tell};

/// The column of a row that says what the memory's content survives.
const DURABILITY: usize = 2;
/// Milliseconds per measurement.
const FIGURE_MS: u64 = 150;

/// The arguments of `tierra tiers`.
#[derive(Args)]
pub(crate) struct TiersArguments {
    /// Bytes that each measurement covers; more than the processor's caches hold
    #[arg(long, value_name = "SIZE", default_value = "256M")]
    working_set: Size,
    /// Database whose tiers to list as well: their contents, what these survive, and missing tiers
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Directories whose file systems to measure as well, as the far tier of a database
    #[arg(value_name = "DIR")]
    directories: Vec<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &TiersArguments) -> Result<(), CommandError> {
    // Checked first, because measuring takes seconds.
    for directory in &arguments.directories {
        scratch_in(directory).map_err(|e| CommandError::file("make a pool in", directory, e))?;
    }
    let of_database = arguments.db.as_deref().map(database_tiers).transpose()?;
    let topology = Topology::discover().map_err(|e| CommandError::Tiers(e.to_string()))?;
    let working_set = usize::try_from(arguments.working_set.0).unwrap_or(usize::MAX);
    let effort = Effort {
        working_set_bytes: working_set,
        time_per_figure: Duration::from_millis(FIGURE_MS),
        ..Effort::default()
    };
    for socket in &topology.sockets {
        tell!("{}: {} CPUs", socket.id, socket.cpus.len());
    }
    tell!(
        "measured on {} with {} threads (latency: one)\n",
        Bytes(effort.working_set_bytes as u64),
        effort.threads
    );
    let mut table = TextTable::new([
        ("tier", Side::Left),
        ("memory", Side::Left),
        ("durability", Side::Left),
        ("size", Side::Right),
        ("pages", Side::Right),
        ("latency", Side::Right),
        ("random read", Side::Right),
        ("sequential read", Side::Right),
        ("sequential write", Side::Right),
    ]);
    for node in &topology.nodes {
        table.push(node_row(node, &effort));
    }
    for mount in topology.dax_mounts.iter().chain(&topology.tmpfs_mounts) {
        if let Some(row) = mount_row(mount, &effort) {
            table.push(row);
        }
    }
    for directory in &arguments.directories {
        let memory = format!("files in {}", directory.display());
        table.push(row("far", memory, None, pool(directory, &effort)));
    }
    for device in &topology.dax_devices {
        table.push(device_row(device));
    }
    output::write(format_args!("{table}"));
    output::write(format_args!("{}", of_database.unwrap_or_default()));
    Ok(())
}

/// The tiers of the database in `dir`. It is closed again, because the machine is measured.
fn database_tiers(dir: &Path) -> Result<String, CommandError> {
    let emulated = emulation::current();
    let tiers = tiers_of(dir);
    // Emulated far memory, which a database's options may request, applies to the whole process.
    emulation::set(emulated).map_err(|e| CommandError::Tiers(e.to_string()))?;
    tiers
}

fn tiers_of(dir: &Path) -> Result<String, CommandError> {
    let database = OpenOptions::default().even_degraded().open(dir)?;
    let mut table = TextTable::new([
        ("name", Side::Left),
        ("tier", Side::Left),
        ("medium", Side::Left),
        ("durability", Side::Left),
        ("access", Side::Left),
        ("size", Side::Right),
        ("used", Side::Right),
        ("pages", Side::Right),
        ("written", Side::Right),
        ("lines", Side::Right),
        ("amplification", Side::Right),
    ]);
    let mut always_near_bytes = 0;
    for tier in database.engine().tiers() {
        always_near_bytes += tier.always_near_bytes.unwrap_or(0);
        let medium = tier.medium.map(|medium| medium.to_string());
        let pages = tier.page_size_bytes.map(|bytes| Bytes(bytes as u64));
        let written = tier.written();
        table.push(vec![
            tier.name,
            tier.speed.to_string(),
            medium.unwrap_or_else(|| "memory".to_owned()),
            durability(tier.durability),
            tier.access
                .map_or_else(String::new, |access| access.to_string()),
            Bytes(tier.capacity_bytes).to_string(),
            Bytes(tier.used_bytes).to_string(),
            pages.map_or_else(String::new, |bytes| bytes.to_string()),
            written.map_or_else(String::new, |all| Bytes(all.bytes).to_string()),
            written.map_or_else(String::new, |all| Count(all.lines).to_string()),
            tier.write_amplification
                .map_or_else(String::new, |times| format!("{times:.2}")),
        ]);
    }
    let mut text = format!(
        "\ntiers of the database in {}\n\n{table}\n\
         always near, beside copies: {} of dictionaries, chunk headers, key indexes and tails\n",
        dir.display(),
        Bytes(always_near_bytes)
    );
    for (name, why) in database.engine().missing_tiers() {
        text.push_str(&format!("tier {name} is missing: {why}\n"));
    }
    Ok(text)
}

/// What the content of the memory survives.
fn durability(durability: Option<Durability>) -> String {
    durability.map_or_else(|| "none".to_owned(), |durability| durability.to_string())
}

fn node_row(node: &Node, effort: &Effort) -> Vec<String> {
    let (tier, kind) = match node.has_cpus() {
        true => ("near", "DRAM"),
        false => ("far", "no CPUs, volatile"),
    };
    let measured = measure::region(Some(node.id), effort).map_err(|e| e.to_string());
    let measured = measured.map(|measured| (None, measured));
    row(
        tier,
        format!("{} ({kind})", node.id),
        Some(node.bytes),
        measured,
    )
}

/// `None` for a file system that is too small for a pool.
fn mount_row(mount: &Mount, effort: &Effort) -> Option<Vec<String>> {
    let (size, free) = mount.bytes.unzip();
    if free.is_some_and(|free| free < 2 * effort.working_set_bytes as u64) {
        return None;
    }
    let memory = format!("{} {}", mount.file_system, mount.path.display());
    Some(row("far", memory, size, pool(&mount.path, effort)))
}

/// A device is not measured: it holds a pool, or could, and measuring would overwrite it.
fn device_row(device: &DaxDevice) -> Vec<String> {
    let memory = format!("device {}", device.name);
    let unknown = Err("a pool can lie on it: pool = \"/dev/..\"".to_owned());
    let mut row = row("far", memory, Some(device.bytes), unknown);
    row[DURABILITY] = durability(Some(device.durability()));
    row
}

fn row(
    tier: &str,
    memory: String,
    size: Option<u64>,
    measured: Result<(Option<Durability>, Measurement), String>,
) -> Vec<String> {
    let size = size.map_or_else(String::new, |size| Bytes(size).to_string());
    let mut row = vec![tier.to_owned(), memory];
    match measured {
        Ok((survives, measured)) => {
            let rate = |bytes: f64| format!("{}/s", Bytes(bytes as u64));
            row.extend([
                durability(survives),
                size,
                Bytes(measured.page_size_bytes as u64).to_string(),
                format!("{:.0} ns", measured.latency_ns),
                rate(measured.random_read_bytes_per_s),
                rate(measured.sequential_read_bytes_per_s),
                rate(measured.sequential_write_bytes_per_s),
            ]);
        }
        Err(error) => {
            row[1] = format!("{} (not measured: {error})", row[1]);
            row.extend(["-".to_owned(), size]);
            row.extend(std::iter::repeat_n("-".to_owned(), 5));
        }
    }
    row
}

/// Creates a pool in `directory`, measures it, and removes it.
fn pool(directory: &Path, effort: &Effort) -> Result<(Option<Durability>, Measurement), String> {
    let scratch = scratch_in(directory).map_err(|e| e.to_string())?;
    let path = scratch.path().join("pool");
    let pool = Pool::create(&path, &PoolOptions::default()).map_err(|e| e.to_string())?;
    let measured = measure::pool(&pool, effort).map_err(|e| e.to_string())?;
    Ok((Some(pool.durability()), measured))
}

/// A directory that is removed when dropped. Errors are the system's, without its temporary name.
fn scratch_in(directory: &Path) -> io::Result<TempDir> {
    if !std::fs::metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let scratch = tempfile::Builder::new()
        .prefix(".tierra-tiers-")
        .tempdir_in(directory);
    scratch.map_err(|error| error.kind().into())
}
