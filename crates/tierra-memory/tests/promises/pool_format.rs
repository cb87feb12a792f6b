//! The promise that the layout of a pool stays: `golden/pool-v1.txt` is a pool of version 1, line by
//! line (offset in hex, then 64 bytes; lines of zeros left out).
//!
//! To change the format on purpose: raise the version byte once there has been a release, and
//! write the new file with `TIERRA_WRITE_GOLDEN=1 cargo test --release -p tierra-memory`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use tierra_memory::{Extent, Pool, PoolOptions};

const LEN_BYTES: usize = 16384 + 4 * 4096;

fn options() -> PoolOptions {
    PoolOptions {
        capacity_bytes: Some(LEN_BYTES as u64),
        id: Some(0x0123_4567_89AB_CDEF),
        ..PoolOptions::default()
    }
}

const GOLDEN: &str = "tests/golden/pool-v1.txt";

const ROOT: Extent = Extent {
    offset: 16384 + 3 * 4096 + 64,
    len_bytes: 8,
};
const SEALED: Extent = Extent {
    offset: 16384 + 64,
    len_bytes: 5000,
};
const LOG: Extent = Extent {
    offset: 16384 + 2 * 4096 + 64,
    len_bytes: 200,
};

fn write_pool(path: &Path) {
    let pool = Pool::create(path, &options()).unwrap();
    let mut sealed = pool.allocate(SEALED.len_bytes, 11).unwrap();
    sealed.fill(0);
    sealed[..6].copy_from_slice(b"sealed");
    sealed[4999] = 0xEE;
    let sealed = sealed.finish().unwrap();
    assert_eq!(sealed.extent(), SEALED);
    let log = pool
        .allocate(LOG.len_bytes, 12)
        .unwrap()
        .finish_log()
        .unwrap();
    assert_eq!(log.extent(), LOG);
    pool.publish(&sealed).unwrap();
    pool.write(LOG, 10, b"record").unwrap();
    let mut root = pool.allocate(ROOT.len_bytes, 13).unwrap();
    root.copy_from_slice(b"manifest");
    let root = root.finish().unwrap();
    assert_eq!(root.extent(), ROOT);
    pool.publish_version(&root, 9).unwrap();
}

fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (index, line) in bytes.chunks(64).enumerate() {
        if line.iter().any(|&byte| byte != 0) {
            write!(text, "{:06x}:", index * 64).unwrap();
            line.iter()
                .for_each(|byte| write!(text, " {byte:02x}").unwrap());
            text.push('\n');
        }
    }
    text
}

fn undump(text: &str) -> Vec<u8> {
    let lines: BTreeMap<usize, Vec<u8>> = text
        .lines()
        .map(|line| {
            let (offset, bytes) = line.split_once(": ").unwrap();
            let bytes = bytes
                .split(' ')
                .map(|byte| u8::from_str_radix(byte, 16).unwrap());
            (usize::from_str_radix(offset, 16).unwrap(), bytes.collect())
        })
        .collect();
    let mut image = vec![0; LEN_BYTES];
    for (offset, bytes) in lines {
        image[offset..offset + bytes.len()].copy_from_slice(&bytes);
    }
    image
}

#[test]
fn what_is_written_today_is_the_golden_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    write_pool(&path);
    let text = dump(&fs::read(&path).unwrap());
    if std::env::var_os("TIERRA_WRITE_GOLDEN").is_some() {
        fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(GOLDEN).unwrap());
}

#[test]
fn the_golden_file_is_read_today() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    fs::write(&path, undump(&fs::read_to_string(GOLDEN).unwrap())).unwrap();
    let pool = Pool::open(&path, &options()).unwrap();
    assert_eq!((pool.root(), pool.version()), (Some(ROOT), 9));
    pool.retain(&[SEALED, LOG]).unwrap();
    let owners = [SEALED, LOG, ROOT].map(|extent| pool.verify_extent(extent).unwrap());
    assert_eq!(owners, [11, 12, 13]);
    assert_eq!(pool.bytes(ROOT), b"manifest");
    assert_eq!(&pool.bytes(SEALED)[..6], b"sealed");
    assert_eq!(&pool.bytes(LOG)[10..16], b"record");
}
