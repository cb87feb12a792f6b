//! Where ranges begin and end: by rank, by score, by the bytes of members. All become ranges of ranks.

use std::ops::Range;

use super::Failure;
use crate::keyspace::{Db, LiveEntry};
use crate::number::{parse_bound, parse_i64};

/// What a range goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeBy {
    Rank,
    Score,
    Member,
}

/// A range as a client gives it.
pub(super) enum Bounds<'a> {
    /// Negative ranks count from the end.
    Rank(i64, i64),
    Score(Score, Score),
    Member(Member<'a>, Member<'a>),
}

#[derive(Clone, Copy)]
pub(super) struct Score {
    value: f64,
    exclusive: bool,
}

#[derive(Clone, Copy)]
pub(super) enum Member<'a> {
    First,
    Last,
    At { bytes: &'a [u8], exclusive: bool },
}

fn score(text: &[u8]) -> Result<Score, Failure> {
    let (exclusive, number) = match text {
        [b'(', number @ ..] => (true, number),
        number => (false, number),
    };
    let value = parse_bound(number).ok_or("ERR min or max is not a float")?;
    Ok(Score { value, exclusive })
}

fn member(text: &[u8]) -> Result<Member<'_>, Failure> {
    match text {
        b"-" => Ok(Member::First),
        b"+" => Ok(Member::Last),
        [b'(', bytes @ ..] => Ok(Member::At {
            bytes,
            exclusive: true,
        }),
        [b'[', bytes @ ..] => Ok(Member::At {
            bytes,
            exclusive: false,
        }),
        _ => Err("ERR min or max not valid string range item".into()),
    }
}

impl<'a> Bounds<'a> {
    pub(super) fn parse(by: RangeBy, min: &'a [u8], max: &'a [u8]) -> Result<Self, Failure> {
        Ok(match by {
            RangeBy::Rank => {
                let rank = |text| parse_i64(text).ok_or(Failure::INTEGER);
                Self::Rank(rank(min)?, rank(max)?)
            }
            RangeBy::Score => Self::Score(score(min)?, score(max)?),
            RangeBy::Member => Self::Member(member(min)?, member(max)?),
        })
    }

    /// The ranks in the range; those of `Rank` counted from the end where it is reversed.
    pub(super) fn ranks(&self, db: &Db, entry: LiveEntry, reverse: bool) -> Range<usize> {
        let len = db.zset_len(entry);
        let range = match *self {
            Self::Rank(first, last) => {
                let absolute = |rank: i64| {
                    if rank < 0 {
                        rank.saturating_add(len as i64)
                    } else {
                        rank
                    }
                };
                let first = absolute(first).max(0).min(len as i64) as usize;
                let end = absolute(last).saturating_add(1).clamp(0, len as i64) as usize;
                let end = end.max(first);
                if reverse {
                    len - end..len - first
                } else {
                    first..end
                }
            }
            Self::Score(min, max) => {
                db.zset_below_score(entry, min.value, min.exclusive)
                    ..db.zset_below_score(entry, max.value, !max.exclusive)
            }
            Self::Member(min, max) => {
                let place = |bound: Member<'_>, is_end: bool| match bound {
                    Member::First => 0,
                    Member::Last => len,
                    Member::At { bytes, exclusive } => {
                        db.zset_below_member(entry, bytes, exclusive != is_end)
                    }
                };
                place(min, false)..place(max, true)
            }
        };
        range.start..range.end.max(range.start)
    }
}
