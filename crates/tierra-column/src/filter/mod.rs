//! Conditions on one column, as SQL means them.
//!
//! SQL's logic has three values, a `WHERE` keeps only rows that are *true*. A [`Filter`] therefore
//! says which values make it true ([`FilterKind`]) and, separately, whether NULL does
//! (`matches_null`, only ever for `IS NULL` and its kin). `NULL <> 3` and `NULL NOT IN (3)` are
//! unknown, so their filters leave `matches_null` off; nothing negates a filter afterwards.

mod arrays;
mod bitmap;
mod ordinal_set;
mod resolved;
mod value_set;

use std::ops::Bound;
use std::sync::Arc;

pub use arrays::evaluate;
pub(crate) use bitmap::Bitmap;
pub use ordinal_set::OrdinalSet;
pub(crate) use resolved::{BytesRange, ResolvedFilter};
pub use value_set::ValueSet;

use crate::value::Value;

/// An interval of values.
pub type ValueRange = (Bound<Value>, Bound<Value>);

/// One column's condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Which values pass.
    pub kind: FilterKind,
    /// Whether a NULL row passes.
    pub matches_null: bool,
}

/// Which values (never NULL) a filter lets pass.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterKind {
    /// No value.
    Nothing,
    /// Every value.
    Everything,
    /// Values inside one of these intervals, which are sorted and disjoint.
    Ranges(Vec<ValueRange>),
    /// Members of a set, or with `negated` all others.
    Set {
        /// The set.
        values: Arc<ValueSet>,
        /// `NOT IN`.
        negated: bool,
    },
    /// Values whose dictionary code has its bit set; codes beyond the bitmap do not pass. Any
    /// predicate becomes this when it is evaluated once per value of a dictionary.
    Codes {
        /// The dictionary generation the codes belong to.
        generation: u64,
        /// Bit `code % 64` of word `code / 64`.
        bitmap: Arc<[u64]>,
    },
}

impl Filter {
    fn of(kind: FilterKind) -> Filter {
        Filter {
            kind,
            matches_null: false,
        }
    }

    /// `false`: no row passes.
    pub fn nothing() -> Filter {
        Filter::of(FilterKind::Nothing)
    }

    /// `true`: every row passes, NULL too.
    pub fn everything() -> Filter {
        Filter {
            kind: FilterKind::Everything,
            matches_null: true,
        }
    }

    /// `column IS NULL`
    pub fn is_null() -> Filter {
        Filter {
            kind: FilterKind::Nothing,
            matches_null: true,
        }
    }

    /// `column IS NOT NULL`
    pub fn is_not_null() -> Filter {
        Filter::of(FilterKind::Everything)
    }

    /// `column = value`
    pub fn eq(value: Value) -> Filter {
        Filter::range(Bound::Included(value.clone()), Bound::Included(value))
    }

    /// `column <> value`
    pub fn not_eq(value: Value) -> Filter {
        Filter::of(FilterKind::Ranges(vec![
            (Bound::Unbounded, Bound::Excluded(value.clone())),
            (Bound::Excluded(value), Bound::Unbounded),
        ]))
    }

    /// `column < value`
    pub fn less(value: Value) -> Filter {
        Filter::range(Bound::Unbounded, Bound::Excluded(value))
    }

    /// `column <= value`
    pub fn less_or_equal(value: Value) -> Filter {
        Filter::range(Bound::Unbounded, Bound::Included(value))
    }

    /// `column > value`
    pub fn greater(value: Value) -> Filter {
        Filter::range(Bound::Excluded(value), Bound::Unbounded)
    }

    /// `column >= value`
    pub fn greater_or_equal(value: Value) -> Filter {
        Filter::range(Bound::Included(value), Bound::Unbounded)
    }

    /// `column BETWEEN low AND high`
    pub fn between(low: Value, high: Value) -> Filter {
        Filter::range(Bound::Included(low), Bound::Included(high))
    }

    /// Values between two bounds; none if they cross.
    pub fn range(low: Bound<Value>, high: Bound<Value>) -> Filter {
        if is_empty(&low, &high) {
            return Filter::nothing();
        }
        Filter::of(FilterKind::Ranges(vec![(low, high)]))
    }

    /// `column IN (values)`. A NULL in the list changes nothing: it makes the others unknown, not
    /// true.
    pub fn in_set(values: Arc<ValueSet>) -> Filter {
        if values.is_empty() {
            return Filter::nothing();
        }
        Filter::of(FilterKind::Set {
            values,
            negated: false,
        })
    }

    /// `column NOT IN (values)`; with a NULL in the list no row passes, and with an empty list
    /// every row does, NULL too.
    pub fn not_in_set(values: Arc<ValueSet>, list_has_null: bool) -> Filter {
        if list_has_null {
            return Filter::nothing();
        }
        if values.is_empty() {
            return Filter::everything();
        }
        Filter::of(FilterKind::Set {
            values,
            negated: true,
        })
    }

    /// Rows whose dictionary code has its bit set in `bitmap`.
    pub fn codes(generation: u64, bitmap: Arc<[u64]>, matches_null: bool) -> Filter {
        Filter {
            kind: FilterKind::Codes { generation, bitmap },
            matches_null,
        }
    }

    /// The filter that both pass, or `None` where no single filter says it (then evaluate both).
    pub fn and(self, other: Filter) -> Option<Filter> {
        use FilterKind::*;
        let matches_null = self.matches_null && other.matches_null;
        let kind = match (self.kind, other.kind) {
            (Nothing, _) | (_, Nothing) => Nothing,
            (Everything, kind) | (kind, Everything) => kind,
            (Ranges(a), Ranges(b)) => intersect(&a, &b),
            (
                Set {
                    values,
                    negated: false,
                },
                Ranges(ranges),
            )
            | (
                Ranges(ranges),
                Set {
                    values,
                    negated: false,
                },
            ) => of_set(values.retain(|value| ranges.iter().any(|range| contains(range, value)))),
            (
                Set {
                    values: a,
                    negated: false,
                },
                Set { values: b, negated },
            )
            | (
                Set { values: b, negated },
                Set {
                    values: a,
                    negated: false,
                },
            ) => of_set(a.retain(|value| b.contains(value) != negated)),
            (
                Codes {
                    generation,
                    bitmap: a,
                },
                Codes {
                    generation: other,
                    bitmap: b,
                },
            ) if generation == other => Codes {
                generation,
                bitmap: a.iter().zip(b.iter()).map(|(a, b)| a & b).collect(),
            },
            _ => return None,
        };
        Some(Filter { kind, matches_null })
    }
}

fn of_set(values: ValueSet) -> FilterKind {
    if values.is_empty() {
        return FilterKind::Nothing;
    }
    FilterKind::Set {
        values: Arc::new(values),
        negated: false,
    }
}

fn is_empty(low: &Bound<Value>, high: &Bound<Value>) -> bool {
    match (low, high) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (
            Bound::Included(low) | Bound::Excluded(low),
            Bound::Included(high) | Bound::Excluded(high),
        ) => low >= high,
    }
}

fn contains((low, high): &ValueRange, value: &Value) -> bool {
    (match low {
        Bound::Unbounded => true,
        Bound::Included(low) => value >= low,
        Bound::Excluded(low) => value > low,
    }) && match high {
        Bound::Unbounded => true,
        Bound::Included(high) => value <= high,
        Bound::Excluded(high) => value < high,
    }
}

/// Every pair's intersection: both lists are sorted and disjoint, so the result is.
fn intersect(a: &[ValueRange], b: &[ValueRange]) -> FilterKind {
    let mut ranges = Vec::new();
    for (low_a, high_a) in a {
        for (low_b, high_b) in b {
            let low = tighter(low_a, low_b, |a, b| a > b);
            let high = tighter(high_a, high_b, |a, b| a < b);
            if !is_empty(low, high) {
                ranges.push((low.clone(), high.clone()));
            }
        }
    }
    if ranges.is_empty() {
        FilterKind::Nothing
    } else {
        FilterKind::Ranges(ranges)
    }
}

/// The bound that excludes more, `beats` telling which of two values does.
fn tighter<'b>(
    a: &'b Bound<Value>,
    b: &'b Bound<Value>,
    beats: impl Fn(&Value, &Value) -> bool,
) -> &'b Bound<Value> {
    match (a, b) {
        (Bound::Unbounded, other) | (other, Bound::Unbounded) => other,
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            if beats(x, y) || (x == y && matches!(a, Bound::Excluded(_))) {
                a
            } else {
                b
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passes(filter: &Filter, value: u64) -> bool {
        let value = Value::Ordinal(value);
        match &filter.kind {
            FilterKind::Nothing => false,
            FilterKind::Everything => true,
            FilterKind::Ranges(ranges) => ranges.iter().any(|range| contains(range, &value)),
            FilterKind::Set { values, negated } => values.contains(&value) != *negated,
            FilterKind::Codes { .. } => unreachable!("not generated"),
        }
    }

    fn any_filter() -> impl Strategy<Value = Filter> {
        let value = (0_u64..12).prop_map(Value::Ordinal);
        let set = proptest::collection::vec(0_u64..12, 0..6)
            .prop_map(|values| Arc::new(ValueSet::ordinals(values)));
        prop_oneof![
            Just(Filter::nothing()),
            Just(Filter::everything()),
            Just(Filter::is_null()),
            Just(Filter::is_not_null()),
            value.clone().prop_map(Filter::eq),
            value.clone().prop_map(Filter::not_eq),
            value.clone().prop_map(Filter::less),
            value.clone().prop_map(Filter::less_or_equal),
            value.clone().prop_map(Filter::greater),
            value.clone().prop_map(Filter::greater_or_equal),
            (value.clone(), value).prop_map(|(a, b)| Filter::between(a, b)),
            set.clone().prop_map(Filter::in_set),
            (set, any::<bool>()).prop_map(|(set, null)| Filter::not_in_set(set, null)),
        ]
    }

    proptest! {
        #[test]
        fn and_passes_what_both_pass(a in any_filter(), b in any_filter(), c in any_filter()) {
            let Some(ab) = a.clone().and(b.clone()) else { return Ok(()) };
            let Some(abc) = ab.and(c.clone()) else { return Ok(()) };
            prop_assert_eq!(abc.matches_null, a.matches_null && b.matches_null && c.matches_null);
            for value in 0..13 {
                let expected = passes(&a, value) && passes(&b, value) && passes(&c, value);
                prop_assert_eq!(passes(&abc, value), expected, "{} {:?}", value, abc);
            }
        }
    }

    #[test]
    fn not_in_with_null_passes_nothing_and_not_in_nothing_passes_all() {
        let some = Arc::new(ValueSet::ordinals(vec![1]));
        let none = Arc::new(ValueSet::ordinals(vec![]));
        assert_eq!(Filter::not_in_set(some, true), Filter::nothing());
        assert_eq!(
            Filter::not_in_set(none.clone(), false),
            Filter::everything()
        );
        assert_eq!(Filter::in_set(none), Filter::nothing());
    }
}
