//! Promise: whatever bytes claim to be a chunk, opening, filtering, decoding and looking up end
//! with an answer or an error, and no reader leaves the chunk.
//!
//! Input: type | checksums: even, made right | the chunk.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_column::Chunk;
use tierra_fuzz::{queries, seal};

fuzz_target!(|input: &[u8]| {
    let [ty, checksums, bytes @ ..] = input else {
        return;
    };
    let ty = queries::logical_type(*ty);
    let mut bytes = bytes.to_vec();
    if checksums % 2 == 0 {
        seal::chunk(&mut bytes);
    }
    if let Ok(chunk) = Chunk::open(&bytes, ty) {
        queries::read(&chunk, queries::dictionary(ty));
        queries::read(&chunk, None);
        let again = Chunk::reopen(&bytes, &chunk.descriptor()).expect("the same bytes");
        assert_eq!(again.rows(), chunk.rows());
    }
});
