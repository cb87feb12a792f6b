//! Run length: each run of equal codes once, and the row where it ends.
//!
//! ```text
//! 0          2
//! ┌──────────┬──────────────────────┬────────────────────────────────┐   end of a run: its last row
//! │ runs u16 │ ends, 10 bits each,  │ codes of runs, `width` bits    │   base, width: as frame of reference
//! │          │ to a whole byte      │ each                           │   code 0 is NULL in a chunk with one
//! └──────────┴──────────────────────┴────────────────────────────────┘
//! ```
//!
//! Filters are evaluated on the codes of runs, once for each run. A row is found by binary search among the ends.
//!
//! Invariant for readers: there are at least one run and at most as many as rows, and all their bytes lie in the block. Ends are
//! not trusted: one that does not ascend ends its run at once, and the last run takes the rows that are left.

use crate::bits::{BLOCK_LEN, Kernels, Mask, packed_bytes};
use crate::block::{OrdinalBlock, Summary};
use crate::encoding::EncodeError;
use crate::encoding::encoded;
use crate::encoding::format::{BaseOf, BlockKind, Format, Nulls, Plan};
use crate::encoding::frame_of_reference;
use crate::encoding::read_cost::ReadCost;
use crate::encoding::values::{ChunkValues, Sample};
use crate::error::FormatError;
use crate::logical_type::Physical;

pub(crate) const FORMAT: Format = Format {
    name: "rle",
    aliases: &["run-length"],
    blocks: |physical| (physical == Physical::Ordinal).then_some(BlockKind::Runs),
    nulls: Nulls::Code,
    base_of: BaseOf::Block,
    uses_dictionary: false,
    // Runs of a few rows take two to three times as long to unpack as packed codes, which their fewer bytes make up for in far memory at
    // best: without this, SSB (runs of four rows in three columns) took 1.6 times as long.
    handicap: 4.0,
    read_cost: ReadCost::of_lines(0.46, 64.0, 3.0),
    estimate,
    plan,
    write: encoded::write,
};

/// Bytes of the number of runs.
pub(crate) const HEADER_BYTES: usize = 2;
/// A run is written as so many values at once, which the next runs overwrite where it has fewer rows.
const AT_ONCE: usize = 8;
/// Bits of a row in a block.
const END_WIDTH: u8 = BLOCK_LEN.ilog2() as u8;

fn len_bytes(runs: usize, width: u8) -> usize {
    HEADER_BYTES + packed_bytes(runs, END_WIDTH) + packed_bytes(runs, width)
}

fn estimate(values: &ChunkValues, sample: &Sample) -> Option<f64> {
    let mut codes = Box::new([0; BLOCK_LEN]);
    sample.bytes(|&summary, block| {
        let width = frame_of_reference::width(summary, values.null_codes)?;
        let base = frame_of_reference::base(summary, values.null_codes);
        block.codes(base, &mut codes);
        let codes = &codes[..block.rows];
        let changes = codes.iter().zip(&codes[1..]).filter(|(a, b)| a != b);
        Some(len_bytes(changes.count() + 1, width))
    })
}

fn plan(values: &ChunkValues) -> Result<Option<Plan>, EncodeError> {
    let null_codes = values.null_codes;
    let width = |summary| frame_of_reference::width(summary, null_codes);
    if values.summaries.iter().any(|&it| width(it).is_none()) {
        return Ok(None);
    }
    let kernels = Kernels::best();
    let mut codes = Box::new([0; BLOCK_LEN]);
    let encode = |block: &OrdinalBlock, summary: Summary, out: &mut Vec<u8>| {
        let width = width(summary).expect("asked of all blocks");
        block.codes(frame_of_reference::base(summary, null_codes), &mut codes);
        let (mut ends, mut of_runs) = ([0; BLOCK_LEN], [0; BLOCK_LEN]);
        let mut runs = 0;
        let codes = &codes[..block.rows];
        for (row, &code) in codes.iter().enumerate() {
            // The run so far; where the code goes on, the next row overwrites it.
            (ends[runs], of_runs[runs]) = (row as u64, code);
            runs += usize::from(codes.get(row + 1) != Some(&code));
        }
        out.extend_from_slice(&(runs as u16).to_le_bytes());
        encoded::append_packed(kernels, &ends[..runs], END_WIDTH, out);
        encoded::append_packed(kernels, &of_runs[..runs], width, out);
        width
    };
    Ok(Some(encoded::plan(values, encode)))
}

/// The runs of a block, their bytes checked.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'a> {
    rows: usize,
    runs: usize,
    width: u8,
    /// Packed ends, and everything behind them: more than the pad.
    ends: &'a [u8],
    /// Packed codes, likewise.
    codes: &'a [u8],
}

impl<'a> Runs<'a> {
    /// `bytes` is the block of `len` bytes and what follows it, at least the pad.
    pub(crate) fn new(
        bytes: &'a [u8],
        len: usize,
        rows: usize,
        width: u8,
    ) -> Result<Runs<'a>, FormatError> {
        let corrupt = |why: &str| FormatError::corrupt("a block of runs", why);
        let (header, ends) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or_else(|| corrupt("the number of its runs is missing"))?;
        let runs = usize::from(u16::from_le_bytes(*header));
        if runs == 0 || runs > rows {
            return Err(corrupt("it has no runs, or more of them than rows"));
        }
        if len_bytes(runs, width) != len {
            return Err(corrupt("its runs do not add up to its length"));
        }
        Ok(Runs {
            rows,
            runs,
            width,
            ends,
            codes: &ends[packed_bytes(runs, END_WIDTH)..],
        })
    }

    /// The codes of all runs as a block of packed codes: how many, their width and their bytes.
    pub(crate) fn codes(&self) -> (usize, u8, &'a [u8]) {
        (self.runs, self.width, self.codes)
    }

    /// The code in row `row`.
    pub(crate) fn code(&self, row: usize) -> u64 {
        let (mut run, mut behind) = (0, self.runs - 1);
        while run < behind {
            let middle = (run + behind) / 2;
            if Kernels::get(self.ends, END_WIDTH, middle) < row as u64 {
                run = middle + 1;
            } else {
                behind = middle;
            }
        }
        Kernels::get(self.codes, self.width, run)
    }

    /// Calls `visit(first row, row behind the last, run)` for each run in order; all rows are visited once.
    #[inline]
    fn for_each(&self, kernels: Kernels, mut visit: impl FnMut(usize, usize, usize)) {
        let mut ends = [0_u32; BLOCK_LEN];
        let ends = &mut ends[..self.runs];
        kernels.unpack_u32(self.ends, END_WIDTH, ends);
        // Whatever is stored there.
        ends[self.runs - 1] = self.rows as u32 - 1;
        let mut row = 0;
        for (run, &end) in ends.iter().enumerate() {
            let behind = (end as usize + 1).clamp(row, self.rows);
            visit(row, behind, run);
            row = behind;
        }
    }

    /// Calls `visit(rows, code)` for each run in order.
    pub(crate) fn for_each_code(&self, kernels: Kernels, mut visit: impl FnMut(usize, u64)) {
        let mut codes = [0; BLOCK_LEN];
        kernels.unpack_u64(self.codes, self.width, &mut codes[..self.runs]);
        self.for_each(kernels, |first, behind, run| {
            visit(behind - first, codes[run])
        });
    }

    /// The rows of the runs that `runs` selects.
    pub(crate) fn expand(&self, kernels: Kernels, runs: &Mask) -> Mask {
        let mut ends = [0_u32; BLOCK_LEN];
        kernels.unpack_u32(self.ends, END_WIDTH, &mut ends[..self.runs]);
        // Where a run differs from the one before it in being selected, its first row is marked. An odd number of marks up to a row
        // selects it.
        let mut rows = Mask::none();
        let mut before = 0;
        for (word, &selected) in runs.0.iter().enumerate() {
            let mut differing = selected ^ (selected << 1 | before);
            before = selected >> 63;
            while differing != 0 {
                let run = word * 64 + differing.trailing_zeros() as usize;
                let first = match run {
                    0 => 0,
                    _ if run >= self.runs => self.rows,
                    run => ends[run - 1] as usize + 1,
                };
                if let Some(marked) = rows.0.get_mut(first / 64) {
                    *marked ^= 1 << (first % 64);
                }
                differing &= differing - 1;
            }
        }
        let mut carried = 0;
        for word in &mut rows.0 {
            for shift in [1, 2, 4, 8, 16, 32] {
                *word ^= *word << shift;
            }
            *word ^= carried;
            carried = 0_u64.wrapping_sub(*word >> 63);
        }
        rows
    }

    /// The code of every row.
    pub(crate) fn unpack(&self, kernels: Kernels, out: &mut [u64]) {
        self.write(kernels, out, |code| code);
    }

    /// Writes what `value` makes of the code of each row.
    pub(crate) fn write<T: Copy>(&self, kernels: Kernels, out: &mut [T], value: impl Fn(u64) -> T) {
        let mut codes = [0; BLOCK_LEN];
        kernels.unpack_u64(self.codes, self.width, &mut codes[..self.runs]);
        kernels.compiled(|| {
            self.for_each(kernels, |first, behind, run| {
                let value = value(codes[run]);
                let first_few = out.get_mut(first..first + AT_ONCE);
                match first_few {
                    Some(first_few) => {
                        first_few.fill(value);
                        if behind > first + AT_ONCE {
                            out[first + AT_ONCE..behind].fill(value);
                        }
                    }
                    None => out[first..behind].fill(value),
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::PAD_BYTES;

    fn block(ends: &[u64], codes: &[u64], width: u8) -> Vec<u8> {
        let mut bytes = (ends.len() as u16).to_le_bytes().to_vec();
        encoded::append_packed(Kernels::best(), ends, END_WIDTH, &mut bytes);
        encoded::append_packed(Kernels::best(), codes, width, &mut bytes);
        bytes.resize(bytes.len() + PAD_BYTES, 0xFF);
        bytes
    }

    #[test]
    fn ends_in_any_order_leave_every_row_with_some_code() {
        for ends in [[4, 9, 19], [9, 4, 19], [19, 19, 2], [1023, 0, 0], [0, 0, 0]] {
            let bytes = block(&ends, &[5, 6, 7], 3);
            let runs = Runs::new(&bytes, bytes.len() - PAD_BYTES, 20, 3).unwrap();
            let mut codes = [0; 20];
            runs.unpack(Kernels::best(), &mut codes);
            for (row, code) in codes.iter().enumerate() {
                assert!((5..8).contains(code) && (5..8).contains(&runs.code(row)));
            }
            let rows = runs.expand(Kernels::best(), &Mask::first(3));
            assert_eq!(rows, Mask::first(20));
            for run in 0..3 {
                let mut one = Mask::none();
                one.0[0] = 1 << run;
                runs.expand(Kernels::best(), &one);
            }
        }
    }

    /// Runs of all lengths up to some, of whole blocks and of their beginnings.
    #[test]
    fn long_and_short_runs_fill_their_rows_and_no_others() {
        for (most, rows) in [
            (1, BLOCK_LEN),
            (3, 1_000),
            (9, BLOCK_LEN),
            (40, 777),
            (900, BLOCK_LEN),
        ] {
            let (mut ends, mut expected) = (Vec::new(), Vec::new());
            while expected.len() < rows {
                let len = (ends.len() * 7 % most + 1).min(rows - expected.len());
                let code = ends.len() as u64 * 37 % 128;
                expected.extend(std::iter::repeat_n(code, len));
                ends.push(expected.len() as u64 - 1);
            }
            let codes: Vec<u64> = (0..ends.len() as u64).map(|run| run * 37 % 128).collect();
            let bytes = block(&ends, &codes, 7);
            let runs = Runs::new(&bytes, bytes.len() - PAD_BYTES, rows, 7).unwrap();
            let mut out = vec![999; rows];
            runs.unpack(Kernels::best(), &mut out);
            assert_eq!(out, expected, "runs of up to {most}");
            let mut selected = Mask::none();
            for (run, &code) in codes.iter().enumerate() {
                selected.0[run / 64] |= u64::from(code % 3 == 0) << (run % 64);
            }
            let found = runs.expand(Kernels::best(), &selected);
            for row in 0..BLOCK_LEN {
                let is_selected = expected.get(row).is_some_and(|code| code % 3 == 0);
                assert_eq!(
                    found.get(row),
                    is_selected,
                    "row {row}, runs of up to {most}"
                );
            }
        }
    }

    #[test]
    fn rows_are_those_of_their_runs() {
        let bytes = block(&[4, 5, 19], &[5, 0, 7], 3);
        let runs = Runs::new(&bytes, bytes.len() - PAD_BYTES, 20, 3).unwrap();
        let expected: Vec<u64> = (0..20)
            .map(|row| match row {
                0..5 => 5,
                5 => 0,
                _ => 7,
            })
            .collect();
        let mut codes = [9; 20];
        runs.unpack(Kernels::best(), &mut codes);
        assert_eq!(codes[..], expected);
        for selected in 0..8_u64 {
            let mut of_runs = Mask::none();
            of_runs.0[0] = selected;
            let rows = runs.expand(Kernels::best(), &of_runs);
            let run = |row| {
                [(0..5), (5..6), (6..20)]
                    .iter()
                    .position(|rows| rows.contains(&row))
            };
            for row in 0..BLOCK_LEN {
                let is_selected = run(row).is_some_and(|run| selected >> run & 1 == 1);
                assert_eq!(rows.get(row), is_selected, "row {row}, runs {selected:b}");
            }
        }
        assert!((0..20).all(|row| runs.code(row) == expected[row]));
        for (bytes, len, rows) in [
            (&bytes, 6, 20),
            (&bytes, 7, 2),
            (&block(&[], &[], 3), 2, 20),
        ] {
            assert!(Runs::new(bytes, len, rows, 3).is_err(), "{len} {rows}");
        }
    }
}
