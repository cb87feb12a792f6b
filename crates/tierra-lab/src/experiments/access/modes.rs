//! How scans read: the modes that are compared.

use std::fmt;

use tierra_engine::Access;
use tierra_memory::CopyMethod;

/// How scans read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) access: Access,
    /// Lines of the next block that are asked for ahead.
    pub(super) lines: usize,
    /// Blocks that a helper is ahead.
    pub(super) helper_blocks: usize,
    /// Whether a query has one thread, so that a core is spare for a helper.
    pub(super) is_alone: bool,
}

pub(super) const IN_PLACE: Mode = in_place(0);
pub(super) const MAPPED: Mode = of(Access::Framed(CopyMethod::Mapped));
pub(super) const BUFFERED: Mode = of(Access::Framed(CopyMethod::Buffered));
pub(super) const DIRECT: Mode = of(Access::Framed(CopyMethod::Direct));
pub(super) const AUTO: Mode = of(Access::Auto);
/// In place on one thread, without and with a helper.
pub(super) const ALONE: Mode = helped(0);
pub(super) const HELPED: [Mode; 4] = [helped(1), helped(2), helped(4), helped(8)];
/// In place, asking for lines ahead.
pub(super) const AHEAD: [Mode; 4] = [in_place(1), in_place(4), in_place(16), in_place(64)];
/// Those of a file in memory, which cannot be read past the page cache.
pub(super) const NEAR: [Mode; 4] = [IN_PLACE, MAPPED, BUFFERED, AUTO];
/// Those of far memory, where there is something to fetch ahead.
pub(super) const FAR: [Mode; 13] = [
    IN_PLACE, AHEAD[0], AHEAD[1], AHEAD[2], AHEAD[3], MAPPED, BUFFERED, AUTO, ALONE, HELPED[0],
    HELPED[1], HELPED[2], HELPED[3],
];
/// Those of a file on a disk.
pub(super) const ON_DISK: [Mode; 5] = [IN_PLACE, MAPPED, BUFFERED, DIRECT, AUTO];

const fn of(access: Access) -> Mode {
    Mode {
        access,
        lines: 0,
        helper_blocks: 0,
        is_alone: false,
    }
}

const fn in_place(lines: usize) -> Mode {
    Mode {
        lines,
        ..of(Access::InPlace)
    }
}

const fn helped(helper_blocks: usize) -> Mode {
    Mode {
        helper_blocks,
        is_alone: true,
        ..of(Access::InPlace)
    }
}

impl Mode {
    /// Whether neither lines nor helpers are asked for, on all threads.
    pub(super) fn is_plain(self) -> bool {
        self.lines == 0 && self.helper_blocks == 0 && !self.is_alone
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.access.fmt(f)?;
        match self.lines {
            0 => {}
            1 => f.write_str(", a line ahead")?,
            lines => write!(f, ", {lines} lines ahead")?,
        }
        if self.is_alone {
            f.write_str(", one thread")?;
        }
        match self.helper_blocks {
            0 => Ok(()),
            1 => f.write_str(", a helper a block ahead"),
            blocks => write!(f, ", a helper {blocks} blocks ahead"),
        }
    }
}
