//! Page faults of this thread, as the kernel counts them.
//!
//! A fault costs more than most of what the lab measures: the kernel finds a page and clears it. So experiments that allocate while
//! they are measured count faults beside the time.

/// Faults of this thread so far that read nothing from a disk. `None` if the kernel does not tell.
pub fn so_far() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The name, in parentheses, may hold anything; the count is eight words after it.
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_touched_for_the_first_time_faults() {
        const PAGES: u64 = 64;
        let Some(before) = so_far() else {
            return;
        };
        let mut region = tierra_memory::Region::near(2 << 20).expect("memory");
        let page_bytes = tierra_memory::base_page_bytes();
        let step = page_bytes.max(region.page_size_bytes());
        for at in (0..region.len()).step_by(step).take(PAGES as usize) {
            region[at] = 1;
        }
        assert!(so_far().expect("told before") > before);
    }
}
