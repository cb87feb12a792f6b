//! Promise: what is asked for wrongly is an error that names it, and what is deleted is gone, but for those who read it.

use tierra_buffers::{Error, Near, ReadPattern};

use crate::fixture::{allocate, check, open, values};

#[test]
fn what_cannot_be_allocated_is_named_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    for (replicas, parts) in [
        (&["c/static"][..], &["no tier \"c\"", "far, b"][..]),
        (&["near"], &["no tier \"near\""]),
        (
            &["far/statick"],
            &["far/statick", "unknown encoding", "dynamic"],
        ),
        (&["far/front"], &["BIGINT", "front"]),
        (&["far/static", "b/dictionary"], &["first replica"]),
        (&["far/static", "far/static"], &["twice"]),
        (&["far/"], &["far/"]),
        (&[""], &["tier \"\""]),
    ] {
        let error = buffers.allocate("n", replicas, Near::IfRoom).unwrap_err();
        for part in parts {
            let text = error.to_string();
            assert!(text.contains(part), "{replicas:?}: {part} is not in {text}");
        }
    }
    assert!(buffers.allocate("", &[], Near::IfRoom).is_err());
    assert_eq!(buffers.names(), [""; 0]);
    buffers.allocate("n", &[], Near::IfRoom).unwrap();
    let error = buffers.allocate("n", &[], Near::IfRoom).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    let error = buffers.buffer("m").unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
}

#[test]
fn a_table_is_no_buffer() {
    use tierra_column::LogicalType;
    use tierra_engine::{ColumnSpec, TableSpec};

    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let spec = TableSpec {
        name: "t".to_owned(),
        columns: vec![ColumnSpec::new("value", LogicalType::BigInt)],
        primary_key: Vec::new(),
    };
    buffers.engine().create_table(spec).unwrap();
    assert_eq!(buffers.names(), [""; 0]);
    let error = buffers.buffer("t").unwrap_err();
    assert!(matches!(error, Error::NotABuffer { .. }), "{error}");
}

#[test]
fn positions_that_are_not_there_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = buffers.allocate("n", &[], Near::IfRoom).unwrap();
    let reader = buffer.reader(ReadPattern::Random).unwrap();
    assert!(reader.is_empty() && reader.blocks() == 0);
    assert_eq!(
        (reader.sum().unwrap(), reader.at(&[]).unwrap()),
        (0, vec![])
    );
    assert!(reader.values(0..0).unwrap().is_empty());
    assert_eq!(buffer.append(&[]).unwrap(), 0);
    buffer.append(&values(0..10)).unwrap();
    assert!(matches!(
        reader.at(&[0]),
        Err(Error::Position { position: 0, .. })
    ));
    let reader = buffer.reader(ReadPattern::Random).unwrap();
    assert!(matches!(
        reader.at(&[3, 10]),
        Err(Error::Position {
            position: 10,
            count: 10,
            ..
        })
    ));
    assert!(matches!(
        reader.values(5..11),
        Err(Error::Position { position: 10, .. })
    ));
    assert!(matches!(
        reader.read(u64::MAX, &mut [0; 3]),
        Err(Error::Position { .. })
    ));
    assert!(matches!(
        reader.read_block(1, |_| ()),
        Err(Error::Block {
            block: 1,
            blocks: 1,
            ..
        })
    ));
}

#[test]
fn a_deleted_buffer_is_gone_but_for_its_readers() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = allocate(&buffers, Near::IfRoom);
    let other = buffers.buffer("n").unwrap();
    buffer.append(&values(0..80_000)).unwrap();
    buffer.append(&values(80_000..80_010)).unwrap();
    let reader = other.reader(ReadPattern::Random).unwrap();
    buffer.delete().unwrap();
    // Another of the same name is another.
    let anew = buffers.allocate("n", &[], Near::IfRoom).unwrap();
    anew.append(&[5]).unwrap();
    for old in [&buffer, &other] {
        assert!(matches!(old.append(&[1]), Err(Error::Deleted { .. })));
        assert!(matches!(old.pack(), Err(Error::Deleted { .. })));
        assert!(matches!(old.info(), Err(Error::Deleted { .. })));
        assert!(matches!(old.delete(), Err(Error::Deleted { .. })));
        let error = old.reader(ReadPattern::Random).unwrap_err();
        assert!(error.to_string().contains("\"n\" was deleted"), "{error}");
    }
    check(&reader, &values(0..80_010));
    check(&anew.reader(ReadPattern::Random).unwrap(), &[5]);
    drop((reader, buffer, other, anew, buffers));
    let buffers = open(dir.path());
    let anew = buffers.buffer("n").unwrap();
    check(&anew.reader(ReadPattern::Sequential).unwrap(), &[5]);
}

#[test]
fn after_closing_readers_go_on_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = buffers.allocate("n", &[], Near::IfRoom).unwrap();
    buffer.append(&values(0..2000)).unwrap();
    let reader = buffer.reader(ReadPattern::Sequential).unwrap();
    buffers.close();
    buffers.close();
    let error = buffer.append(&[1]).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    check(&reader, &values(0..2000));
    drop((reader, buffer, buffers));
    let buffer = open(dir.path()).buffer("n").unwrap();
    check(
        &buffer.reader(ReadPattern::Random).unwrap(),
        &values(0..2000),
    );
}
