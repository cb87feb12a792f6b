//! Which page size a mapping really got, as the kernel reports in `/proc/self/smaps`.
//!
//! Asking for 2 MiB pages is a hint; a report of speeds says what share was granted. A mapping on
//! `hugetlbfs` says so in `KernelPageSize`; transparent large pages appear as bytes mapped by
//! page-middle-directory entries.

use std::fs::File;
use std::io::{BufRead, BufReader};

use crate::LARGE_PAGE_BYTES;

/// What the mappings that overlap a range hold, in KiB.
#[derive(Debug, Default, PartialEq, Eq)]
struct Backing {
    resident_kib: u64,
    large_kib: u64,
    page_kib: u64,
}

/// Bytes of the pages that back most of the touched bytes of `[start, start + len_bytes)`; the base
/// page size where nothing is touched or the kernel does not say.
pub(crate) fn page_size_bytes(start: usize, len_bytes: usize) -> usize {
    let base_bytes = crate::base_page_bytes();
    let Ok(file) = File::open("/proc/self/smaps") else {
        return base_bytes;
    };
    let backing = read(BufReader::new(file), start, start.saturating_add(len_bytes));
    let page_bytes = backing.page_kib as usize * 1024;
    if page_bytes > base_bytes {
        page_bytes
    } else if backing.large_kib > 0 && backing.large_kib * 2 >= backing.resident_kib {
        LARGE_PAGE_BYTES
    } else {
        base_bytes
    }
}

fn read(lines: impl BufRead, start: usize, end: usize) -> Backing {
    let mut backing = Backing::default();
    let mut inside = false;
    for line in lines.lines().map_while(Result::ok) {
        if let Some((from, to)) = addresses(&line) {
            inside = from < end && start < to;
        } else if inside && let Some((key, kib)) = amount(&line) {
            match key {
                "Rss" => backing.resident_kib += kib,
                "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => backing.large_kib += kib,
                "KernelPageSize" => backing.page_kib = backing.page_kib.max(kib),
                _ => {}
            }
        }
    }
    backing
}

/// `7f0000000000-7f0000200000 rw-p ..` begins a mapping.
fn addresses(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_whitespace().next()?.split_once('-')?;
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
    ))
}

/// `Rss:   2048 kB`.
fn amount(line: &str) -> Option<(&str, u64)> {
    let (key, rest) = line.split_once(':')?;
    Some((key, rest.trim().strip_suffix("kB")?.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Rss:                4096 kB
AnonHugePages:      2048 kB
KernelPageSize:        4 kB
7f0000400000-7f0000800000 rw-s 00000000 00:0f 7 /mnt/huge/x
Rss:                   0 kB
KernelPageSize:     2048 kB
VmFlags: rd wr
";

    #[test]
    fn only_overlapping_mappings_count() {
        let first = read(SMAPS.as_bytes(), 0x7f00_0000_1000, 0x7f00_0000_2000);
        assert_eq!(
            first,
            Backing {
                resident_kib: 4096,
                large_kib: 2048,
                page_kib: 4
            }
        );
        let second = read(SMAPS.as_bytes(), 0x7f00_0040_0000, 0x7f00_0080_0000);
        assert_eq!(
            second,
            Backing {
                resident_kib: 0,
                large_kib: 0,
                page_kib: 2048
            }
        );
        let none = read(SMAPS.as_bytes(), 0x1000, 0x2000);
        assert_eq!(none, Backing::default());
    }

    #[test]
    fn this_stack_has_base_pages() {
        let local = 0u8;
        assert_eq!(
            page_size_bytes((&raw const local).addr(), 1),
            crate::base_page_bytes()
        );
    }
}
