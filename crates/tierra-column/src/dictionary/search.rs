//! Finding a value's code: an order of some codes by value, searched in groups.
//!
//! Beside the codes lie their *keys*, 8 bytes each: the ordinal itself, or a string's first eight
//! bytes. A search walks the dense keys and touches strings only between equal keys.

use std::ops::{Bound, Range};
use std::sync::Arc;

use tierra_index::lower_bound;
use tierra_interleave::{Cx, Mode};

use super::Values;
use crate::filter::BytesRange;
use crate::ordinal;
use crate::value::Value;

/// Codes in the order of their values.
#[derive(Debug, Clone)]
pub(super) struct Order {
    keys: Arc<Vec<u64>>,
    codes: Codes,
}

#[derive(Debug, Clone)]
enum Codes {
    /// The code at position `p` is `first + p`: these values are stored in order.
    Ranks {
        first: u32,
    },
    Sorted(Arc<Vec<u32>>),
}

impl Order {
    /// Of codes whose values ascend already.
    pub(super) fn ascending(values: &Values, codes: Range<u32>) -> Order {
        Order {
            codes: Codes::Ranks { first: codes.start },
            keys: Arc::new(codes.map(|code| values.key(code)).collect()),
        }
    }

    /// Of codes in any order.
    pub(super) fn sorting(values: &Values, codes: Range<u32>) -> Order {
        let mut sorted: Vec<(u64, u32)> = codes.map(|code| (values.key(code), code)).collect();
        match values {
            Values::Ordinals(_) => sorted.sort_unstable(),
            Values::Strings(strings) => sorted.sort_unstable_by(|&(a, x), &(b, y)| {
                a.cmp(&b)
                    .then_with(|| strings.value(x as usize).cmp(strings.value(y as usize)))
            }),
        }
        Order {
            keys: Arc::new(sorted.iter().map(|&(key, _)| key).collect()),
            codes: Codes::Sorted(Arc::new(sorted.into_iter().map(|(_, code)| code).collect())),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn len_bytes(&self) -> usize {
        let codes = match &self.codes {
            Codes::Ranks { .. } => 0,
            Codes::Sorted(codes) => codes.len() * size_of::<u32>(),
        };
        self.keys.len() * size_of::<u64>() + codes
    }

    /// The code at a position of the order.
    #[inline]
    pub(super) fn code(&self, position: usize) -> u32 {
        match &self.codes {
            Codes::Ranks { first } => first + position as u32,
            Codes::Sorted(codes) => codes[position],
        }
    }

    /// The code whose value equals `value`.
    pub(super) async fn find<M: Mode>(
        &self,
        cx: Cx<M>,
        values: &Values,
        value: &Value,
    ) -> Option<u32> {
        let (key, bytes) = match value {
            Value::Ordinal(ordinal) => (*ordinal, None),
            Value::Bytes(bytes) => (ordinal::of_prefix(bytes), Some(&**bytes)),
            Value::Wide(_) => return None,
        };
        let low = lower_bound(cx, &self.keys, key).await;
        if self.keys.get(low) != Some(&key) {
            return None;
        }
        let (strings, bytes) = match (values, bytes) {
            (Values::Ordinals(_), None) => return Some(self.code(low)),
            (Values::Strings(strings), Some(bytes)) => (strings, bytes),
            _ => return None,
        };
        // Among equal keys the strings themselves decide.
        let mut low = low;
        let mut len = match key.checked_add(1) {
            Some(next) if self.keys.get(low + 1) == Some(&key) => {
                lower_bound(cx, &self.keys[low..], next).await
            }
            Some(_) => 1,
            None => self.keys.len() - low,
        };
        while len > 0 {
            let half = len / 2;
            let code = self.code(low + half);
            let view = *cx.load(&strings.views()[code as usize]).await;
            let found = strings.value(code as usize).as_bytes();
            if view as u32 as usize > crate::reader::INLINE_BYTES {
                // One line decides nearly always: the bytes behind the common prefix.
                cx.load(&found[0]).await;
            }
            match found.cmp(bytes) {
                std::cmp::Ordering::Equal => return Some(code),
                std::cmp::Ordering::Less => (low, len) = (low + half + 1, len - half - 1),
                std::cmp::Ordering::Greater => len = half,
            }
        }
        None
    }

    /// Codes of ordinals between two, both included.
    pub(super) fn between(&self, low: u64, high: u64) -> impl Iterator<Item = u32> {
        let from = self.keys.partition_point(|&key| key < low);
        let to = self.keys.partition_point(|&key| key <= high);
        (from..to).map(|position| self.code(position))
    }

    /// Codes of strings in a range.
    pub(super) fn within(
        &self,
        values: &Values,
        (low, high): &BytesRange,
    ) -> impl Iterator<Item = u32> {
        let rank = |before: &dyn Fn(&[u8]) -> bool| {
            let Values::Strings(strings) = values else {
                return 0;
            };
            let (mut low, mut len) = (0, self.len());
            while len > 0 {
                let half = len / 2;
                if before(strings.value(self.code(low + half) as usize).as_bytes()) {
                    (low, len) = (low + half + 1, len - half - 1);
                } else {
                    len = half;
                }
            }
            low
        };
        let from = match low {
            Bound::Unbounded => 0,
            Bound::Included(low) => rank(&|value| value < &**low),
            Bound::Excluded(low) => rank(&|value| value <= &**low),
        };
        let to = match high {
            Bound::Unbounded => self.len(),
            Bound::Included(high) => rank(&|value| value <= &**high),
            Bound::Excluded(high) => rank(&|value| value < &**high),
        };
        (from..to).map(|position| self.code(position))
    }
}
