//! The manifest's promises: it reads back, its format is stable, and hostile bytes are harmless.

use proptest::prelude::*;
use tierra_column::{Encoding, LogicalType};

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::spec::ColumnSpec;
use crate::spec::TableSpec;
use crate::spec::index_kind::IndexKind;
use crate::spec::replicas::{PlacedReplica, ReplicaPlacement, TierId};

/// A manifest with every kind of field in it.
fn sample() -> Manifest {
    let types = [
        LogicalType::Boolean,
        LogicalType::Integer,
        LogicalType::BigInt,
        LogicalType::Decimal {
            precision: 38,
            scale: 7,
        },
        LogicalType::Double,
        LogicalType::Date,
        LogicalType::Timestamp,
        LogicalType::Varchar,
    ];
    let encodings = [
        None,
        Some(Encoding::Plain),
        Some(Encoding::Static),
        Some(Encoding::Dynamic),
        Some(Encoding::FrameOfReference),
        Some(Encoding::Delta),
        Some(Encoding::Dictionary),
        None,
    ];
    let column = |at: usize| ColumnSpec {
        name: format!("cölumn {at}"),
        ty: types[at],
        nullable: at % 2 == 1,
        encoding: encodings[at],
        near: [None, Some(true), Some(false)][at % 3],
        near_encoding: None,
        index: (at == 6).then_some(IndexKind::Inverted),
    };
    let extent = ExtentId;
    let place = |at: u64| StoredRange {
        extent: extent(at),
        offset: 64,
        len_bytes: 900,
    };
    let mut dictionaries = vec![None; types.len()];
    dictionaries[7] = Some(DictionaryEntry {
        generation: 3,
        main: place(10),
        deltas: vec![place(11), place(12)],
    });
    dictionaries[6] = Some(DictionaryEntry {
        generation: 5,
        main: place(13),
        deltas: vec![],
    });
    let chunk = |at: u32| ChunkPlace {
        extent: at / 4,
        offset: u64::from(at % 4) * 128,
        len_bytes: 100,
        encoding: encodings[at as usize]
            .filter(|encoding| encoding.supports(types[at as usize]))
            .unwrap_or(Encoding::Plain),
    };
    let further = || {
        let place = |extent, offset, encoding| ChunkPlace {
            extent,
            offset,
            len_bytes: 70,
            encoding,
        };
        let replica = |column, place| FurtherReplica { column, place };
        vec![
            replica(2, place(1, 640, Encoding::Delta)),
            replica(2, place(0, 704, Encoding::Plain)),
            replica(7, place(1, 768, Encoding::Fsst)),
        ]
    };
    let segment = |id: u32, rows: u32| {
        Arc::new(SegmentEntry {
            id,
            rows,
            extents: vec![extent(20 + u64::from(id)), extent(30 + u64::from(id))],
            chunks: (0..8).map(chunk).collect(),
            further: if id == 5 { further() } else { vec![] },
        })
    };
    let part = |segments: Vec<u32>, at: u64| {
        Arc::new(PartEntry {
            column: 6,
            generation: 5,
            segments,
            extent: extent(at),
        })
    };
    let run = |segments: Vec<u32>, at: u64| {
        Arc::new(RunEntry {
            segments,
            extent: extent(at),
        })
    };
    let deleted = DeletedEntry {
        rows: 1,
        commit: 71,
        place: StoredRange {
            extent: extent(70),
            offset: 64,
            len_bytes: 50,
        },
    };
    let spec = TableSpec {
        name: "lineörder".to_owned(),
        columns: (0..types.len()).map(column).collect(),
        primary_key: vec![2, 0],
    };
    let logs = vec![
        LogEntry {
            extent: extent(40),
            epoch: 17,
        },
        LogEntry {
            extent: extent(41),
            epoch: 19,
        },
    ];
    let of_third = PlacedReplica::grouped([
        (TierId(5), None),
        (TierId(0), None),
        (TierId(5), Some(Encoding::Delta)),
        (TierId(2), Some(Encoding::Plain)),
    ]);
    let table = TableEntry {
        id: 4,
        spec: Arc::new(spec),
        // As if columns had been added and dropped.
        column_ids: [3, 0, 1, 9, 4, 5, 6, 8].map(ColumnId).to_vec(),
        next_column_id: ColumnId(11),
        placement: ReplicaPlacement {
            table: vec![TierId(2), TierId(0)],
            columns: [
                (2, of_third),
                (3, PlacedReplica::grouped([(TierId(5), None)])),
            ]
            .into(),
        },
        next_segment_id: 9,
        dictionaries,
        segments: vec![segment(1, 1 << 20), segment(5, 2), segment(7, 1)],
        deleted: [(5, deleted)].into(),
        parts: vec![part(vec![1, 7], 50), part(vec![5], 51)],
        runs: vec![run(vec![5], 60), run(vec![1, 7], 61)],
        tail: TailEntry {
            segment_id: 8,
            first_sequence: 123,
            reached: 130,
            logs,
        },
    };
    let empty = TableEntry {
        id: 2,
        spec: Arc::new(TableSpec {
            name: "t".to_owned(),
            columns: vec![ColumnSpec::new("c", LogicalType::Integer)],
            primary_key: vec![],
        }),
        column_ids: vec![ColumnId(0)],
        next_column_id: ColumnId(1),
        placement: ReplicaPlacement::default(),
        next_segment_id: 1,
        dictionaries: vec![None],
        segments: vec![],
        deleted: BTreeMap::new(),
        parts: vec![],
        runs: vec![],
        tail: TailEntry::default(),
    };
    let tier = |id: u32, name: &str, present| TierEntry {
        id: TierId(id),
        name: name.to_owned(),
        pool_id: 0xabc0 + u64::from(id),
        present,
    };
    let mut manifest = Manifest {
        version: 42,
        commit: 77,
        database: DatabaseId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        directory_identity: DirectoryIdentity {
            device: 66,
            inode: 1234,
            path: "/srv/shop".into(),
        },
        next_table_id: 5,
        next_extent_id: 99,
        last_tier_id: 7,
        lineage: vec![0x1234_5678_9abc_def0, 3],
        tiers: vec![
            tier(0, "far", true),
            tier(2, "söcket", false),
            tier(5, "third", true),
        ],
        extents: BTreeMap::new(),
        tables: vec![Arc::new(table), Arc::new(empty)],
    };
    let copy = |tier: u32, id: &ExtentId| CopyEntry {
        tier: TierId(tier),
        offset: 4096 * (id.0 + 1000 * u64::from(tier)),
    };
    let entry = |id: ExtentId| {
        let mut copies = vec![copy(0, &id)];
        if id.0.is_multiple_of(2) {
            copies.insert(0, copy(5, &id));
        }
        let len_bytes = 1000 + id.0;
        (id, ExtentEntry { len_bytes, copies })
    };
    manifest.extents = manifest.named().into_iter().map(entry).collect();
    manifest
}

/// A manifest without tables.
fn empty() -> Manifest {
    Manifest {
        tiers: sample().tiers,
        last_tier_id: 7,
        ..Manifest::default()
    }
}

/// Writes a valid checksum into the bytes.
fn reseal(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[HEADER_BYTES..]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn it_reads_back() {
    let mut bytes = sample().encode();
    assert_eq!(Manifest::decode(&bytes).unwrap(), sample());
    // An extent may be longer.
    bytes.extend_from_slice(&[0xff; 100]);
    assert_eq!(Manifest::decode(&bytes).unwrap(), sample());
    assert_eq!(Manifest::decode(&empty().encode()).unwrap(), empty());
}

/// Format version 1, as it was first written. `TIERRA_BLESS=1` writes the file, for a new version.
#[test]
fn its_bytes_stay_what_they_are() {
    let path = "tests/golden/manifest-1.bin";
    if std::env::var_os("TIERRA_BLESS").is_some() {
        std::fs::write(path, sample().encode()).unwrap();
    }
    let golden = std::fs::read(path).unwrap();
    assert_eq!(
        Manifest::decode(&golden).unwrap(),
        sample(),
        "an old manifest is not understood"
    );
    assert_eq!(
        sample().encode(),
        golden,
        "the layout changed: it needs a new version byte"
    );
}

#[test]
fn near_copies_have_an_encoding_if_one_is_named() {
    let mut manifest = sample();
    let mut table = TableEntry::clone(&manifest.tables[0]);
    let spec = Arc::make_mut(&mut table.spec);
    for (column, encoding) in spec
        .columns
        .iter_mut()
        .zip([Encoding::Static, Encoding::Plain])
    {
        column.near_encoding = Some(encoding);
    }
    manifest.tables[0] = Arc::new(table);
    let bytes = manifest.encode();
    assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
    let named = [4, Encoding::Static.tag()];
    let at = bytes.windows(2).position(|two| two == named).unwrap();
    for (byte, error) in [(255, "no encoding"), (200, "encoding 200")] {
        let mut bytes = bytes.clone();
        bytes[at + 1] = byte;
        reseal(&mut bytes);
        let refused = Manifest::decode(&bytes).unwrap_err().to_string();
        assert!(refused.contains(error), "{refused}");
    }
}

/// Reserved fields that this build does not use are rejected by name, regardless of which of their bytes is set.
#[test]
fn what_is_unknown_is_refused_by_name() {
    let refused = |find: &[u8], at: usize, byte: u8| {
        let mut bytes = sample().encode();
        let found = bytes.windows(find.len()).position(|window| window == find);
        bytes[found.unwrap() + at] = byte;
        reseal(&mut bytes);
        Manifest::decode(&bytes).unwrap_err().to_string()
    };
    let commit = 77_u64.to_le_bytes();
    // The second chunk of the first segment: column id, type, replicas, encoding, extent, offset, bytes.
    let chunk = [0, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 0, 128];
    // The first segment: id, rows, two extents, deleted rows.
    let segment = [[1, 0, 0, 0], [0, 0, 16, 0], [2, 0, 0, 0]].concat();
    // The tiers of a table: number and encoding.
    let placement = [2, 0, 0, 0, 2, 0, 0, 0, 0xff];
    for (error, what) in [
        (refused(&commit, 8, 1), "open transactions of kind 1"),
        (
            refused(&placement, 8, 2),
            "an encoding of their own, dynamic",
        ),
        (
            refused(&segment, 12 + 16, 2),
            "deleted rows of segment 1 in form 2",
        ),
        (refused(&chunk, 8, 99), "encoding 99 in column \"cölumn 1\""),
        (
            refused(&chunk, 4, 3),
            "was written as BIGINT before the column became INTEGER",
        ),
    ] {
        assert!(
            error.contains(what) && error.contains("this Tierra does not know"),
            "{error} instead of {what}"
        );
    }
    let mut manifest = sample();
    Arc::make_mut(&mut Arc::make_mut(&mut manifest.tables[0]).segments[0])
        .chunks
        .pop();
    let error = Manifest::decode(&manifest.encode())
        .unwrap_err()
        .to_string();
    assert!(error.contains("older than column \"cölumn 7\""), "{error}");
}

#[test]
fn replicas_that_cannot_be_are_refused() {
    let refused = |change: &dyn Fn(&mut TableEntry)| {
        let mut manifest = sample();
        change(Arc::make_mut(&mut manifest.tables[0]));
        Manifest::decode(&manifest.encode())
            .unwrap_err()
            .to_string()
    };
    let further = |change: fn(&mut FurtherReplica)| {
        refused(&|table| {
            let segment = Arc::make_mut(&mut table.segments[1]);
            change(segment.further.last_mut().unwrap());
        })
    };
    let placed = |placed: Vec<(TierId, Option<Encoding>)>| {
        refused(&|table| {
            let replicas = PlacedReplica::grouped(placed.clone());
            table.placement.columns.insert(6, replicas);
        })
    };
    let (own, far) = (None, TierId(0));
    for (error, what) in [
        (further(|it| it.place.extent = 2), "lies outside its extent"),
        (
            further(|it| it.place.offset = 1000),
            "lies outside its extent",
        ),
        (
            further(|it| it.place.encoding = Encoding::Delta),
            "an encoding that VARCHAR cannot have",
        ),
        (
            further(|it| it.place.encoding = Encoding::Dictionary),
            "holds codes of a dictionary",
        ),
        (
            refused(&|table| {
                let segment = Arc::make_mut(&mut table.segments[1]);
                let more = segment.further[2];
                segment.further.extend([more; 18]);
            }),
            "has 20 replicas",
        ),
        (placed(vec![]), "impossible tiers"),
        (placed(vec![(far, own); 2]), "impossible tiers"),
        (placed(vec![(TierId(1), own)]), "impossible tiers"),
        (
            placed(vec![(far, Some(Encoding::Fsst))]),
            "cannot be stored with encoding fsst",
        ),
        (
            placed(vec![(far, Some(Encoding::Static))]),
            "has an index, which needs encoding dictionary",
        ),
        (
            placed(vec![(far, own), (far, Some(Encoding::Dictionary))]),
            "only its first replica",
        ),
    ] {
        assert!(error.contains(what), "{error} instead of {what}");
    }
}

#[test]
fn columns_that_cannot_be_told_apart_are_refused() {
    let refused = |change: fn(&mut TableEntry)| {
        let mut manifest = sample();
        change(Arc::make_mut(&mut manifest.tables[0]));
        Manifest::decode(&manifest.encode())
            .unwrap_err()
            .to_string()
    };
    for error in [
        refused(|table| table.column_ids[1] = ColumnId(3)),
        refused(|table| table.column_ids[1] = ColumnId(11)),
    ] {
        assert!(error.contains("which is not its own"), "{error}");
    }
    let error = refused(|table| table.tail.reached = 122);
    assert!(error.contains("reached record 122"), "{error}");
}

#[test]
fn parts_of_an_index_that_cannot_be_are_refused() {
    let refused = |change: &dyn Fn(&mut Vec<Arc<PartEntry>>)| {
        let mut manifest = sample();
        let mut table = TableEntry::clone(&manifest.tables[0]);
        change(&mut table.parts);
        manifest.tables[0] = Arc::new(table);
        Manifest::decode(&manifest.encode())
            .unwrap_err()
            .to_string()
    };
    let changed =
        |change: fn(&mut PartEntry)| refused(&|parts| change(Arc::make_mut(&mut parts[0])));
    for error in [
        changed(|part| part.column = 7),
        changed(|part| part.generation = 4),
    ] {
        assert!(
            error.contains("has no place for a part of an index"),
            "{error}"
        );
    }
    for error in [
        changed(|part| part.segments.clear()),
        changed(|part| part.segments = vec![7, 1]),
        changed(|part| part.segments = vec![1, 2]),
        refused(&|parts| Arc::make_mut(&mut parts[1]).segments.push(7)),
    ] {
        assert!(
            error.contains("out of order, twice, or that are not there"),
            "{error}"
        );
    }
}

#[test]
fn runs_of_keys_that_cannot_be_are_refused() {
    let refused = |change: &dyn Fn(&mut TableEntry)| {
        let mut manifest = sample();
        let mut table = TableEntry::clone(&manifest.tables[0]);
        change(&mut table);
        manifest.tables[0] = Arc::new(table);
        Manifest::decode(&manifest.encode())
            .unwrap_err()
            .to_string()
    };
    let changed =
        |change: fn(&mut RunEntry)| refused(&|table| change(Arc::make_mut(&mut table.runs[1])));
    for error in [
        changed(|run| run.segments.clear()),
        changed(|run| run.segments = vec![7, 1]),
        changed(|run| run.segments = vec![1, 2]),
        changed(|run| run.segments = vec![1, 5, 7]),
    ] {
        assert!(
            error.contains("out of order, twice, or that are not there"),
            "{error}"
        );
    }
    let error = refused(&|table| Arc::make_mut(&mut table.spec).primary_key.clear());
    assert!(error.contains("a table without a key"), "{error}");
}

#[test]
fn what_is_cut_short_or_newer_or_damaged_is_refused_with_the_reason() {
    let bytes = sample().encode();
    for len in 0..bytes.len() {
        let error = Manifest::decode(&bytes[..len]).unwrap_err();
        assert!(
            matches!(error, ManifestError::Truncated { .. }),
            "{len} bytes: {error}"
        );
    }
    let changed = |at: usize| {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        Manifest::decode(&bytes).unwrap_err()
    };
    assert!(matches!(changed(3), ManifestError::Magic));
    for version in [0, 2, 4, 255] {
        let mut other = bytes.clone();
        other[8] = version;
        let error = Manifest::decode(&other).unwrap_err().to_string();
        let expected =
            format!("has format version {version}, but this Tierra reads only version 1");
        assert!(error.contains(&expected), "{error}");
    }
    for at in HEADER_BYTES..bytes.len() {
        assert!(matches!(changed(at), ManifestError::Checksum { .. }));
    }
}

proptest! {
    /// Bytes with a valid checksum and hostile content: no panic, no huge allocation, and accepted input can be written and read
    /// again.
    #[test]
    fn hostile_bytes_are_errors(changes in prop::collection::vec((0..4096_usize, any::<u8>()), 1..8), cut in 0..4096_usize) {
        let mut bytes = sample().encode();
        let body = bytes.len() - HEADER_BYTES;
        for (at, value) in changes {
            bytes[HEADER_BYTES + at % body] = value;
        }
        if cut % 3 == 0 {
            bytes.truncate(HEADER_BYTES + cut % body);
            let len = (bytes.len() - HEADER_BYTES) as u64;
            bytes[16..24].copy_from_slice(&len.to_le_bytes());
        }
        reseal(&mut bytes);
        if let Ok(manifest) = Manifest::decode(&bytes) {
            prop_assert_eq!(Manifest::decode(&manifest.encode()).unwrap(), manifest);
        }
    }
}

/// The next commit would count on from them.
#[test]
fn counters_at_their_end_are_refused() {
    for at in [0, 8, 53, 61] {
        let mut bytes = empty().encode();
        bytes[HEADER_BYTES + at..][..8].copy_from_slice(&u64::MAX.to_le_bytes());
        reseal(&mut bytes);
        let error = Manifest::decode(&bytes).unwrap_err().to_string();
        assert!(error.contains("nothing was ever counted"), "{error}");
    }
}

#[test]
fn a_list_is_believed_only_as_long_as_it_could_be() {
    let mut bytes = empty().encode();
    // The number of tables, the last of the fields.
    let at = bytes.len() - 4;
    bytes[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    reseal(&mut bytes);
    let error = Manifest::decode(&bytes).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("claims 4294967295 items, 0 bytes are left"),
        "{error}"
    );
}

#[test]
fn copies_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut Manifest)| {
        let mut manifest = sample();
        change(&mut manifest);
        let decoded = Manifest::decode(&manifest.encode());
        decoded.unwrap_err().to_string()
    };
    fn copies(manifest: &mut Manifest) -> &mut Vec<CopyEntry> {
        &mut manifest.extents.get_mut(&ExtentId(10)).unwrap().copies
    }
    fn placement(manifest: &mut Manifest) -> &mut ReplicaPlacement {
        &mut Arc::make_mut(&mut manifest.tables[0]).placement
    }
    for (change, expected) in [
        (
            (|m| copies(m).clear()) as fn(&mut Manifest),
            "impossible copies",
        ),
        (|m| copies(m)[0].tier = TierId(1), "impossible copies"),
        (|m| copies(m)[0].tier = TierId(0), "impossible copies"),
        (|m| m.next_extent_id = 51, "impossible copies"),
        (|m| placement(m).table.clear(), "impossible tiers"),
        (
            |m| placement(m).table = vec![TierId(2); 2],
            "impossible tiers",
        ),
        (|m| m.tiers[2].pool_id = m.tiers[0].pool_id, "cannot be one"),
        (|m| m.tiers[2].name = "far".to_owned(), "cannot be one"),
        (|m| m.last_tier_id = 4, "was not given out"),
        (|m| *m = Manifest::default(), "no tier holds it"),
        (
            |m| drop(m.extents.remove(&ExtentId(10))),
            "there is no extent 10",
        ),
        (
            |m| {
                let entry = m.extents[&ExtentId(10)].clone();
                m.extents.insert(ExtentId(98), entry);
            },
            "nothing names extent 98",
        ),
    ] {
        let error = refused(change);
        assert!(error.contains(expected), "{error} instead of {expected}");
    }
}

#[test]
fn manifests_of_runs_that_parted_do_not_continue_each_other() {
    let (old, mut new) = (sample(), sample());
    new.version += 1;
    assert!(new.continues(&old) && !old.continues(&new));
    new.lineage.push(9);
    assert!(new.continues(&old));
    let mut other = old.clone();
    other.lineage.push(8);
    assert!(!new.continues(&other));
}
