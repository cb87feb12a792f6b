//! Promise: damaged bytes are noticed. Whatever byte of a chunk or a dictionary changes, there is
//! an error or the same answer, never a panic; and a block whose checksum was not compared still
//! cannot make a reader leave its bounds.

use std::sync::Arc;

use crate::support::{Nulls, Random, Shape, column, encode, read};
use arrow::array::ArrayRef;
use tierra_column::bits::Mask;
use tierra_column::{
    CellAt, Chunk, ColumnGroups, ColumnReader, ColumnTotals, Dictionary, Encoding, Filter,
    FormatError, GroupTotals, LogicalType, Scratch, Value, ValueSet, WantedTotals, read_cells,
};
use tierra_interleave::{Execution, GroupSize, Interleaved, run_plain};

fn step(value: &Value, steps: u64) -> Value {
    match value {
        Value::Ordinal(ordinal) => Value::Ordinal(ordinal + 3 * steps),
        Value::Wide(value) => Value::Wide(value + i128::from(steps)),
        Value::Bytes(_) => Value::Bytes(format!("Customer#{steps:09}").into_bytes().into()),
    }
}

/// Everything a query may do with a chunk. Answers do not matter here.
fn use_chunk(bytes: &[u8], ty: LogicalType, dictionary: Option<&Dictionary>) {
    if let Ok(chunk) = Chunk::open(bytes, ty) {
        query(&chunk, ty, dictionary);
    }
}

fn query(chunk: &Chunk<'_>, ty: LogicalType, dictionary: Option<&Dictionary>) {
    let value = match ty {
        LogicalType::Varchar => Value::Bytes((*b"Customer#000000005").into()),
        LogicalType::Decimal {
            precision: 19.., ..
        } => Value::Wide(5),
        _ => Value::Ordinal(1 << 31),
    };
    let mut scratch = Scratch::new();
    let set = ValueSet::new((0..600).map(|i| step(&value, i)).collect()).unwrap();
    let filters = [
        Filter::in_set(Arc::new(set)),
        Filter::not_eq(value.clone()),
        Filter::less(value),
        Filter::is_null(),
    ];
    for filter in filters {
        let Ok(bound) = chunk.bind(&filter, dictionary, Execution::default()) else {
            continue;
        };
        for block in 0..chunk.blocks() {
            let mut mask = Mask::all();
            let _ = chunk.verdict(&bound, block);
            let _ = chunk.select(&bound, block, &mut mask, &mut scratch);
        }
    }
    let _ = chunk.distinct_sketch().map(|sketch| sketch.estimate());
    let mut reader = ColumnReader::new(ty, 10);
    for block in 0..chunk.blocks() {
        let _ = chunk.verify_block(block);
        let _ = reader.append(chunk, block, &Mask::first(700), dictionary, &mut scratch);
        let _ = reader.append(chunk, block, &Mask::all(), dictionary, &mut scratch);
    }
    let all = WantedTotals {
        sum: true,
        extremes: true,
    };
    for wanted in [all, WantedTotals::default()] {
        if wanted.of_type(ty) {
            let mut totals = ColumnTotals::new(ty, wanted);
            for block in 0..chunk.blocks() {
                let _ = totals.add_known(chunk, block, 700);
                let _ = totals.append(chunk, block, &Mask::first(700), dictionary, &mut scratch);
                let _ = totals.append(chunk, block, &Mask::all(), dictionary, &mut scratch);
            }
            let (mut groups, mut by_group) = (ColumnGroups::new(ty), GroupTotals::new(ty, wanted));
            for block in 0..chunk.blocks() {
                let (mask, mut of_rows) = (Mask::first(700), Vec::new());
                let scratch = &mut scratch;
                let grouped = groups.append(chunk, block, &mask, dictionary, scratch, &mut of_rows);
                if grouped.is_ok() {
                    let of_rows = &of_rows;
                    let _ =
                        by_group.append(&groups, of_rows, chunk, block, &mask, dictionary, scratch);
                }
            }
            let _ = by_group.finish(&groups);
            let _ = groups.finish();
        }
    }
    let decoder = dictionary.map(Dictionary::decoder);
    for row in (0..chunk.rows()).step_by(97) {
        if let Ok(cell) = run_plain(|cx| chunk.value(cx, row, decoder.as_ref())) {
            let mut reader = ColumnReader::new(ty, 1);
            let _ = reader.append_cell(cell);
        }
    }
    let cells = (0..chunk.rows()).step_by(31).map(|row| {
        let decoder = decoder.as_ref();
        let cell = CellAt {
            chunk,
            row,
            decoder,
        };
        (row, cell)
    });
    read_cells::<Interleaved, _>(GroupSize::DEFAULT, cells, &mut |row, found| {
        let alone = run_plain(|cx| chunk.value(cx, row, decoder.as_ref()));
        assert_eq!(found, alone);
    });
    let _ = chunk.min_max();
}

fn cases() -> impl Iterator<Item = (LogicalType, Encoding, ArrayRef)> {
    let types = [
        LogicalType::Integer,
        LogicalType::Varchar,
        LogicalType::Decimal {
            precision: 30,
            scale: 2,
        },
    ];
    types.into_iter().flat_map(|ty| {
        Encoding::ALL
            .into_iter()
            .filter(move |encoding| encoding.supports(ty))
            .flat_map(move |encoding| {
                [Nulls::No, Nulls::Some]
                    .map(|nulls| (ty, encoding, column(ty, Shape::Sorted, nulls, 1300, 0xc0de)))
            })
    })
}

#[test]
fn a_flipped_byte_is_an_error_or_changes_nothing() {
    for (ty, encoding, column) in cases() {
        let encoded = encode(ty, &column, Some(encoding));
        let dictionary = encoded.dictionary.as_ref();
        let mut bytes = encoded.bytes.clone();
        let mut random = Random(1);
        for at in 0..bytes.len() {
            let flip = 1 << random.below(8);
            bytes[at] ^= flip;
            if let Ok(chunk) = Chunk::open(&bytes, ty) {
                let verified = (0..chunk.blocks()).all(|block| chunk.verify_block(block).is_ok());
                // Reading everything at every byte takes minutes: verified chunks are read, and
                // every eleventh of the others, as a reader that trusts its memory would.
                if verified {
                    let found = read(&chunk, dictionary, |_| Mask::all());
                    assert_eq!(&found, &column, "{ty} {encoding} byte {at}");
                } else if at % 11 == 0 {
                    use_chunk(&bytes, ty, dictionary);
                }
            }
            bytes[at] ^= flip;
        }
    }
}

/// An attacker who recomputes the checksums can write any descriptor and directory.
#[test]
fn a_forged_directory_never_leads_out_of_bounds() {
    for (ty, encoding, column) in cases() {
        let encoded = encode(ty, &column, Some(encoding));
        let head = 128 + 2 * 32;
        let mut random = Random(2);
        for round in 0..1500 {
            let mut bytes = encoded.bytes.clone();
            for _ in 0..1 + random.below(3) {
                // Rarely in the sketch, if there is one: most of it may be anything.
                let head = if random.below(8) == 0 {
                    head + 1024
                } else {
                    head
                };
                let at = 5 + random.below(head - 5) as usize;
                bytes[at] = match random.below(3) {
                    0 => random.next() as u8,
                    1 => 0xff,
                    _ => bytes[at] ^ (1 << random.below(8)),
                };
            }
            seal(&mut bytes);
            let _ = round;
            for ty in [ty, LogicalType::BigInt, LogicalType::Boolean] {
                use_chunk(&bytes, ty, encoded.dictionary.as_ref());
            }
        }
    }
}

/// A planted bug: a writer that takes the length of one encoding for another's, of a chunk or of a block, and
/// computes every checksum of that.
#[test]
fn the_length_of_another_encoding_is_found() {
    let (mut refused, mut found_later, mut longer) = (0, 0, 0);
    for (ty, encoding, column) in cases() {
        let encoded = encode(ty, &column, Some(encoding));
        let dictionary = encoded.dictionary.as_ref();
        let others = Encoding::ALL.into_iter().filter(|other| other.supports(ty));
        for other in others.filter(|other| *other != encoding) {
            let other = encode(ty, &column, Some(other)).bytes;
            if other.len() != encoded.bytes.len() {
                let mut bytes = encoded.bytes.clone();
                bytes[48..56].copy_from_slice(&(other.len() as u64).to_le_bytes());
                seal(&mut bytes);
                assert!(Chunk::open(&bytes, ty).is_err(), "{ty} {encoding}");
            }
            for block in 0..2 {
                let entry = 128 + 32 * block;
                let [right, wrong] =
                    [&encoded.bytes, &other].map(|bytes| u32_at(bytes, entry + 24));
                if right == wrong {
                    continue;
                }
                let mut bytes = encoded.bytes.clone();
                let from = u32_at(&bytes, 40) as usize + 64 * u32_at(&bytes, entry + 20) as usize;
                let crc = bytes
                    .get(from..from + wrong as usize)
                    .map_or(0, crc32c::crc32c);
                bytes[entry + 24..entry + 28].copy_from_slice(&wrong.to_le_bytes());
                bytes[entry + 16..entry + 20].copy_from_slice(&crc.to_le_bytes());
                seal(&mut bytes);
                let Ok(chunk) = Chunk::open(&bytes, ty) else {
                    refused += 1;
                    continue;
                };
                let mut reader = ColumnReader::new(ty, 100);
                let mut scratch = Scratch::new();
                let mut append =
                    |block| reader.append(&chunk, block, &Mask::all(), dictionary, &mut scratch);
                match (0..chunk.blocks()).try_for_each(&mut append) {
                    Err(_) => found_later += 1,
                    // Blocks of texts, and those of several widths, say themselves where what they need ends.
                    Ok(()) => {
                        assert!(wrong > right, "{ty} {encoding} {right} {wrong}");
                        assert_eq!(&reader.finish(), &column, "{ty} {encoding}");
                        longer += 1;
                    }
                }
            }
        }
    }
    assert!(
        refused > 50 && found_later > 0,
        "{refused} {found_later} {longer}"
    );
}

/// Makes the checksums of a chunk of two blocks right, which may have a sketch.
fn seal(bytes: &mut [u8]) {
    let sketch_bytes = u32_at(bytes, 88) as usize;
    let summary = bytes.get(128..128 + 2 * 32 + sketch_bytes);
    let crc = crc32c::crc32c(summary.unwrap_or(&[]));
    bytes[120..124].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn a_chunk_cut_short_is_noticed() {
    for (ty, encoding, column) in cases() {
        let bytes = encode(ty, &column, Some(encoding)).bytes;
        for len in [0, 1, 127, 128, 150, bytes.len() - 65, bytes.len() - 1] {
            let error = Chunk::open(&bytes[..len], ty).unwrap_err();
            assert!(matches!(error, FormatError::Truncated { .. }), "{error}");
        }
        // What follows a chunk does not matter.
        let mut longer = bytes.clone();
        longer.extend_from_slice(b"the next chunk");
        assert_eq!(Chunk::open(&longer, ty).unwrap().len_bytes(), bytes.len());
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let ty = LogicalType::Integer;
    let mut bytes = encode(ty, &column(ty, Shape::Few, Nulls::No, 10, 1), None).bytes;
    let error = Chunk::open(&bytes, LogicalType::Date)
        .unwrap_err()
        .to_string();
    assert_eq!(error, "the chunk holds INTEGER but its column is DATE");
    bytes[4] = 9;
    let error = Chunk::open(&bytes, ty).unwrap_err().to_string();
    assert!(
        error.contains("version 9") && error.contains("reads 1"),
        "{error}"
    );
    bytes[0] = b'X';
    let error = Chunk::open(&bytes, ty).unwrap_err().to_string();
    assert!(error.starts_with("this is no chunk"), "{error}");
}

#[test]
fn a_damaged_dictionary_image_is_an_error() {
    for ty in [LogicalType::Varchar, LogicalType::BigInt] {
        let column = column(ty, Shape::Extremes, Nulls::Some, 500, 4);
        let dictionary = encode(ty, &column, Some(Encoding::Dictionary))
            .dictionary
            .unwrap();
        let mut image = dictionary.main_piece();
        let open = |image: &[u8]| Dictionary::open(ty, dictionary.generation(), image, &[]);
        assert_eq!(
            &open(&image).unwrap().values_array(),
            &dictionary.values_array()
        );
        for at in 0..image.len() {
            image[at] ^= 0x10;
            assert!(open(&image).is_err(), "{ty} byte {at}");
            image[at] ^= 0x10;
        }
        for len in 0..image.len() {
            assert!(open(&image[..len]).is_err(), "{ty} cut at {len}");
        }
    }
}

/// Far bytes may be anything behind a chunk header that is near: a damaged header there misleads no query, and damaged blocks
/// are found by their checksums.
#[test]
fn whatever_lies_behind_a_near_header_no_query_panics() {
    let mut random = Random(0x5eed);
    for (ty, encoding, column) in cases() {
        let encoded = encode(ty, &column, Some(encoding));
        let dictionary = encoded.dictionary.as_ref();
        let right = Chunk::open(&encoded.bytes, ty).unwrap();
        let head = encoded.bytes[..right.header_bytes()].to_vec();
        assert!(head.len() <= Chunk::header_bytes_max(right.rows()));
        let mut bytes = encoded.bytes.clone();
        bytes[..head.len()].fill(0xff);
        let chunk = Chunk::with_header(&head, &bytes, ty).unwrap();
        assert!((0..chunk.blocks()).all(|block| chunk.verify_block(block).is_ok()));
        let rows = Mask::first(chunk.block_rows(0));
        let values = |chunk: &Chunk<'_>| {
            let mut reader = ColumnReader::new(ty, 0);
            let scratch = &mut Scratch::new();
            reader.append(chunk, 0, &rows, dictionary, scratch).unwrap();
            reader.finish()
        };
        assert_eq!(&values(&chunk), &values(&right), "{ty} {encoding}");
        for _ in 0..20 {
            let mut bytes: Vec<u8> = bytes.iter().map(|_| random.below(256) as u8).collect();
            query(
                &Chunk::with_header(&head, &bytes, ty).unwrap(),
                ty,
                dictionary,
            );
            bytes.fill(random.below(256) as u8);
            query(
                &Chunk::with_header(&head, &bytes, ty).unwrap(),
                ty,
                dictionary,
            );
        }
        let short = Chunk::with_header(&head[..head.len() - 64], &encoded.bytes, ty);
        assert!(short.is_err(), "{ty} {encoding}");
        let short = Chunk::with_header(&head, &encoded.bytes[..encoded.bytes.len() - 1], ty);
        assert!(short.is_err(), "{ty} {encoding}");
    }
}

#[test]
fn a_block_that_is_no_text_leaves_what_was_read_before() {
    let ty = LogicalType::Varchar;
    let column = column(ty, Shape::Random, Nulls::No, 2048, 3);
    let mut bytes = encode(ty, &column, Some(Encoding::Plain)).bytes;
    // The pad ends the chunk, fewer bytes than a line fill up the last block's last one.
    let end = bytes.len() - 64;
    let last = (end - 63..=end)
        .rev()
        .find(|&at| bytes[at - 1] != 0)
        .unwrap();
    bytes[last - 1] = 0xff;
    let chunk = Chunk::open(&bytes, ty).unwrap();
    assert!(chunk.verify_block(1).is_err());
    let mut scratch = Scratch::new();
    let mut reader = ColumnReader::new(ty, 0);
    reader
        .append(&chunk, 0, &Mask::all(), None, &mut scratch)
        .unwrap();
    // All rows, nearly all, and the last two.
    let (mut nearly_all, mut two) = (Mask::all(), Mask::none());
    nearly_all.set(7, false);
    two.set(1022, true);
    two.set(1023, true);
    for mask in [Mask::all(), nearly_all, two] {
        let error = reader.append(&chunk, 1, &mask, None, &mut scratch);
        assert!(
            matches!(error, Err(FormatError::Corrupt { .. })),
            "{error:?}"
        );
        assert_eq!(reader.len(), 1024);
    }
    assert_eq!(&reader.finish(), &column.slice(0, 1024));
}
