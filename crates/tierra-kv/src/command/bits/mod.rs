//! Strings as rows of bits, the highest of the first byte being bit 0.

mod count;
mod field;
mod offset;
mod operation;

use offset::{bit, byte_and_shift, offset, set_bit};

use super::{Call, Command, DENYOOM, FAST, Failure, Group, Outcome, READONLY, WRITE};
use crate::keyspace::Kind;
use crate::number::parse_i64;

const fn of(name: &'static str, arity: i16, run: super::Run) -> Command {
    Command::new(name, arity, Group::Bitmap, run)
}

pub(super) static COMMANDS: &[Command] = &[
    of("setbit", 4, setbit)
        .flags(WRITE | DENYOOM)
        .key("RW access update")
        .about("2.2.0", "Sets or clears a bit")
        .arguments("key offset:integer value:integer"),
    of("getbit", 3, getbit)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("2.2.0", "A bit")
        .arguments("key offset:integer"),
    of("bitcount", -2, count::bitcount)
        .flags(READONLY)
        .key("RO access")
        .about("2.6.0", "How many bits are set")
        .arguments("key [index(start:integer end:integer [index_unit<BYTE|BIT>@7.0.0])]"),
    of("bitpos", -3, count::bitpos)
        .flags(READONLY)
        .key("RO access")
        .about("2.8.7", "Which is the first bit that is set, or clear")
        .arguments("key bit:integer [index(start:integer [end_index(end:integer [index_unit<BYTE|BIT>@7.0.0])])]"),
    of("bitop", -4, operation::bitop)
        .flags(WRITE | DENYOOM)
        .keys(2, -1, 1, "OW update;RO access")
        .about("2.6.0", "Combines values bit by bit")
        .arguments("operation destkey:key key*"),
    of("bitfield", -2, field::bitfield)
        .flags(WRITE | DENYOOM)
        .key("RW access update variable_flags")
        .about("3.2.0", "Reads and changes integers of any width")
        .arguments("key [operation<GET encoding_offset(encoding offset:integer)|write([OVERFLOW wrap_sat_fail<WRAP|SAT|FAIL>] write_operation<SET encoding_offset_value(encoding offset:integer value:integer)|INCRBY encoding_offset_increment(encoding offset:integer increment:integer)>)>*]"),
    of("bitfield_ro", -2, field::bitfield_ro)
        .flags(READONLY | FAST)
        .key("RO access")
        .about("6.0.0", "Reads integers of any width")
        .arguments("key [GET encoding_offset(encoding offset:integer)*+]"),
];

fn setbit(call: &mut Call<'_>) -> Outcome {
    let offset = offset(call, call.arg(2), 1)?;
    let on = match parse_i64(call.arg(3)) {
        Some(0) => false,
        Some(1) => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let key = call.key(1);
    let entry = call.write(&key, Kind::String)?;
    let value = entry.map_or(&[][..], |entry| call.db_ref().string(entry));
    let (before, len) = (bit(value, offset), value.len());
    let after = len.max(byte_and_shift(offset).0 + 1);
    if after != len || before != on {
        set_bit(call.db().resize_string(&key, after)?, offset, on);
        call.changed(key.bytes);
    }
    call.reply.integer(i64::from(before));
    Ok(())
}

fn getbit(call: &mut Call<'_>) -> Outcome {
    let offset = offset(call, call.arg(2), 1)?;
    let key = call.key(1);
    let entry = call.read(&key, Kind::String)?;
    let value = entry.map_or(&[][..], |entry| call.db_ref().string(entry));
    call.reply.integer(i64::from(bit(value, offset)));
    Ok(())
}
