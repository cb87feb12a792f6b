//! Damage of files, drawn from a seed: often where structures lie.

use std::ops::Range;

use super::{Base, Files, Random, TIERS};

/// Where header, slots and their twins lie.
const LINES: [usize; 6] = [0, 4096, 8192, 12_288, 13_312, 14_336];
const SLOTS: [[usize; 2]; 2] = [[4096, 13_312], [8192, 14_336]];
const MAGICS: [&[u8]; 8] = [
    b"TIERRAEX",
    b"TIERRAMF",
    b"TLOG",
    b"TLGX",
    b"TDIC",
    b"TCHK",
    b"TKEY",
    b"TINV",
];
const DIRECTORY: [&str; 2] = ["database", "database.copy"];

/// Damaged files.
pub(crate) struct Harm {
    pub(crate) files: Files,
    /// What was done, to be read.
    pub(crate) what: Vec<String>,
    /// Of two tiers the one that was damaged.
    pub(crate) tier: usize,
    /// Whether what the newest publication was is nowhere any more: both copies of its slot were replaced by an older or another one.
    pub(crate) is_rolled_back: bool,
}

/// Damages up to three places; of two tiers in the pool of one alone, and in one directory file alone.
pub(crate) fn harm(base: &Base, random: &mut Random) -> Harm {
    let tier = random.below(base.tiers);
    let mut harm = Harm {
        files: base.files.clone(),
        what: Vec::new(),
        tier,
        is_rolled_back: false,
    };
    let directory = random.one_of(&DIRECTORY);
    for _ in 0..random.one_of(&[1, 1, 1, 2, 3]) {
        let name = match random.below(20) {
            0 => "LOCK",
            1 if base.tiers == 1 => random.one_of(&DIRECTORY),
            1 | 2 => directory,
            _ => TIERS[tier].1,
        };
        one(base, random, &mut harm, name);
    }
    let pool = TIERS[tier].1;
    let newest = newest_slot(&base.files[pool]);
    harm.is_rolled_back = newest
        .is_none_or(|newest| newest_slot(&harm.files[pool]).is_some_and(|found| found < newest));
    harm
}

/// The sequence of the newest slot that has a whole copy, if both slots have one.
fn newest_slot(pool: &[u8]) -> Option<u64> {
    let sequence = |at: &usize| {
        let line = pool.get(*at..*at + 64)?;
        let crc = u32::from_le_bytes(line[56..60].try_into().ok()?);
        let is_whole = line[60..] == *b"SLOT" && crc32c::crc32c(&line[..56]) == crc;
        is_whole.then(|| u64::from_le_bytes(line[..8].try_into().expect("eight bytes")))
    };
    let slots = SLOTS.map(|copies| copies.iter().filter_map(sequence).max());
    slots
        .into_iter()
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .max()
}

fn one(base: &Base, random: &mut Random, harm: &mut Harm, name: &str) {
    let Some(bytes) = harm.files.get(name) else {
        return;
    };
    let len = bytes.len();
    if len == 0 {
        return;
    }
    let at = place(bytes, random);
    let wanted = random.one_of(&[1, 1, 8, 64, 64, 200, 512, 4096, 4096, 70_000]);
    let end = (at + wanted).min(len);
    let what = match random.below(12) {
        0 | 1 => {
            let bit = random.below(8);
            harm.files.get_mut(name).expect("just found")[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        2 => {
            let value = random.next() as u8;
            harm.files.get_mut(name).expect("just found")[at] = value;
            format!("byte {at} is {value}")
        }
        3 | 4 => {
            harm.files.get_mut(name).expect("just found")[at..end].fill(0);
            format!("{at}..{end} is zero")
        }
        5 | 6 => {
            let bytes = harm.files.get_mut(name).expect("just found");
            bytes[at..end].fill_with(|| random.next() as u8);
            format!("{at}..{end} is random")
        }
        7 | 8 => {
            let source = random.below(base.tiers);
            let source = &base.files[if name.ends_with(".pool") {
                TIERS[source].1
            } else {
                name
            }];
            let from = place(source, random);
            misdirect(harm, name, at..end, source, from, random)
        }
        9 | 10 => {
            let (older, _) = &base.older[random.below(base.older.len())];
            let Some(older) = older.get(name) else {
                return;
            };
            // A block of the device keeps what it was.
            let unit = random.one_of(&[64, 512, 4096, 4096, 16_384]);
            let range = at / unit * unit..(at / unit + 1) * unit;
            let range = range.start..range.end.min(len).min(older.len()).max(range.start);
            if range.end > older.len() || range.is_empty() {
                return;
            }
            harm.files.get_mut(name).expect("just found")[range.clone()]
                .copy_from_slice(&older[range.clone()]);
            format!("{range:?} is older")
        }
        _ => {
            let cut = if random.below(2) == 0 {
                at
            } else {
                random.below(len)
            };
            harm.files.get_mut(name).expect("just found").truncate(cut);
            format!("cut to {cut} bytes")
        }
    };
    harm.what.push(format!("{name}: {what}"));
}

/// Somewhere else's bytes in a range.
fn misdirect(
    harm: &mut Harm,
    name: &str,
    range: Range<usize>,
    source: &[u8],
    from: usize,
    random: &mut Random,
) -> String {
    let unit = random.one_of(&[64, 64, 512, 4096]);
    let (to, from) = (range.start / unit * unit, from / unit * unit);
    let bytes = harm.files.get_mut(name).expect("just found");
    let count = unit.min(bytes.len() - to).min(source.len() - from);
    bytes[to..to + count].copy_from_slice(&source[from..from + count]);
    format!("{to}..{} is what is at {from}", to + count)
}

/// A place in a file, where something lies more often than not.
fn place(bytes: &[u8], random: &mut Random) -> usize {
    let lines = bytes.len() / 64;
    if bytes.len() < 32_768 {
        return random.below(bytes.len());
    }
    let first = random.below(lines);
    let mut from_there = (first..lines).chain(0..first).map(|line| line * 64);
    let found = match random.below(10) {
        0 | 1 => Some(random.one_of(&LINES)),
        2..=5 => {
            let magic = random.one_of(&MAGICS);
            from_there.find(|at| *at >= 16_384 && bytes[*at..].starts_with(magic))
        }
        6..=8 => from_there.find(|at| bytes[*at..*at + 64].iter().any(|byte| *byte != 0)),
        _ => Some(first * 64),
    };
    let behind = random.one_of(&[0, 0, 64, 128, 1024]) + random.below(64);
    (found.unwrap_or(first * 64) + behind).min(bytes.len() - 1)
}
