//! ZRANDMEMBER.

use std::collections::BTreeSet;

use super::super::hashes::random::{FEW, Wanted};
use super::{Call, Outcome, zset};

pub(super) fn zrandmember(call: &mut Call<'_>) -> Outcome {
    let wanted = Wanted::parse(call.args, "WITHSCORES")?;
    let entry = zset(call)?;
    let db = call.keyspace.selected();
    let (reply, random) = (&mut *call.reply, &mut call.shared.random);
    let len = entry.map_or(0, |entry| db.zset_len(entry));
    let (ranks, with): (Vec<usize>, bool) = match wanted {
        Wanted::One => {
            let rank = random.below(len.max(1) as u64) as usize;
            reply.bulk_or_null(
                entry
                    .and_then(|entry| db.zset_range(entry, rank..rank + 1).next())
                    .map(|(member, _)| member),
            );
            return Ok(());
        }
        Wanted::Repeated { count, with } if len > 0 => (
            (0..count)
                .map(|_| random.below(len as u64) as usize)
                .collect(),
            with,
        ),
        Wanted::Repeated { with, .. } => (Vec::new(), with),
        Wanted::Different { count, with } if count < len / FEW => {
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
        Wanted::Different { count, with } => {
            // Of the ranks that are left, each is wanted with the probability that so many still are.
            let mut wanted = count.min(len);
            let taken = (0..len).filter(|rank| {
                let take = random.below((len - rank) as u64) < wanted as u64;
                wanted -= usize::from(take);
                take
            });
            (taken.collect(), with)
        }
    };
    let nested = with && reply.resp3;
    reply.array(ranks.len() * if with && !nested { 2 } else { 1 });
    for rank in ranks {
        let Some((member, score)) =
            entry.and_then(|entry| db.zset_range(entry, rank..rank + 1).next())
        else {
            continue;
        };
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        if with {
            reply.double(score);
        }
    }
    Ok(())
}
