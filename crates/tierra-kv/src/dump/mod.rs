//! Values as DUMP tells them and RESTORE takes them: Redis's serialization of one value.
//!
//! ```text
//!  │ type: 8 │ value, as in an RDB file │ RDB version: 16 │ CRC-64 of all before: 64 │
//!
//!  0 string   │ string │
//!  4 hash     │ count │ field │ value │ ..            9 zipmap, 13 ziplist, 16 listpack: │ string that holds it │
//!  3 set      │ count │ member │ score as text │ ..
//!  5 set      │ count │ member │ score: 64 │ ..      12 ziplist, 17 listpack: │ string that holds it │
//! ```
//!
//! [`write()`] makes types 0, 4, 5, 16 and 17, which Redis 7.0 and those after it read; [`restore`] takes all of them. How
//! strings, counts and scores are written is in `source.rs`.
//!
//! A payload comes from somebody else: a length is believed when as many bytes are there, nothing is allocated for a
//! count, and a value that turns out to be wrong at its end has changed nothing (`keyspace/whole.rs`).

mod listpack;
mod lzf;
mod source;
mod write;
mod ziplist;
mod zipmap;

use std::borrow::Cow;

use crc::{CRC_64_REDIS, Crc, Table};

use crate::keyspace::{Db, Expiry, Key, MemoryFull, NotMade};
use crate::number::parse_bound;
use source::{Malformed, Source};

pub use write::write;

/// Bytes behind the value: version and checksum.
const FOOTER_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 8;
/// The version that Redis 7.0 writes, and the newest that it reads.
const VERSION: u16 = 10;

const STRING: u8 = 0;
const SET_TEXT: u8 = 3;
const HASH: u8 = 4;
const SET: u8 = 5;
const HASH_ZIPMAP: u8 = 9;
const SET_ZIPLIST: u8 = 12;
const HASH_ZIPLIST: u8 = 13;
const HASH_LISTPACK: u8 = 16;
const SET_LISTPACK: u8 = 17;

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Why a payload was not restored. The key is what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It is damaged, or of a newer version, or no payload.
    #[error("DUMP payload version or checksum are wrong")]
    Footer,
    /// Its checksum is right and its value is not.
    #[error("Bad data format")]
    Format,
    /// It is a value of a type that is not kept here.
    #[error(
        "DUMP payload is a {0}, which Tierra does not have: it keeps strings, hashes and sorted sets"
    )]
    Kind(&'static str),
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryFull),
}

impl From<Malformed> for RestoreError {
    fn from(_: Malformed) -> Self {
        Self::Format
    }
}

impl From<NotMade<Malformed>> for RestoreError {
    fn from(why: NotMade<Malformed>) -> Self {
        match why {
            NotMade::Memory(full) => Self::Memory(full),
            NotMade::Empty | NotMade::Twice | NotMade::Source(Malformed) => Self::Format,
        }
    }
}

/// Appends version and checksum to a payload's type and value.
pub fn seal(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = CRC.checksum(payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
}

/// Type and value of a payload whose footer is right.
fn unseal(payload: &[u8]) -> Result<&[u8], RestoreError> {
    let value_bytes = payload.len().checked_sub(FOOTER_BYTES);
    let (value, footer) = payload.split_at(value_bytes.ok_or(RestoreError::Footer)?);
    let checked = &payload[..payload.len() - CHECKSUM_BYTES];
    let is_right = u16::from_le_bytes([footer[0], footer[1]]) <= VERSION
        && footer[2..] == CRC.checksum(checked).to_le_bytes();
    is_right.then_some(value).ok_or(RestoreError::Footer)
}

/// Makes a payload's value that of a key, whatever the key was, to expire at this time, in milliseconds since 1970, if at
/// all. Bytes behind the value are not looked at, as in Redis.
///
/// # Errors
/// What is wrong with the payload, or that there is no memory; the key is what it was.
pub fn restore(
    db: &mut Db,
    key: &Key<'_>,
    expiry: Option<u64>,
    payload: &[u8],
) -> Result<(), RestoreError> {
    let mut source = Source::new(unseal(payload)?);
    match source.byte()? {
        STRING => {
            let expiry = expiry.map_or(Expiry::Clear, Expiry::At);
            db.set_string(key, &source.string()?, expiry)?;
        }
        HASH => {
            let pairs = (0..source.count()?).map(|_| Ok((source.string()?, source.string()?)));
            db.make_hash(key, expiry, pairs)?;
        }
        SET => {
            let members = (0..source.count()?).map(|_| Ok((source.string()?, source.score()?)));
            db.make_zset(key, expiry, members)?;
        }
        SET_TEXT => {
            let members =
                (0..source.count()?).map(|_| Ok((source.string()?, source.score_text()?)));
            db.make_zset(key, expiry, members)?;
        }
        HASH_ZIPMAP => {
            let packed = source.string()?;
            db.make_hash(key, expiry, Pairs(zipmap::elements(&packed)?))?;
        }
        HASH_ZIPLIST => {
            let packed = source.string()?;
            db.make_hash(key, expiry, Pairs(ziplist::elements(&packed)?))?;
        }
        HASH_LISTPACK => {
            let packed = source.string()?;
            db.make_hash(key, expiry, Pairs(listpack::elements(&packed)?))?;
        }
        SET_ZIPLIST => {
            let packed = source.string()?;
            let members = Pairs(ziplist::elements(&packed)?).map(scored);
            db.make_zset(key, expiry, members)?;
        }
        SET_LISTPACK => {
            let packed = source.string()?;
            let members = Pairs(listpack::elements(&packed)?).map(scored);
            db.make_zset(key, expiry, members)?;
        }
        1 | 10 | 14 | 18 => return Err(RestoreError::Kind("list")),
        2 | 11 => return Err(RestoreError::Kind("set")),
        15 | 19 => return Err(RestoreError::Kind("stream")),
        6 | 7 => return Err(RestoreError::Kind("value of a module")),
        _ => return Err(RestoreError::Format),
    }
    Ok(())
}

/// An element of a packed value.
type Element<'p> = Result<Cow<'p, [u8]>, Malformed>;

/// A field and its value, or a member and its score as text.
type Pair<'p> = (Cow<'p, [u8]>, Cow<'p, [u8]>);

/// Elements in pairs.
struct Pairs<I>(I);

impl<'p, I: Iterator<Item = Element<'p>>> Iterator for Pairs<I> {
    type Item = Result<Pair<'p>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.0.next()?;
        let second = self.0.next().unwrap_or(Err(Malformed));
        Some(first.and_then(|first| Ok((first, second?))))
    }
}

/// A member and its score, which was text.
fn scored(pair: Result<Pair<'_>, Malformed>) -> Result<(Cow<'_, [u8]>, f64), Malformed> {
    let (member, text) = pair?;
    Ok((member, score(&text)?))
}

/// A score as text: nothing but a number, which is not NaN.
fn score(text: &[u8]) -> Result<f64, Malformed> {
    let text = Some(text).filter(|text| !text.is_empty());
    text.and_then(parse_bound).ok_or(Malformed)
}

#[cfg(test)]
mod tests;
