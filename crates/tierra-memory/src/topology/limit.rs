//! How much memory the control groups of this process let it have.
//!
//! ```text
//! /proc/self/cgroup      0::/system.slice/tierra.service       the group, below the root of its hierarchy
//! /proc/self/mountinfo   .. /system.slice /sys/fs/cgroup ..    what of the hierarchy is mounted where
//! memory.max             max, or bytes                         of the group, and of each group above it
//! ```
//! A group has no more than those above it, whatever its own limit says, so the least counts. `memory.high` slows a group down long
//! before it is killed, so it counts as well. Version 1 has `memory.limit_in_bytes` in a hierarchy of its own.
//!
//! Invariant: a file that is not there, or that may not be read, is no limit; a group outside of what is mounted has those of the
//! mount's own group.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::TopologyError;
use super::mounts::MountInfoLine;
use super::sysfs;

/// From here on a number of version 1 means that there is no limit: the most pages that it counts.
const NONE_BYTES: u64 = 1 << 62;

/// A version of control groups.
struct Version {
    /// The type of its file system.
    file_system: &'static str,
    files: &'static [&'static str],
    is_first: bool,
}

const VERSIONS: [Version; 2] = [
    Version {
        file_system: "cgroup2",
        files: &["memory.max", "memory.high"],
        is_first: false,
    },
    Version {
        file_system: "cgroup",
        files: &["memory.limit_in_bytes"],
        is_first: true,
    },
];

/// The least limit of the groups of this process; `None` if there is none.
pub(super) fn read(root: &Path) -> Result<Option<u64>, TopologyError> {
    let Ok(groups) = fs::read_to_string(root.join("proc/self/cgroup")) else {
        return Ok(None);
    };
    let mounts = sysfs::read(&root.join("proc/self/mountinfo"))?;
    let mut least = None;
    for version in &VERSIONS {
        let Some(group) = groups.lines().find_map(|line| version.group(line)) else {
            continue;
        };
        // The last mounted hides the others.
        let mut mounted = mounts.lines().rev().filter_map(MountInfoLine::parse);
        let Some(mount) = mounted.find(|line| version.is_on(line)) else {
            continue;
        };
        let top = mount.path();
        let top = root.join(top.strip_prefix("/").unwrap_or(&top));
        for folder in folders(&top, &mount.root(), Path::new(group)) {
            for file in version.files {
                let limit = limit(&folder.join(file))?;
                least = [least, limit].into_iter().flatten().min();
            }
        }
    }
    Ok(least)
}

impl Version {
    /// The group in a line of `/proc/self/cgroup`, if it is one of this version: `NUMBER:CONTROLLERS:GROUP`.
    fn group<'a>(&self, line: &'a str) -> Option<&'a str> {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let is_of = match self.is_first {
            true => controllers.split(',').any(|name| name == "memory"),
            false => controllers.is_empty(),
        };
        is_of.then_some(group)
    }

    fn is_on(&self, mount: &MountInfoLine<'_>) -> bool {
        mount.is_of(self.file_system) && (!self.is_first || mount.has_option("memory"))
    }
}

/// The folder of `group` and those above it, up to `top`, where the part of the hierarchy below `root` is mounted.
fn folders(top: &Path, root: &Path, group: &Path) -> Vec<PathBuf> {
    let mut below = group.strip_prefix(root).unwrap_or(Path::new(""));
    // Of a group outside of the namespace.
    if below.iter().any(|part| part == "..") {
        below = Path::new("");
    }
    below.ancestors().map(|part| top.join(part)).collect()
}

/// The limit in a file.
fn limit(path: &Path) -> Result<Option<u64>, TopologyError> {
    let Ok(text) = fs::read_to_string(path) else {
        return Ok(None);
    };
    match text.trim() {
        "max" => Ok(None),
        text => {
            let bytes: u64 = sysfs::parse(path, text, "bytes, or max")?;
            Ok(Some(bytes).filter(|bytes| *bytes < NONE_BYTES))
        }
    }
}
