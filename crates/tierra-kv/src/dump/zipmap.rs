//! Zipmaps: small hashes as Redis packed them before 2.6.
//!
//! ```text
//!  │ fields: 8 │ then for each: │ length │ field │ length │ unused: 8 │ value │ unused bytes │ ff │
//!
//!  length: │ 8 │, below 254, or │ fe │ 32, the lowest byte first │
//! ```
//!
//! 254 fields stand for any number.

use super::source::{Element, Malformed};

const COUNT_UNKNOWN: u8 = 254;
const LONG: u8 = 254;
const END: u8 = 0xff;

/// Fields and values in turn, each checked when it is reached, and all of them at the end.
pub(super) fn elements(packed: &[u8]) -> Result<impl Iterator<Item = Element<'_>>, Malformed> {
    let (&told, rest) = packed.split_first().ok_or(Malformed)?;
    let (&end, _) = rest.split_last().ok_or(Malformed)?;
    if end != END {
        return Err(Malformed);
    }
    let mut rest = Some(rest);
    let (mut count, mut is_value) = (0usize, false);
    Ok(std::iter::from_fn(move || {
        let mut left = rest.take()?;
        if !is_value && left.first() == Some(&END) {
            let is_right = told == COUNT_UNKNOWN || usize::from(told) == count;
            return (!is_right).then_some(Err(Malformed));
        }
        let element = element(&mut left, is_value);
        if element.is_ok() {
            rest = Some(left);
            count += usize::from(is_value);
            is_value = !is_value;
        }
        Some(element)
    }))
}

fn element<'p>(rest: &mut &'p [u8], is_value: bool) -> Element<'p> {
    let mut take = |bytes: usize| {
        let (taken, behind) = rest.split_at_checked(bytes).ok_or(Malformed)?;
        *rest = behind;
        Ok(taken)
    };
    let bytes = match take(1)?[0] {
        LONG.. => {
            let long = take(4)?.try_into().map_err(|_| Malformed)?;
            u32::from_le_bytes(long) as usize
        }
        short => short.into(),
    };
    let unused = if is_value { take(1)?[0].into() } else { 0 };
    let element = take(bytes)?;
    take(unused)?;
    Ok(element.into())
}

#[cfg(test)]
mod tests {
    use super::super::tests::texts;
    use super::*;

    fn read(packed: &[u8]) -> Result<Vec<String>, Malformed> {
        texts(elements(packed)?)
    }

    /// `foo`: `bar` with two unused bytes, `hello`: `world`; the example in Redis's own comment.
    const GOLDEN: &[u8] = b"\x02\x03foo\x03\x02bar..\x05hello\x05\x00world\xff";

    #[test]
    fn fields_and_values_come_in_turn() {
        assert_eq!(read(GOLDEN).unwrap(), ["foo", "bar", "hello", "world"]);
        let long = [
            b"\xfe\x01f\xfe\x2c\x01\0\0\0".as_slice(),
            &[b'v'; 300],
            b"\xff",
        ]
        .concat();
        assert_eq!(read(&long).unwrap()[1], "v".repeat(300));
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for (at, byte) in [(0, 1), (0, 3), (1, 200), (6, 9), (12, 6), (18, 254)] {
            let mut packed = GOLDEN.to_vec();
            packed[at] = byte;
            assert!(read(&packed).is_err(), "{at}");
        }
        for end in 0..GOLDEN.len() {
            assert!(read(&GOLDEN[..end]).is_err(), "{end}");
        }
    }
}
