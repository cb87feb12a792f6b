//! Arrays of PostgreSQL: `{1,NULL,"a b"}`, and their binary form.

use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};

use super::Format;
use super::column::Column;
use crate::error::Fault;
use crate::wire::frame::Body;

/// Writes the items as text.
pub(super) fn put_text(items: &Column, rows: Range<usize>, output: &mut BytesMut) {
    output.put_u8(b'{');
    let first = rows.start;
    let mut item = BytesMut::new();
    for row in rows {
        if row > first {
            output.put_u8(b',');
        }
        item.clear();
        if !items.put_text_or_null(row, &mut item) {
            output.put_slice(b"NULL");
        } else if matches!(items, Column::List { .. }) || !needs_quotes(&item) {
            output.put_slice(&item);
        } else {
            output.put_u8(b'"');
            for byte in &item {
                if matches!(byte, b'"' | b'\\') {
                    output.put_u8(b'\\');
                }
                output.put_u8(*byte);
            }
            output.put_u8(b'"');
        }
    }
    output.put_u8(b'}');
}

fn needs_quotes(item: &[u8]) -> bool {
    item.is_empty()
        || item.eq_ignore_ascii_case(b"null")
        || item.iter().any(|byte| {
            matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\')
                || byte.is_ascii_whitespace()
                || *byte == 0x0b
        })
}

/// Writes the items in binary.
///
/// ```text
/// i32 dimensions | i32 whether NULLs are in it | u32 type | i32 length | i32 first index | (i32 length, bytes) ..
/// ```
pub(super) fn put_binary(items: &Column, rows: Range<usize>, oid: u32, output: &mut BytesMut) {
    output.put_i32(i32::from(!rows.is_empty()));
    output.put_i32(items.has_null(rows.clone()).into());
    output.put_u32(oid);
    if !rows.is_empty() {
        output.put_i32(rows.len() as i32);
        output.put_i32(1);
    }
    for row in rows {
        items.put(row, Format::Binary, output);
    }
}

/// The items of a text. An item is NULL without quotes.
pub(super) fn items_of_text(text: &str) -> Result<Vec<Option<String>>, Fault> {
    let wrong = |what: &str| Fault::new("22P02", format!("malformed array literal: {what}"));
    let inner = text
        .trim()
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let inner = inner.ok_or_else(|| wrong("an array is written {1,2}"))?;
    let mut items = Vec::new();
    if inner.trim().is_empty() {
        return Ok(items);
    }
    let mut letters = inner.chars().peekable();
    loop {
        while letters
            .next_if(|letter| letter.is_ascii_whitespace())
            .is_some()
        {}
        let mut item = String::new();
        let is_quoted = letters.next_if_eq(&'"').is_some();
        let mut kept = 0;
        loop {
            match letters.peek() {
                None if is_quoted => return Err(wrong("a quote is not closed")),
                None => break,
                Some('"') if is_quoted => {
                    letters.next();
                    break;
                }
                Some(',') if !is_quoted => break,
                Some('{' | '}' | '"') if !is_quoted => {
                    return Err(wrong("arrays of arrays are not supported"));
                }
                Some('\\') => {
                    letters.next();
                    item.extend(letters.next());
                    kept = item.len();
                }
                Some(_) => item.extend(letters.next()),
            }
        }
        if is_quoted {
            while letters
                .next_if(|letter| letter.is_ascii_whitespace())
                .is_some()
            {}
        } else {
            let end = item.trim_end().len().max(kept);
            item.truncate(end);
            if item.is_empty() {
                return Err(wrong("an item is empty"));
            }
        }
        let is_null = !is_quoted && kept == 0 && item.eq_ignore_ascii_case("null");
        items.push((!is_null).then_some(item));
        match letters.next() {
            None => return Ok(items),
            Some(',') => {}
            Some(_) => return Err(wrong("text after a quoted item")),
        }
    }
}

/// The type and the items of a binary array.
pub(super) fn items_of_binary(bytes: Bytes) -> Result<(u32, Vec<Option<Bytes>>), Fault> {
    let mut body = Body(bytes);
    let wrong = |_| Fault::new("22P03", "malformed binary array");
    let dimensions = body.u32().map_err(wrong)?;
    body.u32().map_err(wrong)?;
    let oid = body.u32().map_err(wrong)?;
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = body.u32().map_err(wrong)?;
            body.u32().map_err(wrong)?;
            count
        }
        _ => return Err(Fault::unsupported("an array of arrays as a parameter")),
    };
    // Nothing is reserved: every item takes four bytes at least, or reading ends.
    let items = (0..count).map(|_| body.value().map_err(wrong));
    let items = items.collect::<Result<Vec<_>, _>>()?;
    Ok((oid, items))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Result<Vec<Option<String>>, &'static str> {
        items_of_text(text).map_err(|fault| fault.code)
    }

    #[test]
    fn literals_are_read() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(items("{}"), Ok(vec![]));
        assert_eq!(
            items(" {1, 2 ,NULL} "),
            Ok(vec![some("1"), some("2"), None])
        );
        assert_eq!(
            items(r#"{"a b","","NULL","x\"y\\",\n ull}"#),
            Ok(vec![
                some("a b"),
                some(""),
                some("NULL"),
                some("x\"y\\"),
                some("n ull")
            ])
        );
        for wrong in ["", "1,2", "{1,}", "{\"a}", "{{1},{2}}", "{\"a\"b}"] {
            assert_eq!(items(wrong), Err("22P02"), "{wrong}");
        }
    }

    #[test]
    fn binary_arrays_that_lie_are_errors() {
        for bytes in [
            &b""[..],
            b"\0\0\0\x01\0\0\0\0\0\0\0\x17\xff\xff\xff\xff\0\0\0\x01",
            b"\0\0\0\x01\0\0\0\0\0\0\0\x17\0\0\0\x01\0\0\0\x01\0\0\0\x09ab",
        ] {
            assert!(items_of_binary(Bytes::copy_from_slice(bytes)).is_err());
        }
        let (oid, items) =
            items_of_binary(Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\0\0\x17")).unwrap();
        assert_eq!((oid, items.len()), (0x17, 0));
    }
}
