//! A tier with an open pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tierra_memory::Pool;

use crate::spec::replicas::TierId;

/// A tier with an open pool.
#[derive(Clone, Debug)]
pub(crate) struct Tier {
    pub(crate) id: TierId,
    pub(crate) name: Arc<str>,
    pub(crate) pool: Arc<Pool>,
    /// The pool's fault epoch up to which all losses are noted ([`losses`](super::losses)).
    pub(crate) noted_epoch: Arc<AtomicU64>,
}

impl Tier {
    /// Whether pages were lost that are not noted yet.
    #[inline]
    pub(crate) fn has_losses(&self) -> bool {
        // In this order, because the pool's epoch is never behind.
        self.noted_epoch.load(Ordering::Acquire) != self.pool.fault_epoch()
    }

    /// A tier without losses since its pool was opened.
    pub(crate) fn new(id: TierId, name: impl Into<Arc<str>>, pool: Arc<Pool>) -> Tier {
        Tier {
            id,
            name: name.into(),
            pool,
            noted_epoch: Arc::default(),
        }
    }
}
