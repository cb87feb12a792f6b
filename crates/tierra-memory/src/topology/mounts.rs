//! Mounts that can hold a pool in memory, from `/proc/self/mountinfo`.
//!
//! ```text
//! 36 35 98:0 / /mnt/pmem0 rw,noatime shared:1 - ext4 /dev/pmem0 rw,dax=always
//!         root mount point           optional ..| type source    super options
//! ```
//! Invariant: only writable mounts are listed, none of the kernel's own below `/sys` and `/proc`, and
//! each mount point once (the last mounted hides the others).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::error::TopologyError;
use super::node::NodeId;
use super::sysfs;

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is mounted.
    pub path: PathBuf,
    /// Its type, such as `ext4`.
    pub file_system: String,
    /// What is mounted, such as `/dev/pmem0`.
    pub source: String,
    /// Bytes of the file system, and those of them still free; `None` where they cannot be had.
    pub bytes: Option<(u64, u64)>,
    /// The node its memory is at, where sysfs says.
    pub node: Option<NodeId>,
}

/// Mounts with DAX, and mounts in memory.
pub(super) fn read(root: &Path) -> Result<(Vec<Mount>, Vec<Mount>), TopologyError> {
    let text = sysfs::read(&root.join("proc/self/mountinfo"))?;
    let (mut dax, mut tmpfs) = (Vec::new(), Vec::new());
    for line in text.lines().filter_map(MountInfoLine::parse) {
        let list = match line.file_system {
            "tmpfs" | "ramfs" => &mut tmpfs,
            _ if line.has_dax() => &mut dax,
            _ => continue,
        };
        let path = line.path();
        if !line.is_writable() || path.starts_with("/sys") || path.starts_with("/proc") {
            continue;
        }
        let below_root = root.join(path.strip_prefix("/").unwrap_or(&path));
        let bytes = rustix::fs::statvfs(&below_root).ok().map(|system| {
            let blocks = |count: u64| count.saturating_mul(system.f_frsize);
            (blocks(system.f_blocks), blocks(system.f_bavail))
        });
        list.retain(|mount: &Mount| mount.path != path);
        list.push(Mount {
            path,
            file_system: line.file_system.to_owned(),
            source: line.source.to_owned(),
            bytes,
            node: sysfs::block_device_node(root, line.source),
        });
    }
    Ok((dax, tmpfs))
}

/// The fields of a line that matter here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MountInfoLine<'a> {
    root: &'a str,
    path: &'a str,
    options: &'a str,
    file_system: &'a str,
    source: &'a str,
    super_options: &'a str,
}

impl<'a> MountInfoLine<'a> {
    /// `None` for a line that is not a mount: newer kernels may add what this program cannot know.
    pub(super) fn parse(line: &'a str) -> Option<MountInfoLine<'a>> {
        let (mount, system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut system = system.split(' ');
        Some(MountInfoLine {
            root: mount.next()?,
            path: mount.next()?,
            options: mount.next()?,
            file_system: system.next()?,
            source: system.next()?,
            super_options: system.next().unwrap_or(""),
        })
    }

    /// What of the file system is mounted.
    pub(super) fn root(&self) -> PathBuf {
        unescape(self.root)
    }

    /// Where it is mounted.
    pub(super) fn path(&self) -> PathBuf {
        unescape(self.path)
    }

    pub(super) fn is_of(&self, file_system: &str) -> bool {
        self.file_system == file_system
    }

    /// Whether the file system, not its mount, has this option.
    pub(super) fn has_option(&self, option: &str) -> bool {
        self.super_options.split(',').any(|other| other == option)
    }

    fn has_dax(&self) -> bool {
        self.has_option("dax") || self.has_option("dax=always")
    }

    fn is_writable(&self) -> bool {
        let read_only = |options: &str| options.split(',').any(|option| option == "ro");
        !read_only(self.options) && !read_only(self.super_options)
    }
}

/// Spaces, tabs, newlines and backslashes are written as `\ooo`.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes[at..]
            .strip_prefix(b"\\")
            .and_then(|rest| rest.get(..3))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(octal.unwrap_or(bytes[at]));
        at += if octal.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_and_without_optional_fields() {
        let line = MountInfoLine::parse(
            "36 35 98:0 / /mnt/a rw shared:1 master:2 - ext4 /dev/pmem0 rw,dax",
        );
        let line = line.unwrap();
        assert_eq!((line.path, line.source), ("/mnt/a", "/dev/pmem0"));
        assert!(line.has_dax() && line.is_writable());
        let line =
            MountInfoLine::parse("25 24 0:23 / /dev/shm ro - tmpfs tmpfs rw,size=1k").unwrap();
        assert!(!line.has_dax() && !line.is_writable());
        assert_eq!(MountInfoLine::parse("25 24 0:23 / /dev/shm"), None);
        assert_eq!(MountInfoLine::parse(""), None);
        assert!(
            !MountInfoLine::parse("1 2 0:1 / /a rw - xfs /dev/p rw,dax=never")
                .unwrap()
                .has_dax()
        );
    }

    #[test]
    fn escapes_become_bytes() {
        assert_eq!(unescape("/a\\040b\\134"), Path::new("/a b\\"));
        assert_eq!(unescape("/a\\04"), Path::new("/a\\04"));
        assert_eq!(unescape("/a\\999"), Path::new("/a\\999"));
    }
}
