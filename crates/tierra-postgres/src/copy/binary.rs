//! COPY's binary form.
//!
//! ```text
//! PGCOPY\n\xff\r\n\0 | u32 flags | u32 length of what follows the header, and that
//! a row: i16 columns | (i32 length, bytes) ..; columns is -1 at the end
//! ```

use bytes::{Buf, Bytes, BytesMut};

use crate::error::Fault;

pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Flags that change what follows: none is known.
const CRITICAL: u32 = 0xffff_0000;

fn wrong(what: &str) -> Fault {
    Fault::new("22P04", format!("COPY in binary: {what}"))
}

/// Takes the header from the front of `input`; `false` if it is not whole.
pub(super) fn header(input: &mut BytesMut) -> Result<bool, Fault> {
    let known = input.len().min(SIGNATURE.len());
    if input[..known] != SIGNATURE[..known] {
        return Err(wrong("the signature is missing"));
    }
    let Some(lengths) = input.get(SIGNATURE.len()..SIGNATURE.len() + 8) else {
        return Ok(false);
    };
    let mut lengths = lengths;
    if lengths.get_u32() & CRITICAL != 0 {
        return Err(wrong("flags that are not known"));
    }
    let more = lengths.get_u32() as usize;
    let whole = SIGNATURE.len() + 8 + more;
    if input.len() < whole {
        return Ok(false);
    }
    input.advance(whole);
    Ok(true)
}

/// A row, or the end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row {
    Values(Vec<Option<Bytes>>),
    End,
}

/// Takes a row of `columns` values from the front of `input`; `None` if it is not whole.
pub(super) fn row(input: &mut BytesMut, columns: usize) -> Result<Option<Row>, Fault> {
    let Some(count) = input.first_chunk::<2>() else {
        return Ok(None);
    };
    match i16::from_be_bytes(*count) {
        -1 => {
            input.advance(2);
            return Ok(Some(Row::End));
        }
        count if usize::try_from(count) == Ok(columns) => {}
        count => {
            return Err(wrong(&format!(
                "a row has {count} values, expected {columns}"
            )));
        }
    }
    let mut at = 2;
    for _ in 0..columns {
        let Some(len) = input.get(at..).and_then(|rest| rest.first_chunk::<4>()) else {
            return Ok(None);
        };
        at += 4 + match i32::from_be_bytes(*len) {
            -1 => 0,
            len => usize::try_from(len).map_err(|_| wrong("a length is negative"))?,
        };
    }
    if input.len() < at {
        return Ok(None);
    }
    let mut bytes = input.split_to(at).freeze();
    bytes.advance(2);
    let values = (0..columns).map(|_| {
        let len = bytes.get_i32();
        usize::try_from(len).ok().map(|len| bytes.split_to(len))
    });
    Ok(Some(Row::Values(values.collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_taken_once_they_are_whole() {
        let whole = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\x01x\xff\xff\xff\xff\xff\xff";
        for cut in 0..whole.len() {
            let mut input = BytesMut::from(&whole[..cut]);
            let mut rows = Vec::new();
            let mut has_header = false;
            for part in [&b""[..], &whole[cut..]] {
                input.extend_from_slice(part);
                has_header = has_header || header(&mut input).unwrap();
                while has_header && let Some(row) = row(&mut input, 2).unwrap() {
                    rows.push(row);
                }
            }
            assert_eq!(
                rows,
                [Row::Values(vec![Some("x".into()), None]), Row::End],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn lies_are_errors() {
        let lie = |bytes: &[u8]| header(&mut BytesMut::from(bytes)).is_err();
        assert!(lie(b"1,2\n") && lie(b"PGCOPY\n\xff\r\n\0\0\x01\0\0\0\0\0\0"));
        let lie = |bytes: &[u8]| row(&mut BytesMut::from(bytes), 1).is_err();
        assert!(lie(b"\0\x02") && lie(b"\0\x01\xff\xff\xff\xfe") && lie(b"\xff\xfe"));
    }
}
