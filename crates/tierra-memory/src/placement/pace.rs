//! The pace of moves: a token bucket of bytes.
//!
//! Moves take bandwidth from requests. A [`Pace`] grants bytes to move in proportion to what requests read and
//! write, so that a system under load moves no more than a bounded share, and an idle one nothing.

/// How many bytes may move: a share of what requests read and write.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Of 1,024 bytes.
    share: u64,
    granted_bytes: i64,
}

/// The most that is saved up: enough to begin at once when requests come after a pause.
const SAVED_BYTES_MAX: i64 = 4 << 20;

impl Pace {
    /// At most `share_percent` bytes moved for a hundred that requests touch.
    pub fn new(share_percent: u64) -> Pace {
        Pace {
            share: share_percent * 1024 / 100,
            granted_bytes: SAVED_BYTES_MAX,
        }
    }

    /// Requests have touched as many bytes.
    #[inline(always)]
    pub fn refill(&mut self, bytes: u64) {
        let granted = (bytes * self.share / 1024) as i64;
        self.granted_bytes = (self.granted_bytes + granted).min(SAVED_BYTES_MAX);
    }

    /// Whether something may move now.
    #[inline(always)]
    pub fn allows(&self) -> bool {
        self.granted_bytes > 0
    }

    /// As many bytes have moved, whether allowed or not. The debt is bounded.
    #[inline(always)]
    pub fn spend(&mut self, bytes: u64) {
        self.granted_bytes = (self.granted_bytes - bytes as i64).max(-SAVED_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_stay_within_their_share() {
        let mut pace = Pace::new(20);
        let mut moved = 0;
        for _ in 0..100_000 {
            pace.refill(1000);
            if pace.allows() {
                pace.spend(1000);
                moved += 1000;
            }
        }
        assert!((20_000_000..25_000_000).contains(&moved), "{moved}");
    }
}
