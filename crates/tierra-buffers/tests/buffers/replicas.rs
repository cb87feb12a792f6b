//! Promise: whichever replica is read, in whatever encoding, the values are the same; and a reader says which it reads.

use tierra_buffers::{Encoding, Near, ReadPattern};

use crate::fixture::{allocate, check, check_patterns, open, value, values};

const COUNT: u64 = 70_000;

#[test]
fn every_encoding_gives_the_same_values() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let expected = values(0..COUNT);
    let mut tried = 0;
    for encoding in Encoding::ALL {
        let name = encoding.name();
        let replicas = [format!("far/{name}"), "b/static".to_owned()];
        let replicas = replicas.each_ref().map(String::as_str);
        // Strings have encodings that integers do not.
        let Ok(buffer) = buffers.allocate(name, &replicas, Near::Never) else {
            continue;
        };
        // One part encoded at once, one staged first.
        buffer.append(&expected[..66_000]).unwrap();
        buffer.append(&expected[66_000..]).unwrap();
        for _ in 0..2 {
            check_patterns(&buffer, &expected);
            buffer.pack().unwrap();
        }
        tried += 1;
    }
    assert_eq!(tried, 13);
    drop(buffers);
    let buffers = open(dir.path());
    assert_eq!(buffers.names().len(), 13);
    for name in buffers.names() {
        let reader = buffers.buffer(&name).unwrap().reader(ReadPattern::Random);
        check(&reader.unwrap(), &expected);
    }
}

#[test]
fn the_replica_that_suits_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    // A few values need all bits, and those beside them eight.
    let wide = |position| match position % 1000 {
        7 => i64::MAX - position as i64,
        _ => value(position) % 100,
    };
    let uneven: Vec<i64> = (0..COUNT).map(wide).collect();
    let read = |replicas: &[&str], pattern| {
        let name = format!("{replicas:?} {pattern:?}");
        let buffer = buffers.allocate(&name, replicas, Near::Never).unwrap();
        buffer.append(&uneven).unwrap();
        let reader = buffer.reader(pattern).unwrap();
        let sources = reader.sources();
        assert_eq!((sources.len(), sources[0].values), (1, COUNT));
        let tier = sources[0].tier.clone().unwrap();
        format!("{tier}/{}", sources[0].encoding)
    };
    for replicas in [["far/static", "b/fastpfor"], ["b/fastpfor", "far/static"]] {
        assert_eq!(read(&replicas, ReadPattern::Sequential), "b/fastpfor");
        assert_eq!(read(&replicas, ReadPattern::Random), "far/static");
        assert_eq!(read(&replicas, ReadPattern::Share(0.01)), "far/static");
        assert_eq!(read(&replicas, ReadPattern::Share(0.5)), "b/fastpfor");
    }
    // What finds a value by its mini-block is better than what decodes the block.
    let replicas = ["far/lz4-hc", "b/dynamic"];
    assert_eq!(read(&replicas, ReadPattern::Random), "b/dynamic");
}

#[test]
fn a_near_copy_is_read_by_both_unless_it_has_to_be_decoded() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let tiers = |replicas: &[&str], pattern| {
        let name = replicas.concat() + &format!("{pattern:?}");
        let buffer = buffers.allocate(&name, replicas, Near::First).unwrap();
        buffer.append(&values(0..COUNT)).unwrap();
        buffers.engine().wait_for_near_copies().unwrap();
        let reader = buffer.reader(pattern).unwrap();
        check(&reader, &values(0..COUNT));
        reader.sources()[0].tier.clone()
    };
    assert_eq!(
        tiers(&["far/static", "b/plain"], ReadPattern::Sequential),
        None
    );
    assert_eq!(tiers(&["far/static", "b/plain"], ReadPattern::Random), None);
    let far = Some("far".to_owned());
    assert_eq!(
        tiers(&["far/static", "b/fastpfor"], ReadPattern::Random),
        far
    );
}

#[test]
fn numbers_of_each_replica_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let buffer = allocate(&buffers, Near::Never);
    buffer.append(&values(0..COUNT)).unwrap();
    buffer.append(&[1, 2, 3]).unwrap();
    let info = buffer.info().unwrap();
    assert_eq!(
        (info.name.as_str(), info.count, info.staged),
        ("n", COUNT + 3, 3)
    );
    let told = |at: usize| {
        let replica = &info.replicas[at];
        assert!(!replica.is_missing);
        assert_eq!(replica.rows, COUNT);
        let stored: Vec<Encoding> = replica.encodings.iter().copied().collect();
        (
            replica.tier.as_str(),
            replica.encoding,
            stored,
            replica.stored_bytes,
        )
    };
    let (tier, asked, stored, bytes) = told(0);
    assert_eq!(
        (tier, asked, stored),
        ("far", Some(Encoding::Static), vec![Encoding::Static])
    );
    // 17 to 45 bits each: the widest decides.
    assert!((COUNT * 17 / 8..COUNT * 8).contains(&bytes), "{bytes}");
    let (tier, _, stored, fewer) = told(1);
    assert_eq!((tier, stored), ("b", vec![Encoding::Dynamic]));
    assert!(fewer < bytes, "{fewer} {bytes}");
    buffer.pack().unwrap();
    let info = buffer.info().unwrap();
    assert_eq!((info.staged, info.replicas[1].rows), (0, COUNT + 3));
}

/// Nothing is narrower than 64 bits.
#[test]
fn values_that_fit_no_width_are_kept_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let buffers = open(dir.path());
    let mut wide = values(0..COUNT);
    wide[1] = i64::MIN;
    wide[2000] = i64::MAX;
    for replicas in [
        ["far/static", "b/dynamic"],
        ["far/fastpfor", "b/delta"],
        ["far/for", "b/rle"],
    ] {
        let buffer = buffers
            .allocate(replicas[0], &replicas, Near::IfRoom)
            .unwrap();
        buffer.append(&wide).unwrap();
        check_patterns(&buffer, &wide);
        for replica in buffer.info().unwrap().replicas {
            assert_eq!(
                (replica.rows, replica.encodings.len()),
                (COUNT, 1),
                "{replica:?}"
            );
        }
    }
    // Sums beyond 64 bits as well.
    let buffer = buffers.allocate("sum", &[], Near::IfRoom).unwrap();
    buffer.append(&[i64::MAX, i64::MAX, value(7)]).unwrap();
    let sum = buffer
        .reader(ReadPattern::Sequential)
        .unwrap()
        .sum()
        .unwrap();
    assert_eq!(sum, 2 * i128::from(i64::MAX) + i128::from(value(7)));
}
