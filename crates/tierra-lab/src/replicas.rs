//! Logs of one length in several pools, and replica sets over the first of them: the targets of the experiments on
//! replication.
//!
//! The pools are on tmpfs, written as if it were persistent memory, so lines are flushed and fenced as there. While far memory is
//! emulated they are far.

use std::time::Instant;

use tempfile::TempDir;
use tierra_memory::emulation::{self, FarMemory};
use tierra_memory::persist::Flush;
use tierra_memory::replication::{Composition, Member, Method, ReplicaSet};
use tierra_memory::{Extent, ExtentWriter, Pool, PoolOptions};

use crate::error::{Context, LabError};
use crate::lab::Lab;

/// The memories in which copies are updated, and what is emulated: the thesis's DRAM and Optane. One thread updates.
pub const MEMORIES: [(&str, Option<FarMemory>); 2] =
    [(NEAR, None), (FAR, Some(FarMemory::OPTANE.whole()))];
/// DRAM.
pub const NEAR: &str = "near";
/// Optane.
pub const FAR: &str = "emulated optane";

const WHO: &str = "the lab";
const PAGE_BYTES: usize = 4096;

/// The pools.
#[derive(Debug)]
pub struct Copies {
    copies: Vec<Member>,
    folder: TempDir,
}

impl Copies {
    /// Makes `count` pools with a log of `bytes` each.
    ///
    /// # Errors
    /// If there is no folder in memory, or no space.
    pub fn create(lab: &Lab, count: usize, bytes: usize, flush: Flush) -> Result<Copies, LabError> {
        let folder = lab.folder_in_memory()?;
        let mut copies = Vec::new();
        for copy in 0..count {
            let path = folder.path().join(copy.to_string());
            let doing = || format!("making the pool of copy {copy}");
            let pool = Pool::create(&path, &options(flush)).by(WHO, doing())?;
            let log = pool.allocate(bytes as u64, 0).by(WHO, doing())?;
            let log = log.finish_log().by(WHO, doing())?;
            pool.publish(&log).by(WHO, doing())?;
            copies.push((pool, log.extent()));
        }
        Ok(Copies { copies, folder })
    }

    /// The same copies, flushed by another instruction from now on.
    ///
    /// # Errors
    /// A pool that cannot be opened.
    pub fn flushed_by(self, flush: Flush) -> Result<Copies, LabError> {
        let Copies { copies, folder } = self;
        let extents: Vec<Extent> = copies.iter().map(|copy| copy.1).collect();
        drop(copies);
        let open = |(copy, extent): (usize, Extent)| {
            let path = folder.path().join(copy.to_string());
            let pool = Pool::open(&path, &options(flush)).by(WHO, "opening a copy")?;
            pool.retain(&[extent]).by(WHO, "opening a copy")?;
            Ok((pool, extent))
        };
        let copies = extents.into_iter().enumerate().map(open);
        let copies = copies.collect::<Result<Vec<_>, LabError>>()?;
        Ok(Copies { copies, folder })
    }

    /// All of them, the master first.
    pub fn members(&self) -> &[Member] {
        &self.copies
    }

    /// Extents of that size in the pools of the first copies, outside their logs.
    ///
    /// # Errors
    /// If there is no space.
    pub fn scratches(&self, count: usize, bytes: usize) -> Result<Vec<ExtentWriter>, LabError> {
        let doing = "making room beside the copies";
        let pools = self.copies[..count].iter().map(|(pool, _)| pool);
        pools
            .map(|pool| pool.allocate(bytes as u64, 0).by(WHO, doing))
            .collect()
    }

    /// A set of the first copy and that many replicas. Every page has been written to, as in a running program. Several sets over
    /// the same copies may be used in turn.
    ///
    /// # Errors
    /// Copies that cannot be opened.
    pub fn set(&self, replicas: usize) -> Result<ReplicaSet, LabError> {
        let doing = "opening a replica set";
        let mut set = ReplicaSet::open(&self.copies[..=replicas]).by(WHO, doing)?;
        let method = Method::Always(Composition::BASIC);
        for page in (0..set.bytes(0).len()).step_by(PAGE_BYTES) {
            let mut word = [0; 4];
            word.copy_from_slice(&set.bytes(0)[page..page + 4]);
            set.write(&method, page as u64, &word).by(WHO, doing)?;
        }
        Ok(set)
    }
}

/// Measures while this far memory is emulated, or none.
///
/// # Errors
/// Those of the measurement.
pub fn emulating<T>(
    far: Option<FarMemory>,
    measure: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    emulation::set(far).by(WHO, "asking for emulation")?;
    let measured = measure();
    emulation::set(None).by(WHO, "ending emulation")?;
    measured
}

/// The key of a panel's rows in a memory: near, the panel's name alone.
pub fn panel(name: &str, memory: &str) -> String {
    match memory {
        NEAR => name.to_owned(),
        _ => format!("{name}, {memory}"),
    }
}

fn options(flush: Flush) -> PoolOptions {
    PoolOptions {
        flush: Some(flush),
        emulate_dax: true,
        ..PoolOptions::default()
    }
}

/// The time to store `value` at each position of an array, each durable before the next.
///
/// # Errors
/// The set's error.
#[inline(always)]
pub fn update(
    set: &mut ReplicaSet,
    method: &Method,
    positions: &[u32],
    value: u32,
) -> Result<u64, LabError> {
    let bytes = value.to_ne_bytes();
    let start = Instant::now();
    for &position in positions {
        set.write(method, u64::from(position) * 4, &bytes)
            .by("Tierra", "updating")?;
    }
    Ok(start.elapsed().as_nanos() as u64)
}

/// Checks that every copy has these bytes at each position.
///
/// # Errors
/// [`LabError::AnswersDiffer`] names the first that differs.
pub fn check(
    set: &ReplicaSet,
    who: &str,
    places: impl IntoIterator<Item = usize>,
    bytes: &[u8],
) -> Result<(), LabError> {
    for at in places {
        for copy in 0..set.copies() {
            if set.bytes(copy)[at..at + bytes.len()] != *bytes {
                return Err(LabError::AnswersDiffer {
                    what: format!("{} bytes at {at}", bytes.len()),
                    left: format!("copy {copy} by {who}"),
                    right: "what was written".to_owned(),
                    detail: "they are not there".to_owned(),
                });
            }
        }
    }
    Ok(())
}
