//! BITFIELD: integers of 1 to 64 bits anywhere in a value.

use super::super::options::OptionWords;
use super::offset::{bit, byte_and_shift, offset, set_bit};
use super::{Call, Failure, Outcome};
use crate::keyspace::Kind;
use crate::number::parse_i64;

/// What becomes of a number that its width cannot hold.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// How wide a number is, and whether it may be negative.
#[derive(Clone, Copy)]
struct Width {
    bits: u32,
    signed: bool,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64),
    Add(i64),
}

struct FieldOp {
    action: Action,
    width: Width,
    offset: u64,
    overflow: Overflow,
}

impl Width {
    fn parse(text: &[u8]) -> Result<Self, Failure> {
        let (signed, most) = match text.first() {
            Some(b'i') => (true, 64),
            Some(b'u') => (false, 63),
            _ => (false, 0),
        };
        let bits = text.get(1..).and_then(parse_i64);
        match bits.filter(|bits| (1..=most).contains(bits)) {
            Some(bits) => Ok(Self {
                bits: bits as u32,
                signed,
            }),
            None => Err("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.".into()),
        }
    }

    /// What these bits mean.
    fn read(self, bits: u64) -> i64 {
        let unused = 64 - self.bits;
        if self.signed {
            (bits << unused) as i64 >> unused
        } else {
            (bits << unused >> unused) as i64
        }
    }

    /// The number that stands for one that may be too large or too small; none where that is an error.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        };
        match overflow {
            _ if (min..=max).contains(&number) => Some(number as i64),
            Overflow::Wrap => Some(self.read(number as u64)),
            Overflow::Saturate => Some(number.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }
}

impl FieldOp {
    /// The number that is there; bits behind the end of the value are zeros.
    fn number(&self, value: &[u8]) -> i64 {
        let bits = (self.offset..self.offset + u64::from(self.width.bits))
            .fold(0, |bits, at| bits << 1 | u64::from(bit(value, at)));
        self.width.read(bits)
    }

    fn put(&self, value: &mut [u8], number: i64) {
        for at in 0..self.width.bits {
            let on = number >> (self.width.bits - 1 - at) & 1 == 1;
            set_bit(value, self.offset + u64::from(at), on);
        }
    }

    /// How long a value has to be for it.
    fn bytes(&self) -> usize {
        byte_and_shift(self.offset + u64::from(self.width.bits) - 1).0 + 1
    }

    fn parse(
        call: &Call<'_>,
        options: &mut OptionWords<'_>,
        overflow: Overflow,
    ) -> Result<Self, Failure> {
        let (values, make): (_, fn(i64) -> Action) = if options.take_with("GET", 2) {
            (2, |_| Action::Get)
        } else if options.take_with("SET", 3) {
            (3, Action::Set)
        } else if options.take_with("INCRBY", 3) {
            (3, Action::Add)
        } else {
            return Err(Failure::SYNTAX);
        };
        let width = Width::parse(options.value()?)?;
        // After `#` numbers of that width are counted, not bits.
        let offset = match options.value()? {
            [b'#', number @ ..] => offset(call, number, i64::from(width.bits))?,
            number => offset(call, number, 1)?,
        };
        let operand = if values == 3 { options.integer()? } else { 0 };
        Ok(Self {
            action: make(operand),
            width,
            offset,
            overflow,
        })
    }
}

pub(super) fn bitfield(call: &mut Call<'_>) -> Outcome {
    execute(call, false)
}

pub(super) fn bitfield_ro(call: &mut Call<'_>) -> Outcome {
    execute(call, true)
}

fn execute(call: &mut Call<'_>, only_reads: bool) -> Outcome {
    let (mut ops, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut options = OptionWords::new(call.args, 2);
    while options.left() > 0 {
        if options.take_with("OVERFLOW", 1) {
            overflow = if options.take("WRAP") {
                Overflow::Wrap
            } else if options.take("SAT") {
                Overflow::Saturate
            } else if options.take("FAIL") {
                Overflow::Fail
            } else {
                return Err("ERR Invalid OVERFLOW type specified".into());
            };
        } else {
            ops.push(FieldOp::parse(call, &mut options, overflow)?);
        }
    }
    let key = call.key(1);
    let written = ops.iter().filter(|op| !matches!(op.action, Action::Get));
    let Some(needed) = written.map(FieldOp::bytes).max() else {
        let entry = call.read(&key, Kind::String)?;
        let value = entry.map_or(&[][..], |entry| call.keyspace.selected().string(entry));
        call.reply.array(ops.len());
        ops.iter()
            .for_each(|op| call.reply.integer(op.number(value)));
        return Ok(());
    };
    if only_reads {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    let entry = call.write(&key, Kind::String)?;
    let len = entry.map_or(0, |entry| call.db_ref().string(entry).len());
    let value = call
        .keyspace
        .db(call.client.db)
        .resize_string(&key, len.max(needed))?;
    let mut has_changed = false;
    call.reply.array(ops.len());
    for op in &ops {
        let before = op.number(value);
        let (wanted, is_set) = match op.action {
            Action::Get => {
                call.reply.integer(before);
                continue;
            }
            // What is set is taken for as many bits as it has, without a sign where the number has none.
            Action::Set(number) if op.width.signed => (i128::from(number), true),
            Action::Set(number) => (i128::from(number as u64), true),
            Action::Add(number) => (i128::from(before) + i128::from(number), false),
        };
        match op.width.fit(wanted, op.overflow) {
            Some(after) => {
                op.put(value, after);
                has_changed |= len < needed || after != before;
                call.reply.integer(if is_set { before } else { after });
            }
            None => call.reply.null(),
        }
    }
    if has_changed {
        call.changed(key.bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_their_width_holds() {
        let width = |text: &str| Width::parse(text.as_bytes()).ok().unwrap();
        for text in ["i64", "i63", "i8", "i1", "u63", "u8", "u1"] {
            let width = width(text);
            for number in [i64::MIN, -129, -1, 0, 1, 127, 128, 255, 256, i64::MAX] {
                let wrapped = width.fit(i128::from(number), Overflow::Wrap).unwrap();
                let mut value = vec![0xA5; 12];
                let op = FieldOp {
                    action: Action::Get,
                    width,
                    offset: 5,
                    overflow: Overflow::Wrap,
                };
                op.put(&mut value, number);
                assert_eq!(op.number(&value), wrapped, "{text} {number}");
                // Nothing beside it is touched.
                op.put(&mut value, op.number(&[0xA5; 12]));
                assert_eq!(value, [0xA5; 12]);
            }
        }
        assert_eq!(width("i8").fit(128, Overflow::Saturate), Some(127));
        assert_eq!(width("u8").fit(-1, Overflow::Saturate), Some(0));
        assert_eq!(
            width("i64").fit(i128::from(i64::MAX) + 1, Overflow::Fail),
            None
        );
        for text in ["", "i", "i0", "i65", "u64", "x8", "i 8"] {
            assert!(Width::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
