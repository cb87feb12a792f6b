//! Payloads as values: all types that Redis has written of strings, hashes and sorted sets.

use std::borrow::Cow;

use super::seal::unseal;
use super::source::{Element, Malformed, Source, score};
use super::types::{
    HASH, HASH_LISTPACK, HASH_ZIPLIST, HASH_ZIPMAP, SET, SET_LISTPACK, SET_TEXT, SET_ZIPLIST,
    STRING,
};
use super::{listpack, ziplist, zipmap};
use crate::keyspace::{BuildError, Db, Expiry, Key, MemoryFull};

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

impl From<BuildError<Malformed>> for RestoreError {
    fn from(why: BuildError<Malformed>) -> Self {
        match why {
            BuildError::Memory(full) => Self::Memory(full),
            BuildError::Empty | BuildError::Twice | BuildError::Source(Malformed) => Self::Format,
        }
    }
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
    let mut source = Source::new(unseal(payload).ok_or(RestoreError::Footer)?);
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
        2 | 11 | 20 => return Err(RestoreError::Kind("set")),
        15 | 19 | 21 => return Err(RestoreError::Kind("stream")),
        6 | 7 => return Err(RestoreError::Kind("value of a module")),
        22..=25 => return Err(RestoreError::Kind("hash with fields that expire")),
        _ => return Err(RestoreError::Format),
    }
    Ok(())
}

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
