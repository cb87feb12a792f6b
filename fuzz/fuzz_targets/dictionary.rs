//! Promise: images of a dictionary are an error or a dictionary, whose values can be read, found,
//! merged, and written as images that read back the same.
//!
//! Input: type | checksums: even, made right | length of the main image, u16 | main | delta.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_column::Dictionary;
use tierra_fuzz::{queries, seal};
use tierra_interleave::{Execution, Lookups};

const GENERATION: u64 = 7;

fuzz_target!(|input: &[u8]| {
    let [ty, checksums, low, high, images @ ..] = input else {
        return;
    };
    let ty = queries::logical_type(*ty);
    let main = usize::from(u16::from_le_bytes([*low, *high])).min(images.len());
    let (main, delta) = images.split_at(main);
    let (mut main, mut delta) = (main.to_vec(), delta.to_vec());
    if checksums % 2 == 0 {
        seal::dictionary(&mut main);
        seal::dictionary(&mut delta);
    }
    let deltas: &[&[u8]] = if delta.is_empty() { &[] } else { &[&delta] };
    let Ok(dictionary) = Dictionary::open(ty, GENERATION, &main, deltas) else {
        return;
    };
    let values = dictionary.values_array();
    assert_eq!(values.len(), dictionary.len());
    let codes = 0..dictionary.len() as u32;
    let looked_up: Vec<_> = codes.map(|code| dictionary.value(code)).collect();
    for execution in Execution::ALL {
        let found = dictionary.code_of_many(&looked_up, &mut Lookups::new(execution));
        for (value, code) in looked_up.iter().zip(found) {
            // A forged delta may hold a value twice: any of its codes will do.
            let code = code.expect("the dictionary's own value");
            assert_eq!(&dictionary.value(code), value);
        }
    }
    let (merged, _) = dictionary.merge(GENERATION + 1);
    assert_eq!(merged.delta_len(), 0);

    let main = dictionary.main_piece();
    let delta = dictionary.delta_piece(dictionary.main_len());
    let again = Dictionary::open(ty, GENERATION, &main, &[&delta]).expect("its own images");
    assert_eq!(&again.values_array(), &values);
});
