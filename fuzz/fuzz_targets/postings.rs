//! Promise: postings are an error, or list rows of the chunks that they cover: no more than they say, and
//! each lookup reads the pages that it announced.
//!
//! Input: checksums: even, made right | postings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tierra_column::{PostingList, Postings};
use tierra_fuzz::seal;
use tierra_interleave::run_plain;

fuzz_target!(|input: &[u8]| {
    let [checksums, bytes @ ..] = input else {
        return;
    };
    let mut bytes = bytes.to_vec();
    if checksums % 2 == 0 {
        seal::postings(&mut bytes);
    }
    let Ok(postings) = Postings::open(&bytes) else {
        return;
    };
    for page in 0..postings.pages() {
        let _ = postings.verify_page(page);
    }
    for code in (0..2000).chain([1 << 20, u32::MAX - 1, u32::MAX]) {
        assert!(postings.pages_of_list(code).end <= postings.pages());
        let Ok(listed) = run_plain(|cx| postings.list(cx, code)) else {
            continue;
        };
        if let PostingList::Entries(range) = listed {
            assert!(postings.pages_of_range(&range).end <= postings.pages());
            assert!(range.len() as u64 <= postings.entries());
            let mut rows = 0;
            for part in range.parts() {
                let part = run_plain(|cx| postings.load_range(cx, part));
                postings.positions_in(&part, |_| rows += 1);
            }
            assert!(rows <= range.len());
        }
    }
});
