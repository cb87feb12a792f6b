//! Rank of a key in a sorted slice.
//!
//! Binary search whose halvings do not depend on the outcome of a comparison: every lookup in a
//! slice takes the same number of turns and there is no branch to mispredict. Once what is left fits a
//! line it is loaded as a whole and counted, which saves the last three or four turns.
//!
//! Invariant: before each probe, the rank lies in `low..=low + len`.

use core::hint::select_unpredictable;

use tierra_interleave::{Cx, LINE_BYTES, Mode};

/// The number of values in `sorted` that are less than `key`: where `key` is, or would have to be
/// inserted before its equals. `sorted` is in ascending order; if it is not, the answer is some
/// number up to its length.
pub async fn lower_bound<M, T>(cx: Cx<M>, sorted: &[T], key: T) -> usize
where
    M: Mode,
    T: Ord + Copy,
{
    let (mut low, mut len) = (0, sorted.len());
    while len > values_per_line::<T>() {
        let half = len / 2;
        let probed = *cx.load(&sorted[low + half]).await;
        // Where `len` is even the upper half keeps the probed value, so that both halves are equal.
        low = select_unpredictable(probed < key, low + (len - half), low);
        len = half;
    }
    let rest = cx.load(&sorted[low..low + len]).await;
    low + rest.iter().filter(|&&value| value < key).count()
}

const fn values_per_line<T>() -> usize {
    match size_of::<T>() {
        0 | LINE_BYTES.. => 1,
        bytes => LINE_BYTES / bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;
    use tierra_interleave::{Execution, GroupSize, in_mode, map_into};

    use super::*;

    fn check<T: Ord + Copy + Debug>(sorted: &[T], keys: &[T]) {
        for execution in Execution::ALL {
            let mut ranks = vec![usize::MAX; keys.len()];
            in_mode!(execution, M => map_into(
                GroupSize::DEFAULT,
                keys,
                |cx: Cx<M>, &key| lower_bound(cx, sorted, key),
                &mut ranks,
            ));
            for (key, rank) in keys.iter().zip(ranks) {
                let expected = sorted.partition_point(|value| value < key);
                assert_eq!(rank, expected, "{execution}: {key:?} in {sorted:?}");
            }
        }
    }

    /// Slices of every length around a line, two lines and a power of two; every value in them, its
    /// neighbours, and the extremes of the type.
    macro_rules! boundaries {
        ($name:ident, $type:ty) => {
            #[test]
            fn $name() {
                let lens = (0..=70).chain([127, 128, 129, 1023, 1024, 1025]);
                for len in lens {
                    for step in [0, 1, 3] {
                        let middle = <$type>::MAX / 2;
                        let sorted: Vec<$type> = (0..len).map(|i| middle + step * i).collect();
                        let mut keys = vec![<$type>::MIN, 0, <$type>::MAX];
                        keys.extend(sorted.iter().flat_map(|v| [v - 1, *v, v + 1]));
                        check(&sorted, &keys);
                    }
                }
                check(
                    &[<$type>::MIN, <$type>::MAX],
                    &[<$type>::MIN, 0, <$type>::MAX],
                );
                check(&[<$type>::MAX; 40], &[<$type>::MIN, 0, <$type>::MAX]);
                check(&[<$type>::MIN; 40], &[<$type>::MIN, 0, <$type>::MAX]);
            }
        };
    }

    boundaries!(boundaries_u32, u32);
    boundaries!(boundaries_i32, i32);
    boundaries!(boundaries_u64, u64);
    boundaries!(boundaries_i64, i64);

    #[test]
    fn values_larger_than_a_line_and_without_size() {
        let sorted: Vec<[u64; 9]> = (0..100).map(|i| [2 * i; 9]).collect();
        let keys: Vec<[u64; 9]> = (0..200).map(|i| [i; 9]).collect();
        check(&sorted, &keys);
        check(&[(), ()], &[()]);
    }

    proptest! {
        #[test]
        fn ranks_as_partition_point_does(
            mut values in prop::collection::vec(-50i64..50, 0..200),
            keys in prop::collection::vec(-52i64..52, 0..100),
        ) {
            values.sort_unstable();
            check(&values, &keys);
        }
    }
}
