//! The sorted array that lookups are measured on, and the ways to search it.
//!
//! Invariant: the value at index i is i, so the answer to every key is the key. Arrays of all sizes are prefixes of one, which
//! is on large pages if the system grants them.

use std::hint::select_unpredictable;
use std::ops::ControlFlow::{Break, Continue};

use tierra_interleave::{Cx, GroupSize, Interleaved, MAX_LANES, Mode};
use tierra_memory::Region;
use zerocopy::FromBytes;

use crate::error::{Context, LabError};

/// Bytes of every array beyond its round size: halvings of a power of two probe addresses that compete for the same few cache
/// sets and page-table entries.
pub const SURPLUS_BYTES: usize = 1024;

/// A sorted array in near memory.
#[derive(Debug)]
pub struct Sorted {
    region: Region,
}

impl Sorted {
    /// An array of that many bytes and [`SURPLUS_BYTES`].
    pub fn new(bytes: usize) -> Result<Sorted, LabError> {
        let doing = || format!("making a sorted array of {bytes} bytes");
        let bytes = (bytes + SURPLUS_BYTES) / size_of::<u32>() * size_of::<u32>();
        let mut region = Region::near(bytes).by("the lab", doing())?;
        region.populate().by("the lab", doing())?;
        let values = <[u32]>::mut_from_bytes(&mut region)
            .expect("a region is aligned to lines and holds whole values");
        for (place, value) in values.iter_mut().enumerate() {
            *value = place as u32;
        }
        Ok(Sorted { region })
    }

    /// Its first `bytes` plus [`SURPLUS_BYTES`], at most all.
    pub fn values(&self, bytes: usize) -> &[u32] {
        let all = <[u32]>::ref_from_bytes(&self.region)
            .expect("a region is aligned to lines and holds whole values");
        &all[..((bytes + SURPLUS_BYTES) / size_of::<u32>()).min(all.len())]
    }

    /// Bytes of the pages it lies on.
    pub fn page_size_bytes(&self) -> usize {
        self.region.page_size_bytes()
    }
}

/// The index of the last value not above `key`, or 0: one load per halving, no unpredictable branch. `sorted` is not
/// empty.
pub async fn search<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> usize {
    let (mut low, mut len) = (0, sorted.len());
    while len > 1 {
        let probed = *cx.load(&sorted[low + len / 2]).await;
        let half = len / 2;
        low = select_unpredictable(probed <= key, low + half, low);
        len -= half;
    }
    low
}

/// [`search`] as a chain of loads.
pub fn walk<M: Mode>(cx: Cx<M>, sorted: &[u32], key: u32) -> impl Future<Output = usize> {
    let (mut low, mut len) = (0, sorted.len());
    cx.walk(&sorted[len / 2], move |probed| {
        let half = len / 2;
        low = select_unpredictable(*probed <= key, low + half, low);
        len -= half;
        if len > 1 {
            Continue(&sorted[low + len / 2])
        } else {
            Break(low)
        }
    })
}

/// [`search`] of all keys by group prefetching, as written by hand for one structure: the keys of a group take each halving
/// together and share its length.
pub fn by_hand(group: GroupSize, sorted: &[u32], keys: &[u32], ranks: &mut [usize]) {
    let mut lows = [0; MAX_LANES];
    let group = group.get();
    for (keys, ranks) in keys.chunks(group).zip(ranks.chunks_mut(group)) {
        let lows = &mut lows[..keys.len()];
        lows.fill(0);
        let mut len = sorted.len();
        while len > 1 {
            let half = len / 2;
            for &low in lows.iter() {
                Interleaved.issue((&raw const sorted[low + half]).cast(), 1);
            }
            for (low, &key) in lows.iter_mut().zip(keys) {
                *low = select_unpredictable(sorted[*low + half] <= key, *low + half, *low);
            }
            len -= half;
        }
        ranks.copy_from_slice(lows);
    }
}

/// Checks that each key's answer is the key.
///
/// # Errors
/// [`LabError::AnswersDiffer`] names the first that differs.
pub fn check(who: &str, keys: &[u32], ranks: &[usize]) -> Result<(), LabError> {
    let wrong = keys
        .iter()
        .zip(ranks)
        .find(|&(&key, &rank)| rank != key as usize);
    match wrong {
        None => Ok(()),
        Some((key, rank)) => Err(LabError::AnswersDiffer {
            what: format!("the place of {key}"),
            left: who.to_owned(),
            right: "the array".to_owned(),
            detail: format!("{rank} instead of {key}"),
        }),
    }
}

/// A size as results name it: "4 GB" for 2^32 bytes, as the papers do.
pub fn size_name(bytes: usize) -> String {
    let ladder = [(30, "GB"), (20, "MB"), (10, "kB")];
    let unit = ladder.iter().find(|(bits, _)| bytes >= 1 << bits);
    match unit {
        Some((bits, unit)) => format!("{} {unit}", bytes >> bits),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use tierra_interleave::{Plain, map_into};

    use super::*;

    #[test]
    fn every_way_finds_every_value_and_a_wrong_answer_is_noticed() {
        let array = Sorted::new(1 << 14).unwrap();
        let sorted = array.values(1 << 12);
        assert_eq!(sorted.len(), (1 << 10) + 256);
        let keys: Vec<u32> = (0..sorted.len() as u32).rev().collect();
        let group = GroupSize::DEFAULT;
        let answers = |way: &dyn Fn(&mut [usize])| {
            let mut ranks = vec![usize::MAX; keys.len()];
            way(&mut ranks);
            check("a way", &keys, &ranks)
        };
        answers(&|ranks| {
            let lookup = |cx: Cx<Plain>, &key: &u32| search(cx, sorted, key);
            map_into(group, &keys, lookup, ranks);
        })
        .unwrap();
        answers(&|ranks| {
            let lookup = |cx: Cx<Interleaved>, &key: &u32| walk(cx, sorted, key);
            map_into(group, &keys, lookup, ranks);
        })
        .unwrap();
        answers(&|ranks| by_hand(group, sorted, &keys, ranks)).unwrap();
        assert!(answers(&|ranks| ranks.fill(7)).is_err());
    }

    #[test]
    fn sizes_have_the_papers_names() {
        let names = [1 << 14, 1 << 20, 1 << 32, 5].map(size_name);
        assert_eq!(names, ["16 kB", "1 MB", "4 GB", "5 bytes"]);
    }
}
