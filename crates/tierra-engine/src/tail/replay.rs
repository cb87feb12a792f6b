//! Reads back the records of a log, and finds what is wrong with them.
//!
//! Invariant: a record counts if one copy has it whole, at its place, with its number and chained to the record before. If no
//! copy has the next record, the log ends there only if nothing shows that it continues: no later record of this epoch, no next
//! extent, no mark and no manifest. Otherwise it is damaged.

use std::collections::BTreeMap;
use std::ops::Range;

use tierra_memory::{LINE_BYTES, PoolError};

use super::header::{self, LogHeader};
use super::log::LogEnd;
use super::record::{Label, RecordStart, read_header};
use crate::error::LogError;
use crate::manifest::{COUNTER_END, ExtentId, TailEntry};
use crate::storage::extent::OwnedExtent;

/// Bytes of a copy of an extent that differ from the right ones in another copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRepair {
    pub(crate) extent: ExtentId,
    /// Index among the extent's copies.
    pub(crate) wrong: usize,
    pub(crate) right: usize,
    pub(crate) range: Range<usize>,
}

/// Repairs the copies of logs according to what was read.
pub(crate) fn repair<'a>(
    repairs: &[LogRepair],
    extent_of: impl Fn(ExtentId) -> &'a OwnedExtent,
) -> Result<(), PoolError> {
    for repair in repairs {
        let copies = extent_of(repair.extent).copies();
        let (wrong, right) = (&copies[repair.wrong], &copies[repair.right]);
        if wrong.pool().is_read_only() {
            continue;
        }
        // Copied, because the pool cannot write a slice of itself.
        let bytes = right[repair.range.clone()].to_vec();
        wrong
            .pool()
            .write(wrong.extent(), repair.range.start as u64, &bytes)?;
    }
    Ok(())
}

/// The manifest that names a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) tail: &'a TailEntry,
    pub(crate) version: u64,
    /// The last commit that the manifest includes.
    pub(crate) commit: u64,
    /// Whether records that follow a newer manifest are given up; otherwise they are an error.
    pub(crate) goes_back: bool,
}

/// The content of a log.
#[derive(Debug)]
pub(crate) struct Replayed {
    pub(crate) end: LogEnd,
    /// Which copies are wrong, and where.
    pub(crate) repairs: Vec<LogRepair>,
    /// Numbers of the commits that the manifest does not include.
    pub(crate) commits: Vec<u64>,
    /// The end before the last record.
    pub(crate) before_last: Option<LogEnd>,
}

/// A record that was read.
pub(crate) struct Logged<'a> {
    pub(crate) sequence: u64,
    /// Number of its commit.
    pub(crate) commit: u64,
    /// Tables of its commit, or 0.
    pub(crate) participants: u32,
    pub(crate) payload: &'a [u8],
    /// Its size in the log.
    pub(crate) len_bytes: u64,
}

/// What one copy has at the place of a record.
enum At {
    Record(ValidRecord),
    /// Nothing of this epoch.
    Nothing,
    Fault(&'static str),
    /// A whole record of this epoch that belongs elsewhere: a power cut does not leave that.
    Misplaced,
}

/// A record whose header and payload match their checksums.
struct ValidRecord {
    payload: Range<usize>,
    participants: u32,
    /// Offset of the next record.
    end: usize,
    label: Label,
    crc: u32,
}

/// The record at a place, with any number, if it is of this epoch.
fn valid_record_at(bytes: &[u8], at: usize, epoch: u64) -> Result<At, LogError> {
    let Some(line) = bytes.get(at..at + LINE_BYTES) else {
        return Ok(At::Nothing);
    };
    Ok(match read_header(line)? {
        RecordStart::Zeros => At::Nothing,
        RecordStart::Other(what) => At::Fault(what),
        RecordStart::Header(header) if header.label.epoch != epoch => At::Nothing,
        RecordStart::Header(header) => {
            let start = at + LINE_BYTES;
            let end = start.checked_add(header.payload_len as usize);
            match end.and_then(|end| bytes.get(start..end)) {
                None => At::Fault("its payload leaves the extent"),
                Some(payload) if crc32c::crc32c(payload) != header.payload_crc => {
                    At::Fault("the payload's checksum is wrong")
                }
                Some(payload) => At::Record(ValidRecord {
                    payload: start..start + payload.len(),
                    participants: header.participants,
                    end: (start + payload.len()).next_multiple_of(LINE_BYTES),
                    label: header.label,
                    crc: header.crc,
                }),
            }
        }
    })
}

fn record_at(bytes: &[u8], end: &LogEnd, epoch: u64) -> Result<At, LogError> {
    let line = bytes
        .get(end.at as usize..)
        .and_then(|rest| rest.get(..LINE_BYTES));
    // Before its payload is read, which may be that of a longer record.
    if let Some(line) = line
        && let RecordStart::Header(header) = read_header(line)?
        && header.label.epoch == epoch
        && (header.label.sequence, header.label.chain) != (end.sequence, end.chain)
    {
        return Ok(At::Misplaced);
    }
    valid_record_at(bytes, end.at as usize, epoch)
}

/// Calls `take` for every committed record, in order. `copies_of` returns the copies of an extent, at least one.
pub(crate) fn replay<'a>(
    named: Named<'_>,
    copies_of: impl Fn(ExtentId) -> Vec<&'a [u8]>,
    mut take: impl FnMut(Logged<'_>) -> Result<(), LogError>,
) -> Result<Replayed, LogError> {
    let tail = named.tail;
    let mut end = LogEnd::starting_at(tail.first_sequence);
    let mut before_last = None;
    let (mut repairs, mut commits) = (Vec::new(), Vec::new());
    for (number, entry) in tail.logs.iter().enumerate() {
        let copies = copies_of(entry.extent);
        let damaged = |end: &LogEnd, what| LogError::Damaged {
            extent: entry.extent.0,
            at: end.at as usize,
            sequence: end.sequence,
            what,
        };
        end.at = 0;
        let head = LogHeader {
            epoch: entry.epoch,
            first_sequence: end.sequence,
            chain: end.chain,
        };
        let marked = read_head(&copies, entry.extent, &head, &mut repairs)?;
        end.marked = marked.map_err(|what| damaged(&end, what))?;
        (end.at, end.head) = (LINE_BYTES as u64, Some(head));
        loop {
            let found = copies.iter().map(|copy| record_at(copy, &end, entry.epoch));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let whole = found.iter().enumerate();
            let whole = whole.filter_map(|(copy, found)| match found {
                At::Record(whole) => Some((copy, whole)),
                _ => None,
            });
            let Some((right, record)) = { whole }.next() else {
                let what = damage(&copies, &found, &end, entry.epoch)?;
                what.map_or(Ok(()), |what| Err(damaged(&end, what)))?;
                break;
            };
            let Label {
                follows, commit, ..
            } = record.label;
            if follows > named.version && named.goes_back {
                let (later, _) = later(tail, &copies_of, end.sequence);
                end.given_up = later.len() as u64;
                end.marked = end.marked.min(end.sequence);
                return Ok(Replayed {
                    end,
                    repairs,
                    commits,
                    before_last,
                });
            }
            if follows > named.version {
                return Err(LogError::Ahead {
                    sequence: end.sequence,
                    follows,
                    newest: named.version,
                });
            }
            if commit >= COUNTER_END {
                let what = "nothing was ever counted up to the number of its commit";
                return Err(damaged(&end, what));
            }
            let at = end.at as usize;
            let range = at..record.end.min(copies[right].len());
            note_different(&copies, entry.extent, right, &range, &mut repairs);
            take(Logged {
                sequence: end.sequence,
                commit,
                participants: record.participants,
                payload: &copies[right][record.payload.clone()],
                len_bytes: (record.end - at) as u64,
            })?;
            before_last = Some(end);
            commits.extend((commit > named.commit).then_some(commit));
            end.at = record.end as u64;
            end.sequence += 1;
            end.chain = record.crc;
        }
        let next = tail.logs.get(number + 1);
        let goes_on = next.is_some_and(|next| {
            let copies = copies_of(next.extent);
            let mut chunk_headers = copies
                .iter()
                .filter_map(|copy| header::read(copy).ok()?.ok());
            chunk_headers
                .any(|(head, _)| head.epoch == next.epoch && head.first_sequence > end.sequence)
        });
        let acknowledged = match next {
            None => end.marked.max(tail.reached),
            Some(_) => end.marked,
        };
        if goes_on || end.sequence < acknowledged {
            return Err(damaged(&end, "it was acknowledged, and is not there"));
        }
    }
    if tail.logs.is_empty() && tail.reached > tail.first_sequence {
        return Err(LogError::Damaged {
            extent: 0,
            at: 0,
            sequence: tail.first_sequence,
            what: "it was acknowledged, and the manifest names no log",
        });
    }
    Ok(Replayed {
        end,
        repairs,
        commits,
        before_last,
    })
}

/// The highest mark of an extent among its copies; what is wrong if no copy has the head.
fn read_head(
    copies: &[&[u8]],
    extent: ExtentId,
    expected: &LogHeader,
    repairs: &mut Vec<LogRepair>,
) -> Result<Result<u64, &'static str>, LogError> {
    let mut best: Option<(usize, u64)> = None;
    let mut fault = None;
    for (copy, bytes) in copies.iter().enumerate() {
        match header::read(bytes)? {
            Ok((head, marked)) if head == *expected => {
                if best.is_none_or(|(_, before)| before < marked) {
                    best = Some((copy, marked));
                }
            }
            Ok(_) => fault = fault.or(Some("its first line is of another log")),
            Err(what) => fault = fault.or(Some(what)),
        }
    }
    let Some((right, marked)) = best else {
        return Ok(Err(fault.unwrap_or("it has no copy")));
    };
    note_different(copies, extent, right, &(0..LINE_BYTES), repairs);
    Ok(Ok(marked))
}

/// Notes the copies that differ in the range.
fn note_different(
    copies: &[&[u8]],
    extent: ExtentId,
    right: usize,
    range: &Range<usize>,
    repairs: &mut Vec<LogRepair>,
) {
    for (wrong, copy) in copies.iter().enumerate() {
        if wrong != right && copy.get(range.clone()) != Some(&copies[right][range.clone()]) {
            repairs.push(LogRepair {
                extent,
                wrong,
                right,
                range: range.clone(),
            });
        }
    }
}

/// What is wrong if no copy has the next record; `None` if the log may end there.
fn damage(
    copies: &[&[u8]],
    found: &[At],
    end: &LogEnd,
    epoch: u64,
) -> Result<Option<&'static str>, LogError> {
    if found.iter().any(|found| matches!(found, At::Misplaced)) {
        return Ok(Some("another record is in its place"));
    }
    // Even a line of zeros counts as the end only if nothing follows it: a lost page reads as zeros, too.
    for copy in copies {
        let rest = copy.get(end.at as usize + LINE_BYTES..).unwrap_or_default();
        if later_record(rest, epoch, end.sequence)? {
            let fault = found.iter().find_map(|found| match found {
                At::Fault(what) => Some(*what),
                _ => None,
            });
            return Ok(Some(
                fault.unwrap_or("it is not there, yet later records follow"),
            ));
        }
    }
    Ok(None)
}

/// Whether a later record of this epoch starts on a line of `rest`.
fn later_record(rest: &[u8], epoch: u64, sequence: u64) -> Result<bool, LogError> {
    for line in rest.chunks_exact(LINE_BYTES) {
        if let RecordStart::Header(header) = read_header(line)?
            && header.label.epoch == epoch
            && header.label.sequence > sequence
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Valid records of a damaged log with this number or a greater one, anywhere in it, by number; and the number of records that
/// the log had in all, as far as known.
pub(crate) fn later<'a>(
    tail: &TailEntry,
    copies_of: impl Fn(ExtentId) -> Vec<&'a [u8]>,
    from: u64,
) -> (BTreeMap<u64, Logged<'a>>, u64) {
    let mut found = BTreeMap::new();
    let mut reached = tail.reached;
    for entry in &tail.logs {
        for copy in copies_of(entry.extent) {
            if let Ok(Ok((head, marked))) = header::read(copy)
                && head.epoch == entry.epoch
            {
                reached = reached.max(marked);
            }
            let mut at = LINE_BYTES;
            while at < copy.len() {
                at = match valid_record_at(copy, at, entry.epoch) {
                    Ok(At::Record(record)) => {
                        let sequence = record.label.sequence;
                        reached = reached.max(sequence.saturating_add(1));
                        if sequence >= from {
                            let logged = Logged {
                                sequence,
                                commit: record.label.commit,
                                participants: record.participants,
                                payload: &copy[record.payload],
                                len_bytes: (record.end - at) as u64,
                            };
                            found.insert(sequence, logged);
                        }
                        record.end
                    }
                    _ => at + LINE_BYTES,
                };
            }
        }
    }
    (found, reached - tail.first_sequence.min(reached))
}
