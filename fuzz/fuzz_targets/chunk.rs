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
        // Blocks that are damaged behind an undamaged header.
        let header = bytes[..chunk.header_bytes()].to_vec();
        let damaged: Vec<u8> = bytes.iter().map(|byte| byte.rotate_left(3)).collect();
        let damaged = Chunk::with_header(&header, &damaged, ty).expect("the header is the same");
        queries::read(&damaged, queries::dictionary(ty));
    }
});
