//! Filters on packed blocks: a mask of rows goes in, the rows that pass come out, and no value is
//! decoded on the way except where the encoding has no codes or a set is too sparse for a bitmap. A set's bitmap is tested
//! where it lies, whatever base a block's codes have.

use crate::bits::{Kernels, Mask};
use crate::chunk::block_data::{BlockData, Payload};
use crate::chunk::bound::{MEMBERS_COMPARED, Test};
use crate::chunk::{BoundFilter, Chunk, Scratch};
use crate::encoding::plain_wide;
use crate::error::FormatError;
use crate::filter::{Bitmap, OrdinalSet, ResolvedFilter, ValueSet};

/// What evaluating a filter on a block took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelectStats {
    /// Whether values had to be unpacked.
    pub decoded: bool,
    /// Bytes of the block.
    pub bytes: usize,
}

/// Of a hashed set, blocks with up to this many codes get a bitmap of their own; 32 KiB stay in a core's cache.
const WINDOW_CODES: u64 = 1 << 18;
/// Of a set that has a bitmap, they get a piece of it only if the piece fits the registers of a kernel.
const WINDOW_CODES_IN_REGISTERS: u64 = 1 << 12;

/// From one selected row in this many on, the ends of a block's strings are unpacked at once.
const ROWS_PER_END: usize = 8;

impl Chunk<'_> {
    /// Keeps those rows of `mask` that pass the filter; rows beyond the block are dropped.
    ///
    /// # Errors
    /// [`FormatError`] where the block cannot be what was written.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn select(
        &self,
        bound: &BoundFilter,
        block: usize,
        mask: &mut Mask,
        scratch: &mut Scratch,
    ) -> Result<SelectStats, FormatError> {
        let data = self.block(block)?;
        let kernels = scratch.kernels;
        let mut stats = SelectStats {
            decoded: false,
            bytes: data.entry.len_bytes as usize,
        };
        mask.and(&Mask::first(data.rows));
        match &bound.test {
            // NULL has a bit of its own.
            Test::Codes(bitmap) => {
                data.codes_in(kernels, bitmap, mask);
                return Ok(stats);
            }
            // Ranges are clamped to the block's values, so NULL's code is never inside.
            Test::Ranges(ranges)
                if data.null_codes > 0 && !bound.matches_null && self.descriptor.has_codes() =>
            {
                code_ranges(&data, ranges, kernels, mask);
                return Ok(stats);
            }
            _ => {}
        }
        let nulls = data.nulls(kernels, mask);
        mask.and_not(&nulls);
        if mask.any() {
            match &bound.test {
                Test::Nothing => *mask = Mask::none(),
                Test::Everything => {}
                Test::Values(resolved) => {
                    stats.decoded = matches!(data.payload, Payload::Coded(_));
                    values(&data, resolved, mask, scratch)?;
                }
                test if self.descriptor.has_codes() => {
                    stats.decoded = codes(&data, test, mask, scratch)?;
                }
                test => {
                    stats.decoded = true;
                    ordinals(&data, test, mask, scratch)?;
                }
            }
        }
        if bound.matches_null {
            mask.or(&nulls);
        }
        Ok(stats)
    }
}

/// On codes; returns whether they had to be unpacked after all.
fn codes(
    data: &BlockData<'_>,
    test: &Test,
    mask: &mut Mask,
    scratch: &mut Scratch,
) -> Result<bool, FormatError> {
    Ok(match test {
        Test::Ranges(ranges) => {
            code_ranges(data, ranges, scratch.kernels, mask);
            false
        }
        Test::Set {
            values,
            bitmap,
            negated,
        } => {
            let ValueSet::Ordinals(set) = &**values else {
                debug_assert!(false, "binding keeps other sets out");
                return Ok(false);
            };
            let bitmap = bitmap.as_deref().or(set.bitmap());
            let mut members = *mask;
            let decoded = code_set(data, set, bitmap, &mut members, scratch)?;
            if *negated {
                mask.and_not(&members);
            } else {
                *mask = members;
            }
            decoded
        }
        _ => false,
    })
}

fn code_ranges(data: &BlockData<'_>, ranges: &[(u64, u64)], kernels: Kernels, mask: &mut Mask) {
    let mut inside = ranges
        .iter()
        .map(|&(low, high)| (low.max(data.entry.min), high.min(data.entry.max)))
        .filter(|(low, high)| low <= high)
        .map(|(low, high)| (low.wrapping_sub(data.base), high.wrapping_sub(data.base)))
        .peekable();
    let Some((low, high)) = inside.next() else {
        *mask = Mask::none();
        return;
    };
    if inside.peek().is_none() {
        data.codes_between(kernels, low, high, mask);
        return;
    }
    let among = *mask;
    data.codes_between(kernels, low, high, mask);
    for (low, high) in inside {
        let mut more = among;
        data.codes_between(kernels, low, high, &mut more);
        mask.or(&more);
    }
}

fn code_set(
    data: &BlockData<'_>,
    set: &OrdinalSet,
    bitmap: Option<&Bitmap>,
    mask: &mut Mask,
    scratch: &mut Scratch,
) -> Result<bool, FormatError> {
    let kernels = scratch.kernels;
    let (min, max) = (data.entry.min, data.entry.max);
    if let Some(within) = set.few_within(min, max, MEMBERS_COMPARED) {
        let among = *mask;
        *mask = Mask::none();
        for value in within {
            let code = value.wrapping_sub(data.base);
            let mut equal = among;
            data.codes_between(kernels, code, code, &mut equal);
            mask.or(&equal);
        }
        return Ok(false);
    }
    // With NULLs and a least value of 0 the base wraps around.
    let codes = (data.base <= min).then(|| max - data.base);
    let window_codes = match bitmap {
        Some(_) => WINDOW_CODES_IN_REGISTERS,
        None => WINDOW_CODES,
    };
    Ok(match (bitmap, codes) {
        (_, Some(last)) if last < window_codes => {
            set.window(data.base, last as usize + 1, &mut scratch.window);
            data.codes_in(kernels, &scratch.window, mask);
            false
        }
        (Some(bitmap), _) => {
            match bitmap.codes(min, max, data.base) {
                Some(bits) => data.codes_in_bits(kernels, bits, mask),
                None => *mask = Mask::none(),
            }
            false
        }
        (None, _) => {
            let codes = data.unpack(kernels, &mut scratch.codes)?;
            set.retain_members(kernels, codes, data.base, mask);
            true
        }
    })
}

/// On decoded ordinals.
fn ordinals(
    data: &BlockData<'_>,
    test: &Test,
    mask: &mut Mask,
    scratch: &mut Scratch,
) -> Result<(), FormatError> {
    let kernels = scratch.kernels;
    let values = data.unpack(kernels, &mut scratch.codes)?;
    match test {
        Test::Ranges(ranges) => {
            let among = *mask;
            *mask = Mask::none();
            for &(low, high) in ranges {
                let mut inside = among;
                kernels.select_between_u64(values, low, high, &mut inside);
                mask.or(&inside);
            }
        }
        Test::Set {
            values: set,
            negated,
            ..
        } => {
            if let ValueSet::Ordinals(set) = &**set {
                let mut members = *mask;
                set.retain_members(kernels, values, 0, &mut members);
                match negated {
                    true => mask.and_not(&members),
                    false => *mask = members,
                }
            }
        }
        _ => debug_assert!(false, "decoded ordinals meet ranges and sets only"),
    }
    Ok(())
}

/// Strings and wide DECIMALs, compared where they lie.
fn values(
    data: &BlockData<'_>,
    resolved: &ResolvedFilter,
    mask: &mut Mask,
    scratch: &mut Scratch,
) -> Result<(), FormatError> {
    match data.payload {
        Payload::Wide(values) => {
            retain(mask, |row| {
                resolved.wide_passes(plain_wide::read_wide(values, row))
            });
        }
        Payload::Strings(strings) => {
            // For many rows all ends are unpacked at once.
            let many = mask.count() * ROWS_PER_END > data.rows;
            let ends = &mut scratch.codes[..data.rows];
            if many {
                scratch
                    .kernels
                    .unpack_u64(strings.ends, strings.width, ends);
            }
            let mut outcome = Ok(());
            retain(mask, |row| {
                let bytes = match (many, row) {
                    (false, _) => strings.get(row),
                    (true, 0) => strings.slice((0, ends[0])),
                    (true, _) => strings.slice((ends[row - 1], ends[row])),
                };
                match bytes {
                    Ok(bytes) => resolved.bytes_pass(bytes),
                    Err(error) => {
                        outcome = Err(error);
                        false
                    }
                }
            });
            outcome?;
        }
        Payload::Coded(strings) => {
            let mut passing = Mask::none();
            let (kernels, buffers) = (scratch.kernels, &mut scratch.coded);
            strings.for_each(kernels, mask, buffers, |row, text| {
                passing.set(row, resolved.bytes_pass(text));
            })?;
            *mask = passing;
        }
        Payload::Packed(_)
        | Payload::MiniBlocks(_)
        | Payload::Runs(_)
        | Payload::Patched(_)
        | Payload::Compressed(_)
        | Payload::Differences(..) => {
            debug_assert!(false, "binding turns everything else into codes");
        }
    }
    Ok(())
}

/// Keeps the rows of `mask` that `keep` accepts.
fn retain(mask: &mut Mask, mut keep: impl FnMut(usize) -> bool) {
    for (index, word) in mask.0.iter_mut().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            if !keep(index * 64 + bit) {
                *word &= !(1 << bit);
            }
        }
    }
}
