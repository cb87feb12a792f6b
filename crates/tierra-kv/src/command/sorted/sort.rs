//! SORT: members by their own value, or by that of a key or field which a pattern makes of each.
//!
//! Keys that patterns make are looked up in windows, as those of other commands are. Of the types that Redis sorts only
//! sorted sets are here, and what STORE would make is a list, which is not.

use std::cmp::Ordering;

use super::super::options::OptionWords;
use super::{Call, Failure, Outcome};
use crate::keyspace::{Key, Kind, WINDOW_KEYS};
use crate::number::parse_weight;
use crate::protocol::Reply;

/// What a member is sorted by or replied with.
enum Pattern<'a> {
    /// `#`: itself.
    Member,
    /// No star in it: nothing, and no order.
    Constant,
    /// The value of a key, the member in place of the star, or of a field in it.
    Key {
        before: &'a [u8],
        behind: &'a [u8],
        field: Option<&'a [u8]>,
    },
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Self {
        // What is looked for is found before a zero byte or not at all, as in Redis.
        let shown = Failure::shown(text);
        let Some(star) = shown.iter().position(|&byte| byte == b'*') else {
            return match text {
                b"#" => Self::Member,
                _ => Self::Constant,
            };
        };
        let arrow = shown[star..].windows(2).position(|two| two == b"->");
        let arrow = arrow.map(|at| star + at).filter(|at| at + 2 < shown.len());
        Self::Key {
            before: &text[..star],
            behind: &text[star + 1..arrow.unwrap_or(text.len())],
            field: arrow.map(|at| &text[at + 2..]),
        }
    }
}

/// Texts that were copied: values move while others are looked up.
#[derive(Default)]
struct CopiedTexts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl CopiedTexts {
    fn push(&mut self, parts: &[&[u8]]) {
        parts
            .iter()
            .for_each(|part| self.bytes.extend_from_slice(part));
        self.ends.push(self.bytes.len());
    }

    fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Tells what each pattern finds of each member, in order.
fn look_up<'t>(
    call: &mut Call<'_>,
    mut wanted: impl Iterator<Item = (&'t Pattern<'t>, &'t [u8])>,
    mut tell: impl FnMut(&mut Reply, Option<&[u8]>),
) {
    let (mut window, mut names, mut found) = (Vec::new(), CopiedTexts::default(), Vec::new());
    loop {
        window.clear();
        window.extend(wanted.by_ref().take(WINDOW_KEYS));
        if window.is_empty() {
            return;
        }
        names.clear();
        for (pattern, member) in &window {
            if let Pattern::Key { before, behind, .. } = pattern {
                names.push(&[before, member, behind]);
            }
        }
        let group: Vec<&[u8]> = (0..names.len()).map(|at| names.get(at)).collect();
        found.clear();
        call.db().find_many(&group, &mut found);
        let mut keys = group.iter().zip(&found);
        for (pattern, member) in &window {
            let field = match pattern {
                Pattern::Member => {
                    tell(call.reply, Some(member));
                    continue;
                }
                Pattern::Constant => {
                    tell(call.reply, None);
                    continue;
                }
                Pattern::Key { field, .. } => field,
            };
            let (name, found) = keys.next().expect("every key of a window has its name");
            let entry = call.look(&Key::with_found(name, *found));
            let db = call.keyspace.selected();
            let value = entry.and_then(|entry| match (db.kind(entry), field) {
                (Kind::String, None) => Some(db.string(entry)),
                (Kind::Hash, Some(field)) => db.hash_get(entry, field),
                _ => None,
            });
            tell(call.reply, value);
        }
    }
}

/// What a member is sorted by.
enum Weight {
    Number(f64),
    Text(Option<usize>),
    /// Its bytes.
    Member,
}

struct SortOptions<'a> {
    by: Option<Pattern<'a>>,
    get: Vec<Pattern<'a>>,
    skip: i64,
    count: i64,
    descending: bool,
    as_text: bool,
}

impl<'a> SortOptions<'a> {
    fn parse(call: &Call<'a>, may_store: bool) -> Result<Self, Failure> {
        let mut wanted = Self {
            by: None,
            get: Vec::new(),
            skip: 0,
            count: -1,
            descending: false,
            as_text: false,
        };
        let mut stores = false;
        let mut options = OptionWords::new(call.args, 2);
        while options.left() > 0 {
            if options.take("ASC") {
                wanted.descending = false;
            } else if options.take("DESC") {
                wanted.descending = true;
            } else if options.take("ALPHA") {
                wanted.as_text = true;
            } else if options.take_with("LIMIT", 2) {
                (wanted.skip, wanted.count) = (options.integer()?, options.integer()?);
            } else if may_store && options.take_with("STORE", 1) {
                options.value()?;
                stores = true;
            } else if options.take_with("BY", 1) {
                wanted.by = Some(Pattern::parse(options.value()?));
            } else if options.take_with("GET", 1) {
                wanted.get.push(Pattern::parse(options.value()?));
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        match stores {
            true => Err("ERR SORT with STORE makes a list, which Tierra does not have: without STORE the elements are replied".into()),
            false => Ok(wanted),
        }
    }

    /// Whether members keep the order of their set: they are sorted by what is the same for all.
    fn keeps_order(&self) -> bool {
        matches!(self.by, Some(Pattern::Constant | Pattern::Member))
    }

    /// Which of as many members are wanted.
    fn range(&self, len: usize) -> std::ops::Range<usize> {
        let skip = usize::try_from(self.skip).unwrap_or(0).min(len);
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        skip..skip + count.min(len - skip)
    }
}

/// The numbers of members in the order that is wanted.
fn order(
    call: &mut Call<'_>,
    wanted: &SortOptions<'_>,
    members: &CopiedTexts,
) -> Result<Vec<usize>, Failure> {
    let (mut weights, mut texts) = (Vec::with_capacity(members.len()), CopiedTexts::default());
    let mut are_numbers = true;
    let mut number = |text: Option<&[u8]>| {
        // What is not there counts as zero.
        let number = text.map_or(Some(0.0), parse_weight);
        are_numbers &= number.is_some();
        Weight::Number(number.unwrap_or(0.0))
    };
    let all = (0..members.len()).map(|at| members.get(at));
    match (&wanted.by, wanted.as_text) {
        (None, true) => weights.extend(all.map(|_| Weight::Member)),
        (None, false) => weights.extend(all.map(|member| number(Some(member)))),
        (Some(pattern), as_text) => {
            look_up(call, all.map(|member| (pattern, member)), |_, value| {
                weights.push(match (as_text, value) {
                    (false, value) => number(value),
                    (true, None) => Weight::Text(None),
                    (true, Some(text)) => {
                        texts.push(&[text]);
                        Weight::Text(Some(texts.len() - 1))
                    }
                });
            });
        }
    }
    if !are_numbers {
        return Err("ERR One or more scores can't be converted into double".into());
    }
    let text = |weight: &Option<usize>| weight.map(|at| texts.get(at));
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_unstable_by(|&a, &b| {
        let by_weight = match (&weights[a], &weights[b]) {
            (Weight::Number(a), Weight::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Weight::Text(a), Weight::Text(b)) => text(a).cmp(&text(b)),
            _ => Ordering::Equal,
        };
        let ascending = by_weight.then_with(|| members.get(a).cmp(members.get(b)));
        match wanted.descending {
            true => ascending.reverse(),
            false => ascending,
        }
    });
    Ok(order)
}

fn reply(call: &mut Call<'_>, may_store: bool) -> Outcome {
    let wanted = SortOptions::parse(call, may_store)?;
    let key = call.key(1);
    let Some(entry) = call.read(&key, Kind::SortedSet)? else {
        call.reply.array(0);
        return Ok(());
    };
    let db = call.keyspace.selected();
    let (len, mut members) = (db.zset_len(entry), CopiedTexts::default());
    let range = wanted.range(len);
    let chosen = if wanted.keeps_order() {
        let (start, end) = match wanted.descending {
            true => (len - range.end, len - range.start),
            false => (range.start, range.end),
        };
        let in_order = db.zset_range(entry, start..end);
        in_order.for_each(|(member, _)| members.push(&[member]));
        let mut order: Vec<usize> = (0..members.len()).collect();
        if wanted.descending {
            order.reverse();
        }
        order
    } else {
        let all = db.zset_range(entry, 0..len);
        all.for_each(|(member, _)| members.push(&[member]));
        let mut order = order(call, &wanted, &members)?;
        order.truncate(range.end);
        order.drain(..range.start);
        order
    };
    let chosen = chosen.iter().map(|&at| members.get(at));
    if wanted.get.is_empty() {
        call.reply.array(chosen.len());
        chosen.for_each(|member| call.reply.bulk(member));
        return Ok(());
    }
    call.reply.array(chosen.len() * wanted.get.len());
    let patterns = &wanted.get;
    let each = chosen.flat_map(|member| patterns.iter().map(move |pattern| (pattern, member)));
    look_up(call, each, |reply, value| reply.bulk_or_null(value));
    Ok(())
}

pub(super) fn sort(call: &mut Call<'_>) -> Outcome {
    reply(call, true)
}

pub(super) fn sort_ro(call: &mut Call<'_>) -> Outcome {
    reply(call, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parts<'t> = (&'t [u8], &'t [u8], Option<&'t [u8]>);

    fn parts(text: &[u8]) -> Option<Parts<'_>> {
        match Pattern::parse(text) {
            Pattern::Key {
                before,
                behind,
                field,
            } => Some((before, behind, field)),
            _ => None,
        }
    }

    #[test]
    fn patterns_name_keys_and_fields() {
        assert_eq!(parts(b"w_*"), Some((&b"w_"[..], &b""[..], None)));
        assert_eq!(parts(b"*"), Some((&b""[..], &b""[..], None)));
        assert_eq!(parts(b"a*b*c"), Some((&b"a"[..], &b"b*c"[..], None)));
        assert_eq!(
            parts(b"h*x->f->g"),
            Some((&b"h"[..], &b"x"[..], Some(&b"f->g"[..])))
        );
        // No field, an arrow before the star, and one behind a zero byte.
        assert_eq!(parts(b"h*->"), Some((&b"h"[..], &b"->"[..], None)));
        assert_eq!(parts(b"a->*"), Some((&b"a->"[..], &b""[..], None)));
        assert_eq!(parts(b"h*\0->f"), Some((&b"h"[..], &b"\0->f"[..], None)));
        assert!(matches!(Pattern::parse(b"#"), Pattern::Member));
        assert!(matches!(Pattern::parse(b"nosort"), Pattern::Constant));
    }
}
