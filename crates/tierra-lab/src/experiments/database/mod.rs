//! Databases that experiments kill and damage: those of the engine's tests, and children that change a database until they
//! are killed.

#[path = "../../../../tierra-engine/tests/changed/mod.rs"]
pub(super) mod changed;
#[path = "../../../../tierra-engine/tests/killed/mod.rs"]
pub(super) mod killed;
#[path = "../../../../tierra-engine/tests/simulated/mod.rs"]
pub(super) mod simulated;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use self::killed::Work;
use crate::children;
use crate::error::{Context, LabError};

/// Runs as a child that changes a database. It returns only if there is no such work.
///
/// # Errors
/// [`LabError`]: no such work.
pub(super) fn change(work: &str, dir: &Path, number: u64) -> Result<(), LabError> {
    let known = Work::named(work).ok_or("the lab's experiments name it");
    let known = known.by("a child", format!("doing `{work}`"))?;
    killed::change_until_killed(known, dir, number);
    Ok(())
}

/// Starts a child.
///
/// # Errors
/// If this program cannot be started again.
pub(super) fn start(work: &str, dir: &Path, number: u64) -> Result<Child, LabError> {
    let this = std::env::current_exe().by("the lab", "finding itself")?;
    let mut command = Command::new(this);
    command
        .args(["child", work])
        .arg(dir)
        .arg(number.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    children::start(&mut command, None).by("the lab", "starting a child")
}
