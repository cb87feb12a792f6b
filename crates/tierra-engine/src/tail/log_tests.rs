//! The log's promises: every committed record comes back, a torn end is no error, damage before
//! the end is.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use tierra_memory::{Pool, PoolOptions};

use super::log::{METHOD, Mend, Record, TailLog, replay};
use super::{LogError, decode, encode};
use crate::manifest::{ExtentId, LogEntry, TailEntry};
use crate::space::Owner;
use crate::tiers::{TierId, Tiers};

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
    Record::new(numbers.len() as u32, |out| encode(&rows(numbers), out)).unwrap()
}

/// The bytes of a log of ten records, and where each starts.
fn log_bytes() -> (Vec<u8>, Vec<usize>) {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(&dir.path().join("pool"), &PoolOptions::default()).unwrap();
    let tiers = Tiers::first(pool);
    let writer = tiers.allocate(LOG, &[TierId::FIRST], LOG_BYTES, Owner::Log(1));
    let extent = writer.unwrap().finish_log().unwrap();
    let mut log = TailLog::starting_at(100);
    log.continue_in(ENTRY, &extent).unwrap();
    let mut starts = Vec::new();
    let mut at = 0;
    for number in 0..10 {
        let mut record = record(number * 10..number * 10 + 5 + number);
        assert!(log.fits(&record));
        starts.push(at as usize);
        at += record.len_bytes();
        log.append(&METHOD, &mut record).unwrap();
    }
    starts.push(at as usize);
    (extent.first().to_vec(), starts)
}

/// The first number of each record, and the sequence number that comes next.
fn read(bytes: &[u8]) -> Result<(Vec<i32>, u64), LogError> {
    let (numbers, next, mends) = read_copies(&[bytes])?;
    assert_eq!(mends, []);
    Ok((numbers, next))
}

/// The same of several copies, and what is wrong in which.
fn read_copies(copies: &[&[u8]]) -> Result<(Vec<i32>, u64, Vec<Mend>), LogError> {
    let tail = TailEntry {
        segment_id: 0,
        first_sequence: 100,
        logs: vec![ENTRY],
    };
    let mut numbers = Vec::new();
    let (end, mends) = replay(
        &tail,
        |_| copies.to_vec(),
        |sequence, payload, _| {
            let batch = decode(&schema(), &Buffer::from(payload))
                .map_err(|source| LogError::Rows { sequence, source })?;
            let number = numbers.len() as i32;
            assert_eq!(batch, rows(number * 10..number * 10 + 5 + number));
            numbers.push(number);
            Ok(())
        },
    )?;
    Ok((numbers, end.sequence, mends))
}

#[test]
fn committed_records_come_back() {
    let (bytes, _) = log_bytes();
    assert_eq!(read(&bytes).unwrap(), ((0..10).collect(), 110));
    assert_eq!(read(&[0; 4096]).unwrap(), (vec![], 100));
    assert_eq!(read(&[]).unwrap(), (vec![], 100));
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

/// Each record is there as long as one copy has it, and what the others have instead is told.
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
    let (numbers, next, mends) = read_copies(&[&first, &second, &first]).unwrap();
    assert_eq!((numbers, next), ((0..10).collect(), 110));
    assert_eq!(mends.len(), 5 * 2 + 5);
    let mut mended = [first.clone(), second.clone(), first.clone()];
    for Mend {
        extent,
        wrong,
        right,
        range,
    } in mends
    {
        assert_eq!(extent, LOG);
        let good = mended[right][range.clone()].to_vec();
        mended[wrong][range].copy_from_slice(&good);
    }
    assert!(mended.iter().all(|copy| *copy == bytes));
    // A copy that was missing while records were written.
    let mut stale = bytes.clone();
    stale[starts[4]..].fill(0);
    let (numbers, _, mends) = read_copies(&[&stale, &bytes]).unwrap();
    assert_eq!((numbers.len(), mends.len()), (10, 6));
    // A record that none has, and later ones follow in one of them.
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
    // An older log of the same extent, cut short by a newer one's terminator.
    moved[..64].fill(0);
    let logs = vec![LogEntry {
        extent: LOG,
        epoch: EPOCH + 1,
    }];
    let tail = TailEntry {
        segment_id: 0,
        first_sequence: 5,
        logs,
    };
    let (end, _) = replay(
        &tail,
        |_| vec![&moved[..]],
        |_, _, _| panic!("no record is of this epoch"),
    )
    .unwrap();
    assert_eq!(end.sequence, 5);
    let mut swapped = bytes.clone();
    let (second, third) = (starts[1]..starts[2], starts[2]..starts[3]);
    if second.len() == third.len() {
        swapped.copy_within(third, second.start);
        assert!(read(&swapped).is_err());
    }
}

#[test]
fn a_newer_version_is_named() {
    let (mut bytes, _) = log_bytes();
    bytes[4] = 2;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    assert!(matches!(read(&bytes), Err(LogError::Newer { found: 2 })));
}

/// Records of format version 1 stay readable, whatever writes the newest ones. `TIERRA_BLESS=1`
/// writes the file, for a new version.
#[test]
fn old_logs_stay_readable() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tail-log-1.bin");
    if std::env::var_os("TIERRA_BLESS").is_some() {
        let (bytes, starts) = log_bytes();
        std::fs::write(&path, &bytes[..starts[10] + 64]).unwrap();
    }
    assert_eq!(
        read(&std::fs::read(&path).unwrap()).unwrap(),
        ((0..10).collect(), 110)
    );
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
            // No panic; rows that are still well formed are none of its business, the checksum is.
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
