//! The log's promises: every committed record is read back, and a torn end is no error. Damage before the end is an error, and so
//! is the loss of any acknowledged record except the newest.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use tierra_memory::{Pool, PoolOptions};

use crate::calibration::LOG_METHOD;
use crate::deleted::row_ids::RowIds;
use crate::error::LogError;
use crate::manifest::row_id::RowId;
use crate::manifest::{COUNTER_END, ExtentId, LogEntry, TailEntry};
use crate::spec::replicas::TierId;
use crate::storage::extent::Owner;
use crate::storage::tiers::Tiers;
use crate::tail::payload::encode;
use crate::tail::{
    Commit, LogRepair, Logged, Named, Participant, Record, TailLog, decode, later, read_payload,
    replay,
};

const EPOCH: u64 = 7;
const LOG_BYTES: u64 = 64 << 10;
const LOG: ExtentId = ExtentId(3);
const ENTRY: LogEntry = LogEntry {
    extent: LOG,
    epoch: EPOCH,
};

fn schema() -> SchemaRef {
    let number = Field::new("n", DataType::Int32, false);
    Arc::new(Schema::new(vec![
        number,
        Field::new("s", DataType::Utf8View, true),
    ]))
}

fn rows(numbers: std::ops::Range<i32>) -> RecordBatch {
    let text = |n: i32| (n % 3 != 0).then(|| format!("text number {n}, longer than a view"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(numbers.clone())),
        Arc::new(numbers.map(text).collect::<StringViewArray>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn record(numbers: std::ops::Range<i32>) -> Record {
    Record::of(&RowIds::default(), Some(&rows(numbers))).unwrap()
}

/// The rows of a record that only appends.
fn rows_of(payload: &[u8]) -> Result<RecordBatch, ArrowError> {
    let (participants, parts) = read_payload(payload, 0).map_err(ArrowError::IpcError)?;
    assert!(participants.is_empty() && parts.len() == 1 && parts[0].deleted.is_empty());
    decode(&schema(), &Buffer::from(parts[0].rows))
}

/// The version of the manifest that first named the log, which its first records follow.
const VERSION: u64 = 9;
/// The last commit before the first record.
const COMMIT: u64 = 40;

/// The bytes of a log of ten records, and where each starts.
fn log_bytes() -> (Vec<u8>, Vec<usize>) {
    let (bytes, starts, _) = logged(|_| {});
    (bytes, starts)
}

/// The same after `then` has changed the log; and the log.
fn logged(then: impl FnOnce(&mut TailLog)) -> (Vec<u8>, Vec<usize>, TailLog) {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(&dir.path().join("pool"), &PoolOptions::default()).unwrap();
    let tiers = Tiers::first(pool);
    let writer = tiers.allocate(LOG, &[TierId::FIRST], LOG_BYTES, Owner::Log(1));
    let extent = writer.unwrap().finish_log().unwrap();
    let mut log = TailLog::starting_at(100);
    log.prepare(ENTRY, &extent).unwrap();
    log.continue_in(ENTRY, &extent).unwrap();
    let mut starts = Vec::new();
    let mut at = 64;
    for number in 0..10 {
        let mut record = record(number * 10..number * 10 + 5 + number);
        assert!(log.fits(record.len_bytes()));
        starts.push(at as usize);
        at += record.len_bytes();
        let commit = Commit {
            number: COMMIT + 1 + number as u64,
            follows: VERSION,
        };
        log.append(&LOG_METHOD, &mut record, commit).unwrap();
    }
    starts.push(at as usize);
    then(&mut log);
    (extent.read().to_vec(), starts, log)
}

fn named(tail: &TailEntry) -> Named<'_> {
    Named {
        tail,
        version: VERSION,
        commit: COMMIT,
        goes_back: false,
    }
}

/// The first number of each record, and the next sequence number.
fn read(bytes: &[u8]) -> Result<(Vec<i32>, u64), LogError> {
    let (numbers, next, repairs) = read_copies(&[bytes])?;
    assert_eq!(repairs, []);
    Ok((numbers, next))
}

/// The same for several copies, and which of them are wrong.
fn read_copies(copies: &[&[u8]]) -> Result<(Vec<i32>, u64, Vec<LogRepair>), LogError> {
    let tail = TailEntry {
        first_sequence: 100,
        reached: 100,
        logs: vec![ENTRY],
        ..TailEntry::default()
    };
    let mut numbers = Vec::new();
    let read = replay(
        named(&tail),
        |_| copies.to_vec(),
        |Logged {
             sequence, payload, ..
         }| {
            let batch = rows_of(payload).map_err(|source| LogError::Rows { sequence, source })?;
            let number = numbers.len() as i32;
            assert_eq!(batch, rows(number * 10..number * 10 + 5 + number));
            numbers.push(number);
            Ok(())
        },
    )?;
    let commits = numbers.iter().map(|number| COMMIT + 1 + *number as u64);
    assert!(read.commits.iter().copied().eq(commits));
    Ok((numbers, read.end.sequence, read.repairs))
}

#[test]
fn a_commit_of_a_number_that_nothing_counted_to_is_refused() {
    let (mut bytes, starts) = log_bytes();
    let header = &mut bytes[starts[3]..starts[3] + 64];
    header[24..32].copy_from_slice(&COUNTER_END.to_le_bytes());
    let crc = crc32c::crc32c(&header[..60]);
    header[60..64].copy_from_slice(&crc.to_le_bytes());
    let error = read(&bytes).unwrap_err().to_string();
    assert!(error.contains("counted up to"), "{error}");
}

#[test]
fn committed_records_come_back() {
    let (bytes, _) = log_bytes();
    assert_eq!(read(&bytes).unwrap(), ((0..10).collect(), 110));
    // No manifest has named an extent without its first line.
    for bytes in [&[0; 4096][..], &[]] {
        assert!(matches!(
            read(bytes),
            Err(LogError::Damaged {
                at: 0,
                sequence: 100,
                ..
            })
        ));
    }
}

#[test]
fn a_torn_end_is_as_if_it_had_not_been_written() {
    let (bytes, starts) = log_bytes();
    // Any subset of the last record's lines may have reached the device, in any order.
    let last = starts[9]..starts[10];
    for lost in last.clone().step_by(64) {
        let mut torn = bytes.clone();
        torn[lost..lost + 64].fill(0xa5);
        assert_eq!(
            read(&torn).unwrap(),
            ((0..9).collect(), 109),
            "line at {lost} lost"
        );
        let mut torn = bytes.clone();
        torn[last.start..lost].fill(0xa5);
        torn[lost + 64..].fill(0xa5);
        if lost > last.start || last.len() > 64 {
            assert_eq!(
                read(&torn).unwrap(),
                ((0..9).collect(), 109),
                "only the line at {lost} written"
            );
        }
    }
}

#[test]
fn damage_before_the_end_is_reported_wherever_it_is() {
    let (bytes, starts) = log_bytes();
    for record in 0..9 {
        for at in (starts[record]..starts[record + 1] - 64).step_by(29) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            match read(&damaged) {
                Err(LogError::Damaged { sequence, .. }) => {
                    assert_eq!(sequence, 100 + record as u64)
                }
                other => panic!("byte {at} of record {record}: {other:?}"),
            }
        }
        let mut lost = bytes.clone();
        lost[starts[record]..starts[record] + 64].fill(0);
        assert!(
            matches!(read(&lost), Err(LogError::Damaged { .. })),
            "a lost header"
        );
    }
}

/// A record is read as long as one copy has it, and the differing copies are reported.
#[test]
fn a_record_that_one_copy_has_is_there() {
    let (bytes, starts) = log_bytes();
    let (mut first, mut second) = (bytes.clone(), bytes.clone());
    for record in 0..10 {
        let wrong = if record % 2 == 0 {
            &mut first
        } else {
            &mut second
        };
        wrong[starts[record] + 7 * record] ^= 0x20;
    }
    let (numbers, next, repairs) = read_copies(&[&first, &second, &first]).unwrap();
    assert_eq!((numbers, next), ((0..10).collect(), 110));
    assert_eq!(repairs.len(), 5 * 2 + 5);
    let mut repaired = [first.clone(), second.clone(), first.clone()];
    for LogRepair {
        extent,
        wrong,
        right,
        range,
    } in repairs
    {
        assert_eq!(extent, LOG);
        let good = repaired[right][range.clone()].to_vec();
        repaired[wrong][range].copy_from_slice(&good);
    }
    assert!(repaired.iter().all(|copy| *copy == bytes));
    // A copy that was missing while records were written.
    let mut stale = bytes.clone();
    stale[starts[4]..].fill(0);
    let (numbers, _, repairs) = read_copies(&[&stale, &bytes]).unwrap();
    assert_eq!((numbers.len(), repairs.len()), (10, 6));
    // A record that no copy has, followed by later ones in one copy.
    first[starts[1] + 3] ^= 1;
    match read_copies(&[&first, &second]) {
        Err(LogError::Damaged { sequence: 101, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_of_another_epoch_or_in_another_place_do_not_count() {
    let (bytes, starts) = log_bytes();
    let mut moved = bytes.clone();
    // An older log of the same extent.
    let logs = vec![LogEntry {
        extent: LOG,
        epoch: EPOCH + 1,
    }];
    let tail = TailEntry {
        first_sequence: 100,
        reached: 100,
        logs,
        ..TailEntry::default()
    };
    let head = moved[..64].to_vec();
    moved[8..16].copy_from_slice(&(EPOCH + 1).to_le_bytes());
    let crc = crc32c::crc32c(&moved[..52]);
    moved[52..56].copy_from_slice(&crc.to_le_bytes());
    let mut mark = (EPOCH + 1).to_le_bytes().to_vec();
    mark.extend([0; 4]);
    moved[56..60].fill(0);
    moved[60..64].copy_from_slice(&crc32c::crc32c(&mark).to_le_bytes());
    let older = |bytes: &[u8]| {
        replay(
            named(&tail),
            |_| vec![bytes],
            |_| panic!("no record is of this epoch"),
        )
    };
    assert_eq!(older(&moved).unwrap().end.sequence, 100);
    moved[..64].copy_from_slice(&head);
    assert!(matches!(
        older(&moved),
        Err(LogError::Damaged { at: 0, .. })
    ));
    let mut swapped = bytes.clone();
    let (second, third) = (starts[1]..starts[2], starts[2]..starts[3]);
    if second.len() == third.len() {
        swapped.copy_within(third, second.start);
        assert!(read(&swapped).is_err());
    }
}

#[test]
fn what_is_unknown_is_named() {
    let (bytes, starts) = log_bytes();
    let changed = |at: usize, value: u8| {
        let mut bytes = bytes.clone();
        bytes[starts[3] + at] = value;
        let crc = crc32c::crc32c(&bytes[starts[3]..starts[3] + 60]);
        bytes[starts[3] + 60..starts[3] + 64].copy_from_slice(&crc.to_le_bytes());
        read(&bytes).unwrap_err().to_string()
    };
    for (error, what) in [
        (changed(4, 3), "format version 3"),
        (changed(5, 2), "a transaction state"),
        (changed(5, 1), "participants of a transaction"),
        (changed(7, 1), "flags"),
        (changed(59, 1), "participants of a transaction"),
    ] {
        assert!(error.contains(what), "{error} instead of {what}");
    }
}

/// Zeros from any record to the end: the loss of acknowledged records is detected, except the newest while it is not marked.
#[test]
fn records_do_not_vanish() {
    let marked = |log: &mut TailLog| {
        assert!(log.has_unmarked());
        log.mark(&LOG_METHOD).unwrap();
        assert!(!log.has_unmarked());
    };
    for (logged, is_marked) in [(logged(|_| {}), false), (logged(marked), true)] {
        let (bytes, starts, _log) = logged;
        assert_eq!(read(&bytes).unwrap(), ((0..10).collect(), 110));
        for record in 0..10 {
            let mut zeros = bytes.clone();
            zeros[starts[record]..].fill(0);
            match read(&zeros) {
                Ok((numbers, next)) if record == 9 && !is_marked => {
                    assert_eq!((numbers.len(), next), (9, 109));
                }
                Err(LogError::Damaged { sequence, .. }) => {
                    assert_eq!(sequence, 100 + record as u64);
                }
                other => panic!("zeros from record {record}: {other:?}"),
            }
        }
        // Any changed byte of any record; padding belongs to none.
        let end = if is_marked { 10 } else { 9 };
        for record in 0..end {
            let payload = u32::from_le_bytes(bytes[starts[record] + 8..][..4].try_into().unwrap());
            for at in (starts[record]..starts[record] + 64 + payload as usize).step_by(7) {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                match read(&flipped) {
                    Err(LogError::Damaged { sequence, .. }) => {
                        assert_eq!(sequence, 100 + record as u64);
                    }
                    other => panic!("byte {at} of record {record}: {other:?}"),
                }
            }
        }
        // Nor does the line with their number.
        for at in 0..64 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert!(read(&flipped).is_err(), "byte {at}");
        }
    }
}

/// The loss of records that the manifest counts is detected, regardless of the extent's state.
#[test]
fn a_manifest_knows_how_far_its_logs_went() {
    let (bytes, starts) = log_bytes();
    let read = |bytes: &[u8], reached| {
        let tail = TailEntry {
            first_sequence: 100,
            reached,
            logs: vec![ENTRY],
            ..TailEntry::default()
        };
        replay(named(&tail), |_| vec![bytes], |_| Ok(())).map(|read| read.end.sequence)
    };
    assert_eq!(read(&bytes, 110).unwrap(), 110);
    let mut zeros = bytes.clone();
    zeros[starts[9]..].fill(0);
    assert_eq!(read(&zeros, 109).unwrap(), 109);
    assert!(matches!(
        read(&zeros, 110),
        Err(LogError::Damaged { sequence: 109, .. })
    ));
}

/// A record is chained to the one before it, and follows the manifest that was read or an earlier one.
#[test]
fn records_are_chained_and_follow_a_manifest() {
    let (bytes, starts) = log_bytes();
    let sealed = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = bytes.clone();
        let line = &mut bytes[starts[9]..starts[9] + 64];
        change(line);
        let crc = crc32c::crc32c(&line[..60]);
        line[60..].copy_from_slice(&crc.to_le_bytes());
        read(&bytes)
    };
    let error = sealed(&|line| line[52] ^= 1).unwrap_err();
    assert!(
        error.to_string().contains("another record is in its place"),
        "{error}"
    );
    let error = sealed(&|line| line[32] = VERSION as u8 + 1).unwrap_err();
    assert!(matches!(
        error,
        LogError::Ahead {
            sequence: 109,
            follows: 10,
            newest: 9
        }
    ));
    assert!(sealed(&|line| line[32] = VERSION as u8 - 1).is_ok());
    // Going back gives up all records from the first one that follows a newer manifest.
    let tail = TailEntry {
        first_sequence: 100,
        reached: 100,
        logs: vec![ENTRY],
        ..TailEntry::default()
    };
    let back = Named {
        version: VERSION - 1,
        goes_back: true,
        ..named(&tail)
    };
    let read = replay(back, |_| vec![&bytes[..]], |_| Ok(())).unwrap();
    assert_eq!((read.end.sequence, read.end.given_up), (100, 10));
}

/// The records that can be salvaged from a log with a damaged one, and how many there were.
#[test]
fn whole_records_behind_a_damaged_one_are_found() {
    let (mut bytes, starts) = log_bytes();
    bytes[starts[4] + 70] ^= 1;
    let tail = TailEntry {
        first_sequence: 100,
        reached: 102,
        logs: vec![ENTRY],
        ..TailEntry::default()
    };
    let (found, all) = later(&tail, |_| vec![&bytes[..]], 104);
    assert_eq!(all, 10);
    assert!(found.keys().copied().eq(105..110));
    for (sequence, logged) in found {
        let number = sequence as i32 - 100;
        let batch = rows_of(logged.payload).unwrap();
        assert_eq!(batch, rows(number * 10..number * 10 + 5 + number));
    }
}

/// Records of format version 1 stay readable by every later writer's version. `TIERRA_BLESS=1` writes the file, for a new
/// version.
#[test]
fn old_logs_stay_readable() {
    let path = "tests/golden/tail-log-1.bin";
    if std::env::var_os("TIERRA_BLESS").is_some() {
        let (bytes, starts) = log_bytes();
        std::fs::write(path, &bytes[..starts[10] + 64]).unwrap();
    }
    assert_eq!(
        read(&std::fs::read(path).unwrap()).unwrap(),
        ((0..10).collect(), 110)
    );
}

#[test]
fn a_record_has_the_parts_that_it_was_made_of() {
    let deleted = [3, 7, 70_000].map(|row| RowId::new(5, row));
    let deleted: RowIds = deleted.into_iter().collect();
    let first = Record::of(&deleted, None).unwrap();
    let second = Record::of(&RowIds::default(), Some(&rows(0..3))).unwrap();
    let third = Record::of(&deleted, Some(&rows(5..6))).unwrap();
    let participants = [(4, 17), (9, 0)];
    let participants = participants.map(|(table, sequence)| Participant { table, sequence });
    let all = [&first, &second, &third];
    let joined = Record::together(&participants, all.into_iter());
    assert_eq!(joined.rows(), 4);
    let payload = joined.payload().to_vec();
    let (found, parts) = read_payload(&payload, 2).unwrap();
    assert_eq!(found, participants);
    let expected = [
        (deleted.clone(), None),
        (RowIds::default(), Some(rows(0..3))),
        (deleted, Some(rows(5..6))),
    ];
    assert_eq!(parts.len(), expected.len());
    for (part, (deleted, rows)) in parts.iter().zip(expected) {
        assert_eq!(part.deleted, deleted);
        let found = (!part.rows.is_empty()).then(|| decode(&schema(), &Buffer::from(part.rows)));
        assert_eq!(found.map(Result::unwrap), rows);
    }
    // No panic, whatever a payload says.
    for len in 0..payload.len() {
        let _ = read_payload(&payload[..len], 2);
    }
    for at in 0..payload.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut forged = payload.clone();
            forged[at] = value;
            let _ = read_payload(&forged, 2);
        }
    }
    assert!(read_payload(&payload, u32::MAX).is_err());
    assert!(read_payload(&[], 0).is_err());
}

/// A record that is taken back is not found, whatever follows.
#[test]
fn a_record_that_is_taken_back_does_not_count() {
    let commit = Commit {
        number: COMMIT + 11,
        follows: VERSION,
    };
    let (bytes, _, _) = logged(|log| {
        let before = log.end();
        log.append(&LOG_METHOD, &mut record(0..500), commit)
            .unwrap();
        log.take_back(&LOG_METHOD, before).unwrap();
        assert_eq!(
            (log.end().at, log.end().sequence),
            (before.at, before.sequence)
        );
    });
    assert_eq!(read(&bytes).unwrap(), ((0..10).collect(), 110));
    let (bytes, _, _) = logged(|log| {
        let before = log.end();
        log.append(&LOG_METHOD, &mut record(0..500), commit)
            .unwrap();
        log.take_back(&LOG_METHOD, before).unwrap();
        log.append(&LOG_METHOD, &mut record(100..115), commit)
            .unwrap();
    });
    assert_eq!(read(&bytes).unwrap(), ((0..11).collect(), 111));
}

#[test]
fn payloads_that_lie_are_errors() {
    let mut payload = arrow::buffer::MutableBuffer::new(0);
    encode(&rows(0..20), &mut payload).unwrap();
    let whole = payload.to_vec();
    assert_eq!(
        decode(&schema(), &Buffer::from(&whole[..])).unwrap(),
        rows(0..20)
    );
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            // No panic. Changed rows may still be well-formed: detecting that is the checksum's task.
            let _ = decode(&schema(), &Buffer::from(changed));
        }
    }
    for len in 0..whole.len() {
        assert!(
            decode(&schema(), &Buffer::from(&whole[..len])).is_err(),
            "{len} bytes"
        );
    }
}
