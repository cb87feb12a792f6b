//! Promise: the value at a position is the one that was appended there, whatever the engine moves.

use tierra_buffers::{Error, Near, ReadPattern};

use crate::fixture::{allocate, check, check_patterns, open, values};

/// Staged values become a segment after the values of a large append that came later.
#[test]
fn values_are_in_order_if_few_and_many_are_appended_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = allocate(&buffers, Near::IfRoom);
    let mut count = 0;
    for (at, many) in [5, 70_000, 1, 3000, 66_000, 2].into_iter().enumerate() {
        assert_eq!(buffer.append(&values(count..count + many)).unwrap(), count);
        count += many;
        if at == 3 {
            buffer.pack().unwrap();
        }
        check_patterns(&buffer, &values(0..count));
    }
    let before = buffer.reader(ReadPattern::Random).unwrap();
    buffer.pack().unwrap();
    check(&before, &values(0..count));
    check(
        &buffer.reader(ReadPattern::Random).unwrap(),
        &values(0..count),
    );
    drop((before, buffer, buffers));
    let buffers = open(dir.path());
    let buffer = buffers.buffer("n").unwrap();
    check(
        &buffer.reader(ReadPattern::Random).unwrap(),
        &values(0..count),
    );
}

/// Segments of few and of many values take turns.
#[test]
fn values_are_in_order_over_many_segments() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = allocate(&buffers, Near::IfRoom);
    let mut count = 0;
    for round in 0..140 {
        let many = if round % 50 == 20 {
            70_000
        } else {
            100 + round
        };
        buffer.append(&values(count..count + many)).unwrap();
        count += many;
        buffer.pack().unwrap();
    }
    buffers.engine().wait_for_near_copies().unwrap();
    let table = buffers.engine().table("n").unwrap();
    let segments = table.snapshot().segments().len();
    assert!(segments > 100, "{segments} segments");
    check_patterns(&buffer, &values(0..count));
}

#[test]
fn a_table_that_something_else_has_written_into_is_an_error() {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};

    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = buffers.allocate("n", &[], Near::IfRoom).unwrap();
    buffer.append(&[1, 2, 3]).unwrap();
    let table = buffers.engine().table("n").unwrap();
    let column = || Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let row = RecordBatch::try_new(table.schema(), vec![column(), column()]).unwrap();
    table.append(&[row]).unwrap();
    let error = buffer.reader(ReadPattern::Sequential).unwrap_err();
    assert!(matches!(error, Error::Order { .. }), "{error}");
    assert!(error.to_string().contains("\"n\""), "{error}");
}
