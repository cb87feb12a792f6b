//! ZADD and ZINCRBY.

use super::super::options::OptionWords;
use super::{Call, Failure, Outcome};
use crate::keyspace::{Key, Kind};
use crate::number::parse_double;

#[derive(Default)]
struct Rules {
    /// Only members that are not there.
    absent: bool,
    /// Only members that are there.
    present: bool,
    /// Only where the score becomes greater.
    greater: bool,
    /// Only where the score becomes less.
    less: bool,
    /// Reply with what changed instead of what is new.
    changes: bool,
    /// Add to the score, and reply with it.
    add: bool,
}

/// What became of a member.
enum AddOutcome {
    Added(f64),
    Moved(f64),
    Same(f64),
    Nothing,
}

pub(super) fn zadd(call: &mut Call<'_>) -> Outcome {
    add(call, Rules::default())
}

/// Takes the options of ZADD as well, as Redis does; there is no room for one beside increment and member.
pub(super) fn zincrby(call: &mut Call<'_>) -> Outcome {
    let rules = Rules {
        add: true,
        ..Rules::default()
    };
    add(call, rules)
}

fn add(call: &mut Call<'_>, mut rules: Rules) -> Outcome {
    let mut options = OptionWords::new(call.args, 2);
    loop {
        if options.take("NX") {
            rules.absent = true;
        } else if options.take("XX") {
            rules.present = true;
        } else if options.take("GT") {
            rules.greater = true;
        } else if options.take("LT") {
            rules.less = true;
        } else if options.take("CH") {
            rules.changes = true;
        } else if options.take("INCR") {
            rules.add = true;
        } else {
            break;
        }
    }
    apply(call, &rules, options.at())
}

fn apply(call: &mut Call<'_>, rules: &Rules, from: usize) -> Outcome {
    let pairs = call.args.from(from);
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(Failure::SYNTAX);
    }
    if rules.absent && rules.present {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    if (rules.absent && (rules.greater || rules.less)) || (rules.greater && rules.less) {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if rules.add && pairs.len() > 2 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    // All scores are read before anything is changed.
    if pairs
        .pairs()
        .any(|(score, _)| parse_double(score).is_none())
    {
        return Err(Failure::FLOAT);
    }
    let key = call.key(1);
    call.write(&key, Kind::SortedSet)?;
    let (mut added, mut moved, mut last) = (0, 0, None);
    let mut done = Ok(());
    for (score, member) in pairs.pairs() {
        let score = parse_double(score).ok_or(Failure::FLOAT)?;
        match one(call, &key, rules, member, score) {
            Ok(AddOutcome::Added(score)) => {
                added += 1;
                last = Some(score);
            }
            Ok(AddOutcome::Moved(score)) => {
                moved += 1;
                last = Some(score);
            }
            Ok(AddOutcome::Same(score)) => last = Some(score),
            Ok(AddOutcome::Nothing) => {}
            Err(failure) => {
                done = Err(failure);
                break;
            }
        }
    }
    // Where memory ends on the way some are added.
    if added + moved > 0 {
        call.changed(key.bytes);
    }
    done?;
    match last {
        Some(score) if rules.add => call.reply.double(score),
        None if rules.add => call.reply.null(),
        _ => call
            .reply
            .integer(added + if rules.changes { moved } else { 0 }),
    }
    Ok(())
}

fn one(
    call: &mut Call<'_>,
    key: &Key<'_>,
    rules: &Rules,
    member: &[u8],
    mut score: f64,
) -> Result<AddOutcome, Failure> {
    let db = call.db();
    let before = db.find(key).and_then(|entry| db.zset_score(entry, member));
    let Some(before) = before else {
        if rules.present {
            return Ok(AddOutcome::Nothing);
        }
        db.zset_set(key, member, score + 0.0)?;
        return Ok(AddOutcome::Added(score));
    };
    if rules.absent {
        return Ok(AddOutcome::Nothing);
    }
    if rules.add {
        score += before;
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".into());
        }
    }
    if (rules.less && score >= before) || (rules.greater && score <= before) {
        return Ok(AddOutcome::Nothing);
    }
    if score == before {
        return Ok(AddOutcome::Same(score));
    }
    // Minus zero becomes zero, as in the packed sets of Redis.
    db.zset_set(key, member, score + 0.0)?;
    Ok(AddOutcome::Moved(score))
}
