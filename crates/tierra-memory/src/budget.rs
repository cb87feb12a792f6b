//! The near-memory budget: how many bytes of near memory may still be taken.
//!
//! Invariant: the bytes in use are the sum of the reservations alive and never exceed the limit.
//! A reservation is a value; dropping it gives its bytes back, on every path.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit on near memory, shared by everything that copies data near. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit_bytes: u64,
    used_bytes: AtomicU64,
}

impl Budget {
    /// A budget of `limit_bytes`, none of them used.
    pub(crate) fn new(limit_bytes: u64) -> Budget {
        Budget(Arc::new(Account {
            limit_bytes,
            used_bytes: AtomicU64::new(0),
        }))
    }

    /// Takes `bytes` if they are left, or nothing.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        self.0
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes)
                    .filter(|&after| after <= self.0.limit_bytes)
            })
            .ok()
            .map(|_| Reservation {
                account: Arc::clone(&self.0),
                bytes,
            })
    }

    /// Bytes reserved now.
    pub(crate) fn used(&self) -> u64 {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that may be reserved in all.
    pub(crate) fn limit(&self) -> u64 {
        self.0.limit_bytes
    }
}

/// Near memory set aside; given back when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account
            .used_bytes
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_to_the_byte() {
        let budget = Budget::new(100);
        let first = budget.try_reserve(60).unwrap();
        assert!(budget.try_reserve(41).is_none());
        assert!(budget.try_reserve(u64::MAX).is_none());
        let second = budget.try_reserve(40).unwrap();
        assert_eq!(budget.used(), 100);
        drop(first);
        assert_eq!(budget.used(), 40);
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn threads_never_exceed_the_limit() {
        let budget = Budget::new(10);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Some(_held) = budget.try_reserve(3) {
                            assert!(budget.used() <= 10);
                        }
                    }
                });
            }
        });
        assert_eq!(budget.used(), 0);
    }
}
