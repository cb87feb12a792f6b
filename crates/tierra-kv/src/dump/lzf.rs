//! LZF, as Redis compresses strings with it. Nothing is compressed here.
//!
//! ```text
//!  │ 000 │ n: 5 │ n + 1 bytes │                        these bytes
//!  │ n: 3 │ back: 13 │          n < 7                  n + 2 bytes again, from back + 1 before on
//!  │ 111 │ back, high: 5 │ n: 8 │ back, low: 8 │       n + 9 bytes again
//! ```

/// Three bytes become 264 at most.
const EXPANSION_MAX: usize = 88;

/// What was compressed, if it is as many bytes.
pub(super) fn decompress(mut rest: &[u8], bytes: usize) -> Option<Vec<u8>> {
    if bytes == 0 {
        // Nothing is compressed; what stands there all the same Redis does not look at, either.
        return Some(Vec::new());
    }
    if bytes / EXPANSION_MAX > rest.len() {
        return None;
    }
    let mut out = Vec::with_capacity(bytes);
    while let Some(control) = next(&mut rest) {
        let high = control >> 5;
        if high == 0 {
            let (literal, behind) = rest.split_at_checked(control + 1)?;
            rest = behind;
            out.extend_from_slice(literal);
        } else {
            let more = if high == 7 { next(&mut rest)? } else { 0 };
            let back = ((control & 0x1f) << 8 | next(&mut rest)?) + 1;
            repeat(&mut out, back, high + more + 2)?;
        }
        if out.len() > bytes {
            return None;
        }
    }
    (out.len() == bytes).then_some(out)
}

fn next(rest: &mut &[u8]) -> Option<usize> {
    let (&first, behind) = rest.split_first()?;
    *rest = behind;
    Some(first.into())
}

/// Appends bytes that begin so far back, and may reach into what is appended.
fn repeat(out: &mut Vec<u8>, back: usize, bytes: usize) -> Option<()> {
    let from = out.len().checked_sub(back)?;
    let mut left = bytes;
    while left > 0 {
        let run = left.min(out.len() - from);
        out.extend_from_within(from..from + run);
        left -= run;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_redis_compresses_comes_back() {
        // Redis 7.0's own: DUMP of 200 times `a`, then of `abcabcabc..`.
        let same = [1, b'a', b'a', 0xe0, 187, 0, 1, b'a', b'a'];
        assert_eq!(decompress(&same, 200), Some(vec![b'a'; 200]));
        let period = [2, b'a', b'b', b'c', 0xe0, 10, 2];
        assert_eq!(decompress(&period, 22), Some(b"abc".repeat(8)[..22].into()));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let cases: [(&[u8], usize); 7] = [
            (&[], 5),
            // A literal that is not there, a length and a distance that are not.
            (&[4, b'a'], 5),
            (&[0, b'a', 0xe0], 10),
            (&[0, b'a', 0x20], 4),
            // Back to before the beginning.
            (&[0, b'a', 0x20, 1], 4),
            // More than was said, and less.
            (&[0, b'a', 0x20, 0], 3),
            (&[0, b'a', 0x20, 0], 5),
        ];
        for (compressed, bytes) in cases {
            assert_eq!(
                decompress(compressed, bytes),
                None,
                "{compressed:?} {bytes}"
            );
        }
        assert_eq!(decompress(&[0, b'a', 0x20, 0], 4), Some(b"aaaa".into()));
        // Nothing is allocated for what cannot be.
        assert_eq!(decompress(&[0xe0, 255, 0], usize::MAX), None);
    }
}
