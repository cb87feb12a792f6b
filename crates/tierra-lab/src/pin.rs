//! The CPUs of an experiment: the same number on every machine, and always the same ones.
//!
//! "Two threads" on a machine of 64 cores must not be two threads that move over 64 caches. Threads and child processes inherit
//! the mask, so it is set before the first one starts.

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Restricts this thread, and everything it starts from now on, to the first `count` CPUs it may use. Returns their numbers:
/// fewer if the machine has fewer, none if the system refuses.
pub fn to_first_cpus(count: usize) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let chosen: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .take(count)
        .collect();
    let mut set = CpuSet::new();
    for &cpu in &chosen {
        set.set(cpu);
    }
    match sched_setaffinity(None, &set) {
        Ok(()) => chosen,
        Err(_) => Vec::new(),
    }
}

/// Restricts this thread to the `number`th of the CPUs it may use, if there is one, so that threads measured together run
/// in parallel from the start.
pub fn to_cpu(number: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
    if let Some(cpu) = cpus.nth(number) {
        let mut set = CpuSet::new();
        set.set(cpu);
        // If the system refuses, the thread may move between CPUs, which is slower but not wrong.
        let _ = sched_setaffinity(None, &set);
    }
}

/// The `number`th of the CPUs that this process may use, independent of this thread's mask.
pub(crate) fn cpu_of_process(number: usize) -> Option<CpuSet> {
    // The mask of the first thread is taken as that of the process.
    let allowed = sched_getaffinity(Some(getpid())).ok()?;
    let cpu = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .nth(number)?;
    let mut set = CpuSet::new();
    set.set(cpu);
    Some(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_asked_for_and_inherited() {
        // On a separate thread: the mask would stay with the test runner's thread.
        let (chosen, seen) = std::thread::spawn(|| {
            let chosen = to_first_cpus(1);
            let seen = std::thread::spawn(|| sched_getaffinity(None).map(|set| set.count()));
            (chosen, seen.join().unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(chosen.len(), 1);
        assert_eq!(seen.unwrap(), 1);
        let only = std::thread::spawn(|| {
            to_cpu(0);
            sched_getaffinity(None).map(|set| set.count())
        });
        assert_eq!(only.join().unwrap().unwrap(), 1);
    }
}
