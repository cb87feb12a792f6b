//! Sorted sets made of others: ZUNION, ZINTER, ZDIFF, what they store, and ZINTERCARD.

use std::collections::HashMap;

use super::super::options::OptionWords;
use super::members::Members;
use super::{Call, Failure, Outcome};
use crate::keyspace::{Db, Key, Kind, LiveEntry};
use crate::number::{parse_double, parse_i64};

/// Which members a combination has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What becomes of the scores of a member that several sets have.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    /// What is no number becomes zero, as in Redis.
    fn apply(self, score: f64, other: f64) -> f64 {
        match self {
            Self::Sum => {
                let sum = score + other;
                if sum.is_nan() { 0.0 } else { sum }
            }
            Self::Min if other < score => other,
            Self::Max if other > score => other,
            Self::Min | Self::Max => score,
        }
    }
}

/// A set that takes part, where it exists.
#[derive(Clone, Copy)]
struct Source {
    entry: Option<LiveEntry>,
    weight: f64,
}

/// What a client has asked for.
struct CombineRequest {
    operation: Operation,
    sources: Vec<Source>,
    aggregate: Aggregate,
    with_scores: bool,
}

impl Source {
    fn len(&self, db: &Db) -> usize {
        self.entry.map_or(0, |entry| db.zset_len(entry))
    }

    fn members<'d>(&self, db: &'d Db) -> impl Iterator<Item = (&'d [u8], f64)> + use<'d> {
        let all = self.entry.map(|entry| db.zset_range(entry, 0..usize::MAX));
        all.into_iter().flatten()
    }

    fn score(&self, db: &Db, member: &[u8]) -> Option<f64> {
        self.entry.and_then(|entry| db.zset_score(entry, member))
    }

    fn weighted(&self, score: f64) -> f64 {
        let score = score * self.weight;
        if score.is_nan() { 0.0 } else { score }
    }
}

/// The sets whose number an argument says, and where they end among the arguments.
fn sources(call: &mut Call<'_>, at: usize, reads: bool) -> Result<(Vec<Source>, usize), Failure> {
    let count = call.integer(at)?;
    if count < 1 {
        let name = call.command.name;
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let first = at + 1;
    let end = usize::try_from(count)
        .ok()
        .and_then(|count| first.checked_add(count))
        .filter(|&end| end <= call.args.len())
        .ok_or(Failure::SYNTAX)?;
    let keys: Vec<Key<'_>> = (first..end)
        .map(|index| Key::new(call.arg(index)))
        .collect();
    let entries = call.db().find_each(&keys);
    let mut sources = Vec::with_capacity(entries.len());
    for entry in entries {
        let stats = &mut call.shared.stats;
        stats.hits += u64::from(reads && entry.is_some());
        stats.misses += u64::from(reads && entry.is_none());
        if entry.is_some_and(|entry| call.db_ref().kind(entry) != Kind::SortedSet) {
            return Err(Failure::TYPE);
        }
        sources.push(Source { entry, weight: 1.0 });
    }
    Ok((sources, end))
}

impl CombineRequest {
    fn parse(
        call: &mut Call<'_>,
        operation: Operation,
        at: usize,
        stores: bool,
    ) -> Result<Self, Failure> {
        let (sources, end) = sources(call, at, !stores)?;
        let mut request = Self {
            operation,
            sources,
            aggregate: Aggregate::Sum,
            with_scores: false,
        };
        let (weighs, count) = (operation != Operation::Difference, request.sources.len());
        let mut options = OptionWords::new(call.args, end);
        while options.left() > 0 {
            if weighs && options.take_with("WEIGHTS", count) {
                for source in &mut request.sources {
                    source.weight =
                        parse_double(options.value()?).ok_or("ERR weight value is not a float")?;
                }
            } else if weighs && options.take_with("AGGREGATE", 1) {
                request.aggregate = if options.take("SUM") {
                    Aggregate::Sum
                } else if options.take("MIN") {
                    Aggregate::Min
                } else if options.take("MAX") {
                    Aggregate::Max
                } else {
                    return Err(Failure::SYNTAX);
                };
            } else if !stores && options.take("WITHSCORES") {
                request.with_scores = true;
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(request)
    }

    fn members(mut self, db: &Db) -> Members {
        // Sums of numbers with fractions depend on their order: Redis begins with the smallest set.
        if self.operation != Operation::Difference {
            self.sources.sort_by_key(|source| source.len(db));
        }
        let (first, others) = self
            .sources
            .split_first()
            .expect("there is at least one set");
        let mut members = Members::default();
        match self.operation {
            Operation::Union => {
                let mut scores: HashMap<&[u8], f64> = HashMap::new();
                for source in &self.sources {
                    for (member, score) in source.members(db) {
                        let score = source.weighted(score);
                        scores
                            .entry(member)
                            .and_modify(|before| *before = self.aggregate.apply(*before, score))
                            .or_insert(score);
                    }
                }
                scores
                    .into_iter()
                    .for_each(|(member, score)| members.add(member, score));
            }
            Operation::Intersection => {
                for (member, score) in first.members(db) {
                    let start = first.weighted(score);
                    let score = others.iter().try_fold(start, |score, source| {
                        let other = source.score(db, member)? * source.weight;
                        Some(self.aggregate.apply(score, other))
                    });
                    if let Some(score) = score {
                        members.add(member, score);
                    }
                }
            }
            Operation::Difference => {
                for (member, score) in first.members(db) {
                    if others.iter().all(|other| other.score(db, member).is_none()) {
                        members.add(member, score);
                    }
                }
            }
        }
        members.sort();
        members
    }
}

fn reply(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let request = CombineRequest::parse(call, operation, 1, false)?;
    let with_scores = request.with_scores;
    request
        .members(call.keyspace.selected())
        .reply(call.reply, with_scores);
    Ok(())
}

fn store(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let request = CombineRequest::parse(call, operation, 2, true)?;
    request.members(call.keyspace.selected()).store(call, 1)
}

pub(super) fn zunion(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Union)
}

pub(super) fn zinter(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Intersection)
}

pub(super) fn zdiff(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Difference)
}

pub(super) fn zunionstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Union)
}

pub(super) fn zinterstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Intersection)
}

pub(super) fn zdiffstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Difference)
}

pub(super) fn zintercard(call: &mut Call<'_>) -> Outcome {
    let (mut sources, end) = sources(call, 1, true)?;
    let mut limit = 0;
    let mut options = OptionWords::new(call.args, end);
    while options.left() > 0 {
        if !options.take_with("LIMIT", 1) {
            return Err(Failure::SYNTAX);
        }
        limit = parse_i64(options.value()?)
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or("ERR LIMIT can't be negative")?;
    }
    let db = call.keyspace.selected();
    sources.sort_by_key(|source| source.len(db));
    let (first, others) = sources.split_first().expect("there is at least one set");
    let count = first
        .members(db)
        .filter(|(member, _)| others.iter().all(|other| other.score(db, member).is_some()))
        .take(if limit == 0 { usize::MAX } else { limit })
        .count();
    call.reply.integer(count as i64);
    Ok(())
}
