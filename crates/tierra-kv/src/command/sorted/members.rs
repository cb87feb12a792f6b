//! Members and scores that were chosen from sets, and will be replied with or become a set.

use super::{Call, Outcome};
use crate::keyspace::Key;
use crate::protocol::Reply;

/// Members and their scores, copied: a set cannot be read while another is made.
#[derive(Default)]
pub(super) struct Members {
    bytes: Vec<u8>,
    /// Where each begins and ends in the bytes, and its score.
    ranges: Vec<(usize, usize, f64)>,
}

impl Members {
    pub(super) fn add(&mut self, member: &[u8], score: f64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(member);
        self.ranges.push((start, self.bytes.len(), score));
    }

    /// Puts them into the order of sorted sets.
    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.ranges.sort_unstable_by(|a, b| {
            let by_score = a.2.partial_cmp(&b.2).expect("no score is NaN");
            by_score.then_with(|| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]))
        });
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], f64)> {
        let ranges = self.ranges.iter();
        ranges.map(|&(start, end, score)| (&self.bytes[start..end], score))
    }

    pub(super) fn reply(&self, reply: &mut Reply, with_scores: bool) {
        reply_members(reply, self.iter(), with_scores);
    }

    /// Makes the key of an argument a set of them, or nothing where there are none, and replies with how many
    /// they are. Where memory is too little the key stays what it was.
    pub(super) fn store(self, call: &mut Call<'_>, index: usize) -> Outcome {
        let key = call.key(index);
        if self.ranges.is_empty() {
            if call.db().remove(&key) {
                call.changed(key.bytes);
            }
            call.reply.integer(0);
            return Ok(());
        }
        // Made under an unused name, and renamed once it is complete.
        let mut name = [0; 16];
        let draft = loop {
            name[..8].copy_from_slice(&call.shared.random.next().to_le_bytes());
            name[8..].copy_from_slice(&call.shared.random.next().to_le_bytes());
            let draft = Key::new(&name);
            if call.db().find(&draft).is_none() {
                break draft;
            }
        };
        let db = call.keyspace.db(call.client.db);
        let made = self
            .iter()
            // Minus zero becomes zero, as in the packed sets of Redis.
            .try_for_each(|(member, score)| db.zset_set(&draft, member, score + 0.0))
            .and_then(|()| db.rename(&draft, &key));
        if let Err(full) = made {
            db.remove(&draft);
            return Err(full.into());
        }
        call.changed(key.bytes);
        call.reply.integer(self.ranges.len() as i64);
        Ok(())
    }
}

/// Replies with members in order. Scores come in pairs with them where the protocol has pairs.
pub(super) fn reply_members<'m>(
    reply: &mut Reply,
    members: impl ExactSizeIterator<Item = (&'m [u8], f64)>,
    with_scores: bool,
) {
    let nested = with_scores && reply.resp3;
    reply.array(members.len() * if with_scores && !nested { 2 } else { 1 });
    for (member, score) in members {
        if nested {
            reply.array(2);
        }
        reply.bulk(member);
        if with_scores {
            reply.double(score);
        }
    }
}
