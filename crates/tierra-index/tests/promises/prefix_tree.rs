//! The promise of the prefix tree: it finds what `binary_search` finds, one by one or many at once, in
//! every mode, whatever bytes the strings are made of and however much they share.

use proptest::prelude::*;
use tierra_index::{PrefixTree, SortedStrings};
use tierra_interleave::{Cx, Execution, GroupSize, in_mode, map_into};

type Bytes = Vec<u8>;

fn sorted(mut strings: Vec<Bytes>) -> Vec<Bytes> {
    strings.sort_unstable();
    strings.dedup();
    strings
}

fn check(strings: &[Bytes], wanted: &[Bytes]) -> PrefixTree {
    let tree = PrefixTree::new(strings);
    let expected: Vec<Option<usize>> = wanted
        .iter()
        .map(|wanted| strings.binary_search(wanted).ok())
        .collect();
    for execution in Execution::ALL {
        let mut ranks = vec![Some(usize::MAX); wanted.len()];
        in_mode!(execution, M => map_into(
            GroupSize::DEFAULT,
            wanted,
            |cx: Cx<M>, wanted| tree.find(cx, strings, wanted),
            &mut ranks,
        ));
        assert!(ranks == expected, "{execution}, one by one");
        ranks.fill(Some(usize::MAX));
        in_mode!(execution, M => map_into(
            GroupSize::DEFAULT,
            wanted,
            |cx: Cx<M>, wanted| tree.find_by_binary_search(cx, strings, wanted),
            &mut ranks,
        ));
        assert!(ranks == expected, "{execution}, by halving");
        ranks.fill(Some(usize::MAX));
        in_mode!(execution, M => {
            tree.find_all::<M, _, _>(GroupSize::DEFAULT, strings, wanted, |index, rank| ranks[index] = rank);
        });
        assert!(ranks == expected, "{execution}, many at once");
    }
    tree
}

/// The strings themselves, and what lies close to them: shorter, longer, with another byte anywhere that
/// a layer might skip.
fn check_around(strings: Vec<Bytes>) -> PrefixTree {
    let strings = sorted(strings);
    let mut wanted = vec![vec![], vec![0], vec![0xff; 40]];
    for (number, string) in strings
        .iter()
        .enumerate()
        .step_by((strings.len() / 500).max(1))
    {
        wanted.push(string.clone());
        wanted.push([string, &[0][..]].concat());
        if let Some(last) = string.len().checked_sub(1) {
            wanted.push(string[..last].to_vec());
            wanted.push(string[..last / 2].to_vec());
            for place in [0, last / 2, last, number % string.len()] {
                let mut other = string.clone();
                other[place] ^= 1;
                wanted.push(other);
            }
        }
    }
    check(&strings, &wanted)
}

fn strings(of: impl IntoIterator<Item = String>) -> Vec<Bytes> {
    of.into_iter().map(String::into_bytes).collect()
}

#[test]
fn nothing_one_and_the_empty_string() {
    check_around(vec![]);
    check_around(vec![vec![]]);
    check_around(vec![b"a".to_vec()]);
    check_around(vec![vec![], b"a".to_vec()]);
}

#[test]
fn lengths_at_which_a_leaf_or_a_run_fills_up() {
    for len in (0..40).chain([255, 256, 257, 271, 272, 273, 4095, 4096, 4097]) {
        check_around(strings((0..len).map(|i| format!("{i:05}"))));
        check_around(strings(
            (0..len).map(|i| format!("all of these begin alike {i}")),
        ));
        // All keys of the first layer are the same but that of the outlier.
        let outlier = ["aaa".to_owned()];
        check_around(strings(
            (0..len).map(|i| format!("samesame{i}")).chain(outlier),
        ));
    }
}

#[test]
fn runs_of_strings_that_end_within_a_key_or_go_on_behind_it() {
    let zeros = (0..60).map(|len| vec![0; len]);
    check_around(zeros.clone().collect());
    let behind = (0..200_u8).map(|i| [&[0; 9][..], &[i]].concat());
    check_around(zeros.chain(behind).collect());
    let stems = (0..30).map(|zeros| [b"stem".to_vec(), vec![0; zeros]].concat());
    let leaves = (0..100_u8).map(|i| [&b"stem\0\0\0\0"[..], &[i, i]].concat());
    check_around(stems.chain(leaves).collect());
}

#[test]
fn each_string_begins_with_the_one_before() {
    check_around((0..300).map(|len| vec![b'x'; len * 8]).collect());
    check_around((0..300).map(|len| vec![b'x'; len * 7 + 3]).collect());
}

#[test]
fn strings_longer_than_64_kib() {
    let stem = "long ".repeat(20_000);
    let mut of = strings((0..50).map(|i| format!("{stem}{i}")));
    of.extend(strings((0..50).map(|i| format!("{i}{stem}"))));
    check_around(of);
}

#[test]
fn other_alphabets() {
    check_around(strings((0..3000).map(|i| {
        format!("Straße №{} — {}", i / 7, ["äöü", "日本語", "🦀"][i % 3])
    })));
    check_around(
        (0..=255)
            .flat_map(|a| (0..=255).step_by(5).map(move |b| vec![a, b]))
            .collect(),
    );
}

#[test]
fn urls_of_few_hosts() {
    let host = |i: usize| ["example.com", "example.org", "tierra.example.net"][i % 3];
    let url = |i: usize| format!("https://www.{}/path/{}/page-{i}.html", host(i), i % 11);
    check_around(strings((0..20_000).map(url)));
}

#[test]
fn memory_stays_within_its_bound() {
    let numbered = strings((0..200_000).map(|i| format!("Customer#{i:09}")));
    let per_string = check_around(numbered).len_bytes() as f64 / 200_000.0;
    assert!(
        (8.0..8.6).contains(&per_string),
        "{per_string} bytes a string"
    );

    let nested: Vec<Bytes> = (0..2000).map(|len| vec![b'x'; len * 8]).collect();
    let of_strings: usize = nested.iter().map(|string| string.len() + 8).sum();
    let index = PrefixTree::new(&nested[..]).len_bytes();
    assert!(
        index < of_strings * 5 / 4,
        "{index} bytes over {of_strings}"
    );
}

#[test]
#[cfg_attr(debug_assertions, ignore = "unsorted values are refused there")]
fn unsorted_strings_do_no_harm() {
    let mut strings: Vec<Bytes> = (0..1000_usize)
        .map(|i| vec![b'a' + (i * 7 % 3) as u8; i * 31 % 40])
        .collect();
    strings.extend(vec![b"same".to_vec(); 100]);
    strings.push(vec![]);
    let tree = PrefixTree::new(&strings[..]);
    tree.find_all::<tierra_interleave::Interleaved, _, _>(
        GroupSize::DEFAULT,
        &strings[..],
        &strings,
        |index, rank| {
            assert!(rank.is_none_or(|rank| strings[rank] == strings[index]));
        },
    );
}

#[test]
#[should_panic(expected = "a prefix tree belongs to one sequence of strings")]
fn other_strings_are_refused() {
    let tree = PrefixTree::new(&["a", "b"][..]);
    let fewer = &["a"][..];
    assert_eq!(SortedStrings::len(fewer), 1);
    tree.find_all::<tierra_interleave::Plain, _, _>(GroupSize::DEFAULT, fewer, &["a"], |_, _| ());
}

/// Few different bytes, so that much is shared; the extremes among them.
fn string() -> impl Strategy<Value = Bytes> {
    let byte = || prop::sample::select(vec![0_u8, 1, b'a', b'b', 0xff]);
    prop_oneof![
        prop::collection::vec(byte(), 0..6),
        prop::collection::vec(byte(), 0..40),
        (0_usize..30, prop::collection::vec(byte(), 0..4)).prop_map(|(len, end)| [
            vec![b'a'; len],
            end
        ]
        .concat()),
        any::<Vec<u8>>(),
    ]
}

proptest! {
    #[test]
    fn finds_as_binary_search_does(
        strings in prop::collection::vec(string(), 0..600),
        others in prop::collection::vec(string(), 0..100),
    ) {
        let strings = sorted(strings);
        let wanted: Vec<Bytes> = strings.iter().cloned().chain(others).collect();
        check(&strings, &wanted);
    }
}
