//! Unions of intervals of values, kept sorted and disjoint as `FilterKind::Ranges` requires.

use std::cmp::Ordering;
use std::ops::Bound;

use tierra_column::{Filter, FilterKind, Value, ValueRange};

/// Values in one of `a`'s intervals or in one of `b`'s.
pub(crate) fn union(a: Vec<ValueRange>, b: Vec<ValueRange>) -> Vec<ValueRange> {
    let mut all: Vec<ValueRange> = a.into_iter().chain(b).collect();
    all.sort_by(|a, b| compare_low(&a.0, &b.0));
    let mut merged: Vec<ValueRange> = Vec::with_capacity(all.len());
    for range in all {
        match merged.last_mut() {
            Some(last) if touches(&last.1, &range.0) => {
                if compare_high(&last.1, &range.1) == Ordering::Less {
                    last.1 = range.1;
                }
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// A filter for either condition; `None` if no single filter expresses it.
pub(crate) fn or(a: Filter, b: Filter) -> Option<Filter> {
    use FilterKind::{Everything, Nothing, Ranges};
    let matches_null = a.matches_null || b.matches_null;
    let kind = match (a.kind, b.kind) {
        (Everything, _) | (_, Everything) => Everything,
        (Nothing, kind) | (kind, Nothing) => kind,
        (Ranges(a), Ranges(b)) => Ranges(union(a, b)),
        _ => return None,
    };
    Some(Filter { kind, matches_null })
}

/// Which lower bound admits more: `Less` if `a` begins before `b`.
fn compare_low(a: &Bound<Value>, b: &Bound<Value>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Less,
        (_, Bound::Unbounded) => Ordering::Greater,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => x
            .cmp(y)
            .then(matches!(a, Bound::Excluded(_)).cmp(&matches!(b, Bound::Excluded(_)))),
    }
}

/// `Less` if `a` ends before `b`.
fn compare_high(a: &Bound<Value>, b: &Bound<Value>) -> Ordering {
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => Ordering::Greater,
        (_, Bound::Unbounded) => Ordering::Less,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => x
            .cmp(y)
            .then(matches!(a, Bound::Included(_)).cmp(&matches!(b, Bound::Included(_)))),
    }
}

/// Whether an interval that begins at `low` overlaps or continues one that ends at `high`.
fn touches(high: &Bound<Value>, low: &Bound<Value>) -> bool {
    match (high, low) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(high), Bound::Included(low) | Bound::Excluded(low)) => low <= high,
        (Bound::Excluded(high), Bound::Included(low)) => low <= high,
        // `x < 5 OR x > 5` leaves 5 out.
        (Bound::Excluded(high), Bound::Excluded(low)) => low < high,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_filter() -> impl Strategy<Value = Filter> {
        let value = || (0_u64..8).prop_map(Value::Ordinal);
        prop_oneof![
            Just(Filter::nothing()),
            Just(Filter::everything()),
            Just(Filter::is_null()),
            value().prop_map(Filter::eq),
            value().prop_map(Filter::not_eq),
            value().prop_map(Filter::less),
            value().prop_map(Filter::greater_or_equal),
            (value(), value()).prop_map(|(a, b)| Filter::between(a, b)),
        ]
    }

    fn passes(filter: &Filter, value: u64) -> bool {
        let value = Value::Ordinal(value);
        match &filter.kind {
            FilterKind::Nothing => false,
            FilterKind::Everything => true,
            FilterKind::Ranges(ranges) => ranges
                .iter()
                .any(|(low, high)| (low.as_ref(), high.as_ref()).contains(&&value)),
            _ => unreachable!("not generated"),
        }
    }

    use std::ops::RangeBounds;

    proptest! {
        #[test]
        fn or_passes_what_either_passes_in_sorted_disjoint_ranges(
            a in any_filter(), b in any_filter(), c in any_filter(),
        ) {
            let ab = or(a.clone(), b.clone()).expect("ranges unite");
            let all = or(ab, c.clone()).expect("ranges unite");
            prop_assert_eq!(all.matches_null, a.matches_null || b.matches_null || c.matches_null);
            for value in 0..9 {
                let expected = passes(&a, value) || passes(&b, value) || passes(&c, value);
                prop_assert_eq!(passes(&all, value), expected, "{} {:?}", value, all);
            }
            if let FilterKind::Ranges(ranges) = &all.kind {
                for pair in ranges.windows(2) {
                    prop_assert!(!touches(&pair[0].1, &pair[1].0), "{:?}", ranges);
                }
            }
        }
    }
}
