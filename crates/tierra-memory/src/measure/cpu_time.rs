//! The processor's time that the process has had, in itself and in the kernel.

use std::mem::MaybeUninit;

/// Processor time of all threads of the process, those that have ended included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Nanoseconds in the process.
    pub user_ns: u64,
    /// Nanoseconds in the kernel on its behalf.
    pub system_ns: u64,
}

impl CpuTime {
    /// Up to now. How finely it is divided between process and kernel depends on the kernel: some look at each tick only.
    pub fn now() -> CpuTime {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel fills in the structure; it cannot fail for the own process, and zeros are a value of it anyway.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns =
            |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        CpuTime {
            user_ns: ns(usage.ru_utime),
            system_ns: ns(usage.ru_stime),
        }
    }

    /// What has passed since an earlier reading.
    pub fn since(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let (before, start) = (CpuTime::now(), Instant::now());
        let mut value = 1_u64;
        // Another thread may hold the processor: until this one has had some time.
        while CpuTime::now().since(before).user_ns < 1_000_000 {
            value = std::hint::black_box(value.wrapping_mul(31) + 7);
            assert!(start.elapsed() < Duration::from_secs(60), "no time passes");
        }
        assert_eq!(before.since(CpuTime::now()), CpuTime::default());
    }
}
