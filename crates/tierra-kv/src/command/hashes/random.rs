//! HRANDFIELD, and what it shares with ZRANDMEMBER: how many are wanted, and which.

use std::collections::BTreeMap;

use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;
use crate::number::parse_i64;
use crate::protocol::{Args, Reply};

/// A field and its value.
pub(super) type Pair<'a> = (&'a [u8], &'a [u8]);

/// So many elements chosen one by one, the same more than once, are not replied with. Fewer are, as far as
/// `client-output-buffer-limit` goes.
const REPEATED_MAX: u64 = 1 << 27;

/// Where fewer than one of as many elements are wanted, they are chosen one by one, without going through all.
pub(in crate::command) const FEW: usize = 4;

/// What the arguments after the key ask for.
pub(in crate::command) enum RandomRequest {
    /// One, without what belongs to it.
    One,
    /// So many different ones, as far as there are.
    Different { count: usize, with: bool },
    /// So many, the same more than once.
    Repeated { count: usize, with: bool },
}

impl RandomRequest {
    /// Reads `[count [WITHVALUES]]`.
    pub(in crate::command) fn parse(args: Args<'_>, with: &str) -> Result<Self, Failure> {
        let Some(text) = args.get(2) else {
            return Ok(Self::One);
        };
        let count = parse_i64(text).ok_or(Failure::INTEGER)?;
        if count == i64::MIN {
            return Err("ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807".into());
        }
        let with = match args.get(3) {
            Some(word) if args.len() == 4 && word.eq_ignore_ascii_case(with.as_bytes()) => true,
            Some(_) => return Err(Failure::SYNTAX),
            None => false,
        };
        let limit = if with {
            i64::MAX as u64 / 2
        } else {
            i64::MAX as u64
        };
        if count.unsigned_abs() > limit || (count < 0 && count.unsigned_abs() > REPEATED_MAX) {
            return Err("ERR value is out of range".into());
        }
        Ok(match usize::try_from(count) {
            Ok(count) => Self::Different { count, with },
            Err(_) => Self::Repeated {
                count: count.unsigned_abs() as usize,
                with,
            },
        })
    }
}

pub(super) fn hrandfield(call: &mut Call<'_>) -> Outcome {
    let request = RandomRequest::parse(call.args, "WITHVALUES")?;
    let entry = call.read_first(Kind::Hash)?;
    let db = call.keyspace.selected();
    let (reply, random) = (&mut *call.reply, &mut call.shared.random);
    let (chosen, with): (Vec<Pair<'_>>, bool) = match (request, entry) {
        (RandomRequest::One, entry) => {
            reply.bulk_or_null(entry.map(|entry| db.hash_random(entry, random.next()).0));
            return Ok(());
        }
        (_, None) => {
            reply.array(0);
            return Ok(());
        }
        (RandomRequest::Repeated { count, with }, Some(entry)) => {
            // Each is written as it is chosen: there may be many more than the hash has.
            begin(reply, count, with);
            for _ in 0..count {
                if reply.is_over() {
                    break;
                }
                push(reply, db.hash_random(entry, random.next()), with);
            }
            return Ok(());
        }
        (RandomRequest::Different { count, with }, Some(entry))
            if count < db.hash_len(entry) / FEW && !db.is_packed(entry) =>
        {
            let mut chosen = BTreeMap::new();
            while chosen.len() < count {
                let (field, value) = db.hash_random(entry, random.next());
                chosen.insert(field, value);
            }
            (chosen.into_iter().collect(), with)
        }
        (RandomRequest::Different { count, with }, Some(entry)) => {
            // Each field is as likely as any other to be among the first `count` (reservoir sampling).
            let mut chosen = Vec::new();
            for (seen, pair) in db.hash_iter(entry).enumerate() {
                if seen < count {
                    chosen.push(pair);
                } else if let Some(place) = chosen.get_mut(random.below(seen as u64 + 1) as usize) {
                    *place = pair;
                }
            }
            (chosen, with)
        }
    };
    begin(reply, chosen.len(), with);
    for pair in chosen {
        push(reply, pair, with);
    }
    Ok(())
}

/// Begins a reply of so many elements. `with` is whether what belongs to each follows it: under RESP3 as a pair.
pub(in crate::command) fn begin(reply: &mut Reply, count: usize, with: bool) {
    let each = if with && !reply.resp3 { 2 } else { 1 };
    reply.array(each * count);
}

fn push(reply: &mut Reply, (field, value): Pair<'_>, with: bool) {
    if with && reply.resp3 {
        reply.array(2);
    }
    reply.bulk(field);
    if with {
        reply.bulk(value);
    }
}
