//! A server of records: what it tells for its metrics and its page.

use crate::metrics::Text;
use crate::samples::Samples;

/// What a server of records tells.
pub trait Records: Send + Sync + 'static {
    /// Writes its metrics.
    fn write_metrics(&self, text: &mut Text);

    /// The names of the numbers of [`sample`](Self::sample). `page/kv.js` says which the page asks for.
    fn names(&self) -> Vec<String>;

    /// Its numbers, now.
    fn sample(&self) -> Vec<u64>;
}

/// What requests share.
pub(crate) struct SharedRecords<R> {
    pub(crate) records: R,
    pub(crate) samples: Samples,
}

impl<R: Records> SharedRecords<R> {
    pub(crate) fn new(records: R) -> Self {
        Self {
            samples: Samples::new(records.names(), &[]),
            records,
        }
    }
}
