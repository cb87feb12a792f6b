//! Promise: a random cell costs as few cache lines as its encoding allows. A mode that counts the
//! lines it is asked for stands in for the memory.

use std::cell::Cell;

use crate::support::{Nulls, Shape, column, encode};
use tierra_column::{Chunk, Dictionary, Encoding, LogicalType};
use tierra_interleave::{Cx, GroupSize, LINE_BYTES, Mode, for_each};

thread_local! {
    static LINES: Cell<usize> = const { Cell::new(0) };
}

#[derive(Debug, Clone, Copy, Default)]
struct Counting;

impl Mode for Counting {
    const INTERLEAVED: bool = false;
    const NAME: &'static str = "counting";
    type Ticket = ();

    fn issue(self, address: *const u8, len_bytes: usize) {
        let first = address.addr() / LINE_BYTES;
        let last = (address.addr() + len_bytes - 1) / LINE_BYTES;
        LINES.set(LINES.get() + last - first + 1);
    }

    fn arrive(self, (): ()) {}
}

/// The most and the average lines of a cell.
fn lines(encoding: Encoding, nulls: Nulls) -> (usize, f64) {
    let ty = LogicalType::Integer;
    let column = column(ty, Shape::Random, nulls, 5000, 11);
    let encoded = encode(ty, &column, Some(encoding));
    assert_eq!(encoded.encoding, encoding);
    // As the engine places chunks: on a line.
    let mut bytes = vec![0; encoded.bytes.len() + LINE_BYTES];
    let start = bytes.as_ptr().align_offset(LINE_BYTES);
    bytes[start..start + encoded.bytes.len()].copy_from_slice(&encoded.bytes);
    let chunk = Chunk::open(&bytes[start..], ty).unwrap();
    let decoder = encoded.dictionary.as_ref().map(Dictionary::decoder);
    let (mut most, mut total) = (0, 0);
    for row in 0..chunk.rows() {
        LINES.set(0);
        for_each(
            GroupSize::DEFAULT,
            [row],
            |cx: Cx<Counting>, row| chunk.value(cx, row, decoder.as_ref()),
            |_, cell| assert!(cell.is_ok()),
        );
        most = most.max(LINES.get());
        total += LINES.get();
    }
    (most, total as f64 / chunk.rows() as f64)
}

#[test]
fn a_cell_costs_the_lines_its_encoding_allows() {
    // 32-bit values: a code of 32 bits never straddles a line, one of 33 rarely.
    assert_eq!(lines(Encoding::Plain, Nulls::No), (1, 1.0));
    assert!(lines(Encoding::Plain, Nulls::Some).0 <= 2);
    for (encoding, beside) in [
        (Encoding::Static, 0),
        (Encoding::FrameOfReference, 1), // the directory entry
        (Encoding::Dynamic, 2),          // that and the widths
        (Encoding::Dynamic128, 2),       // likewise
        (Encoding::Dictionary, 1),       // the dictionary's value
    ] {
        for nulls in [Nulls::No, Nulls::Some] {
            let (most, average) = lines(encoding, nulls);
            assert!(most <= beside + 2, "{encoding}: {most}");
            assert!(average < beside as f64 + 1.1, "{encoding}: {average}");
        }
    }
}
