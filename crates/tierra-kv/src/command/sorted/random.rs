//! ZRANDMEMBER.

use std::collections::BTreeSet;

use super::super::hashes::random::{FEW, RandomRequest, begin};
use super::{Call, Outcome};
use crate::keyspace::Kind;
use crate::protocol::Reply;

pub(super) fn zrandmember(call: &mut Call<'_>) -> Outcome {
    let request = RandomRequest::parse(call.args, "WITHSCORES")?;
    let entry = call.read_first(Kind::SortedSet)?;
    let db = call.keyspace.selected();
    let (reply, random) = (&mut *call.reply, &mut call.shared.random);
    let len = entry.map_or(0, |entry| db.zset_len(entry));
    let at = |rank: usize| entry.and_then(|entry| db.zset_range(entry, rank..rank + 1).next());
    let push = |reply: &mut Reply, rank, with| {
        let Some((member, score)) = at(rank) else {
            return;
        };
        if with && reply.resp3 {
            reply.array(2);
        }
        reply.bulk(member);
        if with {
            reply.double(score);
        }
    };
    let (ranks, with): (Vec<usize>, bool) = match request {
        RandomRequest::One => {
            let rank = random.below(len.max(1) as u64) as usize;
            reply.bulk_or_null(at(rank).map(|(member, _)| member));
            return Ok(());
        }
        RandomRequest::Repeated { count, with } => {
            // Each is written as it is chosen: there may be many more than the set has.
            begin(reply, if len > 0 { count } else { 0 }, with);
            for _ in 0..count {
                if len == 0 || reply.is_over() {
                    break;
                }
                push(reply, random.below(len as u64) as usize, with);
            }
            return Ok(());
        }
        RandomRequest::Different { count, with } if count < len / FEW => {
            // Each rank in turn, or the last one of those that it was chosen among (Floyd 1987).
            let mut chosen = BTreeSet::new();
            for last in len - count..len {
                let rank = random.below(last as u64 + 1) as usize;
                if !chosen.insert(rank) {
                    chosen.insert(last);
                }
            }
            (chosen.into_iter().collect(), with)
        }
        RandomRequest::Different { count, with } => {
            // Of the ranks that are left, each is wanted with the probability that so many still are.
            let mut left = count.min(len);
            let taken = (0..len).filter(|rank| {
                let take = random.below((len - rank) as u64) < left as u64;
                left -= usize::from(take);
                take
            });
            (taken.collect(), with)
        }
    };
    begin(reply, ranks.len(), with);
    for rank in ranks {
        push(reply, rank, with);
    }
    Ok(())
}
