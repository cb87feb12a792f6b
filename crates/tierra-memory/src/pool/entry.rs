//! Entries of undo logs: what a place held before a transaction wrote to it. The layout is drawn in `undo.rs`.
//!
//! Invariant: an entry is used only if it is valid, belongs to the transaction asked for, and is in its order.

use super::extent::Extent;
use crate::LINE_BYTES;

const MAGIC: [u8; 4] = *b"UNDO";
const FORMAT_VERSION: u8 = 1;

/// Where a transaction writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write {
    pub(crate) extent: Extent,
    pub(crate) at: u64,
    pub(crate) len_bytes: u64,
}

/// Bytes of an entry for so many old bytes.
pub(crate) fn entry_bytes(len_bytes: u64) -> u64 {
    LINE_BYTES as u64 + len_bytes.next_multiple_of(LINE_BYTES as u64)
}

/// Appends an entry: what `write` overwrites in that transaction.
pub(crate) fn put_entry(
    entries: &mut Vec<u8>,
    transaction: u64,
    index: u32,
    write: &Write,
    old: &[u8],
) {
    let start = entries.len();
    let mut header = [0; LINE_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4] = FORMAT_VERSION;
    let words = [
        transaction,
        write.extent.offset,
        write.extent.len_bytes,
        write.at,
        write.len_bytes,
    ];
    for (to, word) in header[8..48].chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    header[48..52].copy_from_slice(&index.to_le_bytes());
    header[52..56].copy_from_slice(&crc32c::crc32c(old).to_le_bytes());
    let crc = crc32c::crc32c(&header[..60]);
    header[60..].copy_from_slice(&crc.to_le_bytes());
    entries.extend_from_slice(&header);
    entries.extend_from_slice(old);
    entries.resize(start + entry_bytes(write.len_bytes) as usize, 0);
}

/// The entries of a transaction from the one at `first` up to one that is not whole, with their old bytes.
pub(crate) fn whole_entries(bytes: &[u8], first: u64, transaction: u64) -> Vec<(Write, &[u8])> {
    let mut entries = Vec::new();
    let mut at = first;
    while let Some(entry) = bytes.get(at as usize..) {
        let Some((write, old)) = whole_entry(entry, transaction, entries.len() as u32) else {
            break;
        };
        // Cannot overflow: the old bytes were found in a slice.
        at += entry_bytes(write.len_bytes);
        entries.push((write, old));
    }
    entries
}

fn whole_entry(bytes: &[u8], transaction: u64, index: u32) -> Option<(Write, &[u8])> {
    let (header, behind) = bytes.split_at_checked(LINE_BYTES)?;
    let write = Write {
        extent: Extent {
            offset: u64_at(header, 16),
            len_bytes: u64_at(header, 24),
        },
        at: u64_at(header, 32),
        len_bytes: u64_at(header, 40),
    };
    let is_valid = header[..4] == MAGIC
        && header[4] == FORMAT_VERSION
        && crc32c::crc32c(&header[..60]) == u32_at(header, 60)
        && u64_at(header, 8) == transaction
        && u32_at(header, 48) == index;
    let old = behind.get(..usize::try_from(write.len_bytes).ok()?)?;
    (is_valid && crc32c::crc32c(old) == u32_at(header, 52)).then_some((write, old))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}
