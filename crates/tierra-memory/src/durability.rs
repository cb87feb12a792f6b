//! What stored bytes survive.

use std::fmt;

/// What a pool's content survives once it is persisted, and at what grain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// A power cut; line by line, by flush and fence.
    CacheLine,
    /// A power cut; page by page, by the kernel's write-back.
    Page,
    /// The end of the process, by a kill as well, but no power cut.
    ProcessOnly,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::CacheLine => "cache line",
            Durability::Page => "page",
            Durability::ProcessOnly => "process only",
        })
    }
}
