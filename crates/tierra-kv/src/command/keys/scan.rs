//! Going through everything, a piece at a time or at once.

use super::super::glob_matches;
use super::super::options::OptionWords;
use super::kind::kind_name;
use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;
use crate::number::push_double;
use crate::protocol::Args;

/// As many elements are looked at where a client does not say how many.
const COUNT: usize = 10;

/// Reads a cursor as C reads a number without a sign: a sign may come before it, and no number at all is zero.
pub(in crate::command) fn cursor(text: &[u8]) -> Result<u64, Failure> {
    let (is_negative, digits) = match text {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|digits| digits.parse::<u64>().ok())
        .ok_or("ERR invalid cursor")?;
    Ok(if is_negative {
        number.wrapping_neg()
    } else {
        number
    })
}

/// What is looked for, and how much of it at a time.
pub(in crate::command) struct ScanOptions<'a> {
    pub(in crate::command) count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    pub(in crate::command) fn parse(
        args: Args<'a>,
        from: usize,
        typed: bool,
    ) -> Result<Self, Failure> {
        let mut options = OptionWords::new(args, from);
        let mut scan = Self {
            count: COUNT,
            pattern: None,
            kind: None,
        };
        while options.left() > 0 {
            if options.take_with("COUNT", 1) {
                let count = options.integer()?;
                scan.count = usize::try_from(count)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or(Failure::SYNTAX)?;
            } else if options.take_with("MATCH", 1) {
                scan.pattern = Some(options.value()?).filter(|&pattern| pattern != b"*");
            } else if typed && options.take_with("TYPE", 1) {
                scan.kind = Some(options.value()?);
            } else {
                return Err(Failure::SYNTAX);
            }
        }
        Ok(scan)
    }

    pub(in crate::command) fn admits(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob_matches(pattern, name))
    }

    fn admits_kind(&self, kind: Kind) -> bool {
        self.kind
            .is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind_name(kind).as_bytes()))
    }
}

/// What was found, as it will be replied: how much it is must be said before it.
#[derive(Default)]
pub(in crate::command) struct ScanReply {
    reply: crate::protocol::Reply,
    count: usize,
}

impl ScanReply {
    pub(in crate::command) fn add(&mut self, element: &[u8]) {
        self.reply.bulk(element);
        self.count += 1;
    }

    pub(in crate::command) fn add_double(&mut self, value: f64) {
        let mut text = Vec::with_capacity(32);
        push_double(&mut text, value);
        self.add(&text);
    }

    pub(in crate::command) fn reply(self, call: &mut Call<'_>, next: u64) {
        call.reply.array(2);
        call.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
        self.reply_elements(call);
    }

    fn reply_elements(self, call: &mut Call<'_>) {
        call.reply.array(self.count);
        call.reply.append(&self.reply);
    }
}

/// Replies that there is nothing to go through.
pub(in crate::command) fn nothing(call: &mut Call<'_>) -> Outcome {
    ScanReply::default().reply(call, 0);
    Ok(())
}

pub(super) fn scan(call: &mut Call<'_>) -> Outcome {
    let cursor = cursor(call.arg(1))?;
    let options = ScanOptions::parse(call.args, 2, true)?;
    let mut found = ScanReply::default();
    let next = call.db().scan(cursor, options.count, |key, kind| {
        if options.admits(key) && options.admits_kind(kind) {
            found.add(key);
        }
    });
    found.reply(call, next);
    Ok(())
}

pub(super) fn keys(call: &mut Call<'_>) -> Outcome {
    let (pattern, mut found, mut cursor) = (call.arg(1), ScanReply::default(), 0);
    loop {
        cursor = call.db().scan(cursor, usize::MAX, |key, _| {
            if glob_matches(pattern, key) {
                found.add(key);
            }
        });
        if cursor == 0 {
            break;
        }
    }
    found.reply_elements(call);
    Ok(())
}
