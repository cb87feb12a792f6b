//! A filter made ready for a column's physical type: bounds inclusive, kinds checked once.

use std::ops::Bound;
use std::sync::Arc;

use super::{Filter, FilterKind, ValueRange, ValueSet};
use crate::error::FilterError;
use crate::logical_type::{LogicalType, Physical};
use crate::value::Value;

/// An interval of strings, borrowed from the filter's.
pub(crate) type BytesRange = (Bound<Box<[u8]>>, Bound<Box<[u8]>>);

/// Which values pass, in the column's own physical type. NULL is not this type's business.
#[derive(Debug, Clone)]
pub(crate) enum ResolvedFilter {
    Nothing,
    Everything,
    /// Inclusive, sorted, disjoint, never empty.
    Ordinals(Vec<(u64, u64)>),
    Wide(Vec<(i128, i128)>),
    Bytes(Vec<BytesRange>),
    /// Of the column's physical type.
    Set {
        values: Arc<ValueSet>,
        negated: bool,
    },
    Codes {
        generation: u64,
        bitmap: Arc<[u64]>,
    },
}

impl ResolvedFilter {
    pub(crate) fn new(filter: &Filter, ty: LogicalType) -> Result<ResolvedFilter, FilterError> {
        let mismatch = |kind| FilterError::Type {
            filter: kind,
            column: ty.to_string(),
        };
        Ok(match &filter.kind {
            FilterKind::Nothing => ResolvedFilter::Nothing,
            FilterKind::Everything => ResolvedFilter::Everything,
            FilterKind::Ranges(ranges) => {
                let of = |pick: fn(&Value) -> bool| {
                    ranges
                        .iter()
                        .flat_map(|(low, high)| [low, high])
                        .find_map(|bound| match bound {
                            Bound::Included(v) | Bound::Excluded(v) if !pick(v) => Some(v.kind()),
                            _ => None,
                        })
                        .map_or(Ok(()), |kind| Err(mismatch(kind)))
                };
                match ty.physical() {
                    Physical::Ordinal => {
                        of(|value| matches!(value, Value::Ordinal(_)))?;
                        ResolvedFilter::Ordinals(inclusive(
                            ranges,
                            u64::MIN,
                            u64::MAX,
                            |v| match v {
                                Value::Ordinal(v) => Some(*v),
                                _ => None,
                            },
                        ))
                    }
                    Physical::Wide => {
                        of(|value| matches!(value, Value::Wide(_)))?;
                        ResolvedFilter::Wide(inclusive(ranges, i128::MIN, i128::MAX, |v| match v {
                            Value::Wide(v) => Some(*v),
                            _ => None,
                        }))
                    }
                    Physical::Bytes => {
                        of(|value| matches!(value, Value::Bytes(_)))?;
                        let own = |bound: &Bound<Value>| match bound {
                            Bound::Included(Value::Bytes(v)) => Bound::Included(v.clone()),
                            Bound::Excluded(Value::Bytes(v)) => Bound::Excluded(v.clone()),
                            _ => Bound::Unbounded,
                        };
                        ResolvedFilter::Bytes(
                            ranges.iter().map(|(l, h)| (own(l), own(h))).collect(),
                        )
                    }
                }
            }
            FilterKind::Set { values, negated } => {
                let kind = match (&**values, ty.physical()) {
                    (ValueSet::Ordinals(_), Physical::Ordinal)
                    | (ValueSet::Wide(_), Physical::Wide)
                    | (ValueSet::Bytes { .. }, Physical::Bytes) => None,
                    _ if values.is_empty() => None,
                    (ValueSet::Ordinals(_), _) => Some("64-bit"),
                    (ValueSet::Wide(_), _) => Some("DECIMAL"),
                    (ValueSet::Bytes { .. }, _) => Some("VARCHAR"),
                };
                if let Some(kind) = kind {
                    return Err(mismatch(kind));
                }
                match (values.is_empty(), negated) {
                    (true, false) => ResolvedFilter::Nothing,
                    (true, true) => ResolvedFilter::Everything,
                    (false, &negated) => ResolvedFilter::Set {
                        values: Arc::clone(values),
                        negated,
                    },
                }
            }
            FilterKind::Codes { generation, bitmap } => ResolvedFilter::Codes {
                generation: *generation,
                bitmap: Arc::clone(bitmap),
            },
        })
    }

    /// Whether an ordinal passes.
    #[inline]
    pub(crate) fn ordinal_passes(&self, value: u64) -> bool {
        match self {
            ResolvedFilter::Everything => true,
            ResolvedFilter::Ordinals(ranges) => ranges
                .iter()
                .any(|&(low, high)| low <= value && value <= high),
            ResolvedFilter::Set { values, negated } => match &**values {
                ValueSet::Ordinals(set) => set.contains(value) != *negated,
                _ => *negated,
            },
            _ => false,
        }
    }

    /// Whether a wide DECIMAL passes.
    #[inline]
    pub(crate) fn wide_passes(&self, value: i128) -> bool {
        match self {
            ResolvedFilter::Everything => true,
            ResolvedFilter::Wide(ranges) => ranges
                .iter()
                .any(|&(low, high)| low <= value && value <= high),
            ResolvedFilter::Set { values, negated } => match &**values {
                ValueSet::Wide(sorted) => sorted.binary_search(&value).is_ok() != *negated,
                _ => *negated,
            },
            _ => false,
        }
    }

    /// Whether a string passes.
    #[inline]
    pub(crate) fn bytes_pass(&self, value: &[u8]) -> bool {
        match self {
            ResolvedFilter::Everything => true,
            ResolvedFilter::Bytes(ranges) => ranges.iter().any(|(low, high)| {
                (match low {
                    Bound::Unbounded => true,
                    Bound::Included(low) => value >= &**low,
                    Bound::Excluded(low) => value > &**low,
                }) && match high {
                    Bound::Unbounded => true,
                    Bound::Included(high) => value <= &**high,
                    Bound::Excluded(high) => value < &**high,
                }
            }),
            ResolvedFilter::Set { values, negated } => match &**values {
                ValueSet::Bytes { hashed, .. } => hashed.contains(value) != *negated,
                _ => *negated,
            },
            _ => false,
        }
    }
}

/// Integers with a next and a previous one.
trait Integer: Copy + Ord {
    fn next(self) -> Option<Self>;
    fn previous(self) -> Option<Self>;
}

impl Integer for u64 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

impl Integer for i128 {
    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }
    fn previous(self) -> Option<Self> {
        self.checked_sub(1)
    }
}

/// The ranges with both ends included; the empty ones are gone.
fn inclusive<T: Integer>(
    ranges: &[ValueRange],
    least: T,
    greatest: T,
    take: impl Fn(&Value) -> Option<T>,
) -> Vec<(T, T)> {
    ranges
        .iter()
        .filter_map(|(low, high)| {
            let low = match low {
                Bound::Unbounded => least,
                Bound::Included(v) => take(v)?,
                Bound::Excluded(v) => take(v)?.next()?,
            };
            let high = match high {
                Bound::Unbounded => greatest,
                Bound::Included(v) => take(v)?,
                Bound::Excluded(v) => take(v)?.previous()?,
            };
            (low <= high).then_some((low, high))
        })
        .collect()
}
