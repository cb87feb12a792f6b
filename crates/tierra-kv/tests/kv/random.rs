//! What is drawn at random, how it is replayed, and how it is shown when it fails.

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// Requests, and before each SORT one that makes Redis forget (in C's `errno`) that a number of an earlier command was out
/// of range: SORT would say that of its own.
pub(crate) fn without_errors_before<T>(
    requests: Vec<T>,
    words: impl Fn(&T) -> &[Vec<u8>],
    forget: impl Fn(Vec<Vec<u8>>) -> T,
) -> Vec<T> {
    let mut all = Vec::with_capacity(requests.len());
    for request in requests {
        if words(&request)[0].to_ascii_lowercase().starts_with(b"sort") {
            let cursor = ["HSCAN", "none", "0"].map(|word| word.as_bytes().to_vec());
            all.push(forget(cursor.to_vec()));
        }
        all.push(request);
    }
    all
}

/// A request, as a failure tells it.
pub(crate) fn show(words: &[Vec<u8>]) -> String {
    words
        .iter()
        .map(|word| format!("{:?}", String::from_utf8_lossy(word)))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A number of the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {text}"))
    })
}
