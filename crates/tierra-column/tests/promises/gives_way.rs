//! Promise: the header of a plain chunk tells for which encodings the chunk is plain because the values cannot be stored otherwise.

use crate::support::{NULLS, SHAPES, TYPES, column};
use tierra_column::bits::BLOCK_LEN;
use tierra_column::{Chunk, ChunkPlan, Encoding};

#[test]
fn the_header_of_a_plain_chunk_tells_what_gives_way() {
    let (mut gave_way, mut told) = (0, 0);
    for ty in TYPES {
        for (shape, nulls) in SHAPES.iter().flat_map(|it| NULLS.map(|nulls| (*it, nulls))) {
            let array = column(ty, shape, nulls, 2 * BLOCK_LEN + 77, 3);
            let arrays = std::slice::from_ref(&array);
            let plain = ChunkPlan::new(ty, arrays, Some(Encoding::Plain), None).unwrap();
            let mut bytes = vec![0; plain.len_bytes()];
            plain.write(&mut bytes);
            let plain = Chunk::open(&bytes, ty).unwrap();
            for encoding in Encoding::ALL {
                let what = format!("{ty} {encoding} {shape:?} {nulls:?}");
                if !encoding.supports(ty) || encoding.uses_dictionary() {
                    assert!(!plain.gives_way(encoding), "{what}");
                    continue;
                }
                let plan = ChunkPlan::new(ty, arrays, Some(encoding), None).unwrap();
                let gives_way = plan.encoding() != encoding;
                // Differences have to be computed to be known.
                let is_told = gives_way && encoding != Encoding::Delta;
                assert_eq!(plain.gives_way(encoding), is_told, "{what}");
                gave_way += usize::from(gives_way);
                told += usize::from(is_told);
            }
        }
    }
    assert!(told > 10 && gave_way >= told, "{told} of {gave_way}");
}
