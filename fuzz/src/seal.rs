//! Makes the checksums of mutated bytes right again.
//!
//! A checksum stops nearly every mutation at the door. That is its duty, and the targets leave it
//! in place for a part of the inputs; for the others they recompute it here, so that mutations
//! reach the checks behind. Whoever writes a hostile file does the same.
//!
//! Invariant: only checksums change, from the innermost out, and only those of structures that lie
//! inside the bytes; bytes that make no sense are left alone.

/// Structures inside extents begin on a line.
const LINE: usize = 64;
/// Extents begin on a grain, the first behind header, slots and their twins.
const GRAIN: usize = 4096;
const FIRST_EXTENT: usize = 16_384;
const HEADERS: [usize; 2] = [0, 12288];
const SLOTS: [usize; 4] = [4096, 8192, 12288 + 1024, 12288 + 2048];

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(bytes.try_into().ok()?)).ok()
}

/// Stores the CRC32C of `len` bytes from `from` at `at`, where all of that exists.
fn put_crc(bytes: &mut [u8], from: usize, len: usize, at: usize) -> Option<()> {
    let crc = crc32c::crc32c(bytes.get(from..from.checked_add(len)?)?);
    let place = bytes.get_mut(at..at.checked_add(4)?)?;
    place.copy_from_slice(&crc.to_le_bytes());
    Some(())
}

/// A chunk's blocks, directory with sketch and logical checksums, and descriptor (`docs/file-format.md`, "Chunk").
pub fn chunk(bytes: &mut [u8]) {
    let _ = blocks_and_directory(bytes);
    let _ = put_crc(bytes, 0, 124, 124);
}

fn blocks_and_directory(bytes: &mut [u8]) -> Option<()> {
    let blocks = u32_at(bytes, 12)?.div_ceil(1024);
    let directory = blocks * 32;
    let data_offset = u64_at(bytes, 40)?;
    for entry in (128..128 + directory).step_by(32) {
        let from = data_offset.checked_add(u32_at(bytes, entry + 20)? * LINE);
        let len = u32_at(bytes, entry + 24)?;
        // A block outside the chunk has no checksum to make right.
        let _ = from.and_then(|from| put_crc(bytes, from, len, entry + 16));
    }
    let sketch = u64_at(bytes, 88)?;
    let logical = match u64_at(bytes, 72)? {
        0 => 0,
        _ => blocks * 4,
    };
    put_crc(
        bytes,
        128,
        directory.checked_add(sketch)?.checked_add(logical)?,
        120,
    )
}

/// A dictionary image's body and head ("Dictionary").
pub fn dictionary(bytes: &mut [u8]) {
    let each = if bytes.get(6) == Some(&1) { 4 } else { 8 };
    let len = u64_at(bytes, 24)
        .and_then(|count| count.checked_mul(each))
        .zip(u64_at(bytes, 32))
        .and_then(|(fixed, strings)| fixed.checked_add(strings));
    if let Some(len) = len {
        let _ = put_crc(bytes, 48, len, 40);
    }
    let _ = put_crc(bytes, 0, 44, 44);
}

/// The pages, their checksums and the header of postings ("Postings").
pub fn postings(bytes: &mut [u8]) {
    let _ = pages(bytes);
    let _ = put_crc(bytes, 0, 60, 60);
}

fn pages(bytes: &mut [u8]) -> Option<()> {
    let len = u64_at(bytes, 40)?.min(bytes.len());
    let data_offset = |pages: usize| 64 + (pages * 4).next_multiple_of(LINE);
    let fits = |pages: &usize| {
        let data = len.checked_sub(data_offset(*pages));
        data.is_some_and(|data| data.div_ceil(4096) == *pages)
    };
    let pages = (0..=len / 4096 + 1).find(fits)?;
    for page in 0..pages {
        let from = data_offset(pages) + page * 4096;
        put_crc(bytes, from, (len - from).min(4096), 64 + page * 4)?;
    }
    put_crc(bytes, 64, pages * 4, 56)
}

/// The bitmap and the header of deleted rows ("Deleted rows").
pub fn deleted(bytes: &mut [u8]) {
    if let Some(len) = u32_at(bytes, 16) {
        let _ = put_crc(bytes, 32, len, 20);
    }
    let _ = put_crc(bytes, 0, 28, 28);
}

/// A manifest's body ("Manifest and tail log").
pub fn manifest(bytes: &mut [u8]) {
    if let Some(len) = u64_at(bytes, 16) {
        let _ = put_crc(bytes, 24, len, 12);
    }
}

/// The first line of a tail log's extent, and its mark. What its first record is chained to.
fn log_head(bytes: &mut [u8]) -> Option<[u8; 4]> {
    put_crc(bytes, 0, 52, 52)?;
    let marked = [bytes.get(8..16)?, bytes.get(56..60)?].concat();
    let crc = crc32c::crc32c(&marked).to_le_bytes();
    bytes.get_mut(60..64)?.copy_from_slice(&crc);
    bytes.get(24..28)?.try_into().ok()
}

/// A tail log's record: its payload, the checksum of the record before it, then its header. What the next record is chained to.
fn record(bytes: &mut [u8], before: [u8; 4]) -> Option<[u8; 4]> {
    if let Some(len) = u32_at(bytes, 8) {
        let _ = put_crc(bytes, 64, len, 48);
    }
    bytes.get_mut(52..56)?.copy_from_slice(&before);
    put_crc(bytes, 0, 60, 60)?;
    bytes.get(60..64)?.try_into().ok()
}

/// Every structure that begins on a line of these bytes.
pub fn content(bytes: &mut [u8]) {
    let mut chain = [0; 4];
    for at in (0..bytes.len()).step_by(LINE) {
        let structure = &mut bytes[at..];
        match structure.first_chunk() {
            Some(b"TCHK") => chunk(structure),
            Some(b"TDIC") => dictionary(structure),
            Some(b"TINV") => postings(structure),
            Some(b"TDEL") => deleted(structure),
            Some(b"TLGX") => chain = log_head(structure).unwrap_or(chain),
            Some(b"TLOG") => chain = record(structure, chain).unwrap_or(chain),
            Some(b"TIER") if structure.starts_with(b"TIERRAMF") => manifest(structure),
            _ => {}
        }
    }
}

/// A whole pool: what its extents hold, the extents, the slots, the header ("Pool").
pub fn pool(bytes: &mut [u8]) {
    for at in (FIRST_EXTENT..bytes.len()).step_by(GRAIN) {
        if !bytes[at..].starts_with(b"TIERRAEX") {
            continue;
        }
        let payload = at + LINE;
        if let Some(len) = u64_at(bytes, at + 24)
            && let Some(end) = payload.checked_add(len)
            && let Some(inside) = bytes.get_mut(payload..end)
        {
            content(inside);
            if u32_at(bytes, at + 52) == Some(0) {
                let _ = put_crc(bytes, payload, len, at + 48);
            }
        }
        let _ = put_crc(bytes, at, 60, at + 60);
    }
    for slot in SLOTS {
        if bytes.get(slot + 60..slot + 64) == Some(b"SLOT") {
            let _ = name_checksum(bytes, slot);
            let _ = put_crc(bytes, slot, 56, slot + 56);
        }
    }
    for header in HEADERS {
        let _ = put_crc(bytes, header, 60, header + 60);
    }
}

/// A backup: its frames, the runs that they make up, the manifest, the list of contents, the first and the last line ("Backup").
pub fn backup(bytes: &mut [u8]) {
    let _ = contents(bytes);
    let Some(end) = bytes.len().checked_sub(LINE) else {
        return;
    };
    for line in [0, end] {
        let _ = put_crc(bytes, line, 60, line + 60);
    }
}

fn contents(bytes: &mut [u8]) -> Option<()> {
    let end = bytes.len().checked_sub(LINE)?;
    let begin = u64_at(bytes, end + 8)?;
    bytes.get(begin..end)?;
    let _ = runs(bytes, begin);
    let manifest_at = bytes[begin..end]
        .windows(8)
        .position(|at| at == b"TIERRAMF");
    if let Some(at) = manifest_at {
        manifest(&mut bytes[begin + at..end]);
    }
    put_crc(bytes, begin, end - begin, end + 48)
}

/// The frames of all runs, and the runs, as far as the list can be followed.
fn runs(bytes: &mut [u8], begin: usize) -> Option<()> {
    // When, and perhaps an older backup with its name.
    let (mut at, mut frame_at) = (begin + 9, LINE);
    if bytes.get(begin + 8) == Some(&1) {
        at = at.checked_add(16 + 4 + u32_at(bytes, at + 16)?)?;
    }
    let accesses = u32_at(bytes, at)?;
    at += 4;
    for _ in 0..accesses.min(64) {
        at = at.checked_add(4 + u32_at(bytes, at)?)?;
    }
    let extents = u32_at(bytes, at)?;
    at += 4;
    for _ in 0..extents {
        (at, frame_at) = run(bytes, at + 9, frame_at)?;
    }
    let tables = u32_at(bytes, at)?;
    at += 4;
    for _ in 0..tables {
        let batches = u32_at(bytes, at + 8)?;
        at += 12;
        for _ in 0..batches {
            (at, frame_at) = run(bytes, at + 4, frame_at)?;
        }
    }
    Some(())
}

/// A run at `at` of the list, whose frames begin at `frame_at`. Where the next of both begin.
fn run(bytes: &mut [u8], at: usize, frame_at: usize) -> Option<(usize, usize)> {
    let (len, frames) = (u64_at(bytes, at)?, u32_at(bytes, at + 12)?);
    let (first, mut next) = (frame_at, frame_at);
    for frame in 0..frames {
        let entry = at + 16 + frame * 8;
        let stored = u32_at(bytes, entry)?;
        put_crc(bytes, next, stored, entry + 4)?;
        next = next.checked_add(stored)?;
    }
    // Frames that are not compressed are the run itself.
    if next - first == len {
        content(bytes.get_mut(first..next)?);
        let mut place = first;
        for frame in 0..frames {
            let entry = at + 16 + frame * 8;
            let stored = u32_at(bytes, entry)?;
            put_crc(bytes, place, stored, entry + 4)?;
            place += stored;
        }
        put_crc(bytes, first, len, at + 8)?;
    }
    Some((at + 16 + frames * 8, next))
}

/// A slot names the checksum of its root's payload, which the root's header has.
fn name_checksum(bytes: &mut [u8], slot: usize) -> Option<()> {
    let at = u64_at(bytes, slot + 8)?.checked_sub(LINE - 48)?;
    let crc = bytes.get(at..at.checked_add(4)?)?.to_vec();
    bytes[slot + 48..slot + 52].copy_from_slice(&crc);
    Some(())
}
