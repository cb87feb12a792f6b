//! Every level against an oracle that shares nothing with it: 128-bit arithmetic, one bit range
//! at a time. All widths, row counts around the register and word boundaries, and pad bytes full
//! of ones, which no kernel may let through.

use super::*;
use proptest::{collection::vec, prelude::*, sample::select};

const LENGTHS: [usize; 10] = [0, 1, 7, 63, 64, 65, 127, 1000, 1023, 1024];

fn levels() -> impl Iterator<Item = Kernels> {
    Level::available().filter_map(Kernels::at)
}

/// A small generator with a good spread, so that sweeps are reproducible and quick.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Codes of a width, the extreme ones often among them.
    fn codes(&mut self, width: u8, n: usize) -> Vec<u64> {
        (0..n)
            .map(|_| match self.next() % 8 {
                0 => 0,
                1 => max_code(width),
                _ => self.next() & max_code(width),
            })
            .collect()
    }

    fn mask(&mut self) -> Mask {
        Mask(std::array::from_fn(|_| match self.next() % 4 {
            0 => 0,
            1 => !0,
            2 => self.next() & self.next() & self.next(),
            _ => self.next(),
        }))
    }

    /// Up to 40 rows.
    fn few(&mut self) -> Mask {
        let mut mask = Mask::none();
        for _ in 0..self.next() % 41 {
            mask.set(self.next() as usize % BLOCK_LEN, true);
        }
        mask
    }
}

/// Packs bit by bit; the pad and the unused bits of the last byte are ones.
fn pack_naively(codes: &[u64], width: u8) -> Vec<u8> {
    let len_bytes = packed_bytes(codes.len(), width);
    let mut bytes = vec![0xFF; len_bytes + PAD_BYTES];
    for (index, code) in codes.iter().enumerate() {
        for bit in 0..usize::from(width) {
            let at = index * usize::from(width) + bit;
            let is_set = u128::from(*code) >> bit & 1 == 1;
            bytes[at / 8] = bytes[at / 8] & !(1 << (at % 8)) | u8::from(is_set) << (at % 8);
        }
    }
    bytes
}

fn filtered(mask: &Mask, n: usize, keep: impl Fn(usize) -> bool) -> Mask {
    let mut result = Mask::none();
    for row in 0..n {
        result.set(row, mask.get(row) && keep(row));
    }
    result
}

fn in_bitmap(bitmap: &[u64], code: u64) -> bool {
    let code = u128::from(code);
    code < bitmap.len() as u128 * 64 && bitmap[(code / 64) as usize] >> (code % 64) & 1 == 1
}

/// The words of a code hold all of it, and lie in no line that it does not touch.
fn check_words(packed: &[u8], width: u8, index: usize) {
    let words = Kernels::words(packed, width, index);
    let bits = index * usize::from(width)..(index + 1) * usize::from(width);
    let start = words.as_ptr().addr() - packed.as_ptr().addr();
    let words = start * 8..(start + words.len()) * 8;
    assert!(words.start <= bits.start && bits.end <= words.end);
    assert_eq!(words.is_empty(), bits.is_empty());
    const LINE: usize = 64 * 8;
    if width > 0 {
        assert_eq!(words.start / LINE, bits.start / LINE);
        assert_eq!((words.end - 1) / LINE, (bits.end - 1) / LINE);
    }
}

/// All kernels on one block of packed codes, at every level.
fn check_packed(codes: &[u64], width: u8, random: &mut Random) {
    let n = codes.len();
    let packed = pack_naively(codes, width);
    let context = format!("width {width}, {n} codes");
    for (index, code) in codes.iter().enumerate() {
        assert_eq!(
            Kernels::get(&packed, width, index),
            *code,
            "{context}, code {index}"
        );
        check_words(&packed, width, index);
    }
    let mask = random.mask();
    let few = random.few();
    let selected_of = |mask: &Mask| -> Vec<u64> {
        let rows = (0..n).filter(|&row| mask.get(row));
        rows.map(|row| codes[row]).collect()
    };
    let (selected, selected_few) = (selected_of(&mask), selected_of(&few));
    let (one, other) = (
        random.next() & max_code(width),
        random.next() & max_code(width),
    );
    let some = codes.get(n / 2).copied().unwrap_or(0);
    let ranges = [
        (one.min(other), one.max(other)),
        (one, !0),
        (0, other),
        (some, some),
        (0, 0),
        (max_code(width), max_code(width)),
        (0, max_code(width)),
        (1, 0),
        (max_code(width).saturating_add(1), !0),
    ];
    let limit_words = (max_code(width) / 64 + 1).min(80) as usize;
    let bitmaps: Vec<Vec<u64>> = [0, 1, limit_words / 2, limit_words, limit_words + 3]
        .map(|words| (0..words).map(|_| random.next()).collect())
        .into();

    // From any bit on, codes in the middle, the first and the last ones.
    let stretches: Vec<(u64, u64, u64)> = [0, some, one.min(other), max_code(width)]
        .map(|first_code| {
            let first_bit = random.next() % (79 * 64);
            (first_bit, first_code, random.next() % (80 * 64 - first_bit))
        })
        .into();
    let stretched: Vec<u64> = (0..80).map(|_| random.next()).collect();

    for kernels in levels() {
        let context = format!("{context}, {}", kernels.level());

        let mut repacked = vec![0xFF; packed.len()];
        kernels.pack(codes, width, &mut repacked);
        let len_bytes = packed_bytes(n, width);
        let unused = (len_bytes * 8 - n * usize::from(width)) as u32;
        let mut expected = packed.clone();
        if unused > 0 {
            expected[len_bytes - 1] &= 0xFF >> unused;
        }
        assert_eq!(repacked, expected, "{context}: pack");

        for base in [0, 1, 77, u64::MAX, 1 << 40] {
            let moved: Vec<u64> = codes.iter().map(|code| code.wrapping_add(base)).collect();
            let signed: Vec<i64> = moved.iter().map(|&value| value as i64).collect();
            let mut repacked = vec![0xFF; packed.len()];
            kernels.pack_from(&moved, base, width, &mut repacked);
            assert_eq!(repacked, expected, "{context}: pack_from {base}, u64");
            let mut repacked = vec![0xFF; packed.len()];
            kernels.pack_from(&signed, base as i64, width, &mut repacked);
            assert_eq!(repacked, expected, "{context}: pack_from {base}, i64");
            let mut out = vec![7, 8];
            kernels.append_i64(&packed, width, n, base as i64, &mut out);
            assert_eq!(out[..2], [7, 8], "{context}: append_i64");
            assert_eq!(out[2..], signed, "{context}: append_i64, {base}");
            // Of wider codes the low bits count.
            let narrow: Vec<i32> = signed.iter().map(|&value| value as i32).collect();
            let mut out = vec![7];
            kernels.append_i32(&packed, width, n, base as i32, &mut out);
            assert_eq!(out[1..], narrow, "{context}: append_i32, {base}");
            if width <= 32 {
                let unsigned: Vec<u32> = narrow.iter().map(|&value| value as u32).collect();
                let mut repacked = vec![0xFF; packed.len()];
                kernels.pack_from(&narrow, base as i32, width, &mut repacked);
                assert_eq!(repacked, expected, "{context}: pack_from {base}, i32");
                let mut repacked = vec![0xFF; packed.len()];
                kernels.pack_from(&unsigned, base as u32, width, &mut repacked);
                assert_eq!(repacked, expected, "{context}: pack_from {base}, u32");
            }
        }

        let mut out = vec![!0; n];
        kernels.unpack_u64(&packed, width, &mut out);
        assert_eq!(out, codes, "{context}: unpack_u64");
        for (mask, selected) in [(&mask, &selected), (&few, &selected_few)] {
            let mut out = vec![0; selected.len()];
            assert_eq!(
                kernels.unpack_selected_u64(&packed, width, n, mask, &mut out),
                out.len()
            );
            assert_eq!(out, *selected, "{context}: unpack_selected_u64");
            if width <= 32 {
                let mut out = vec![!0; n + 100];
                let len = kernels.unpack_selected_u32(&packed, width, n, mask, &mut out);
                let out = out[..len].iter().map(|&code| u64::from(code));
                assert!(
                    out.eq(selected.iter().copied()),
                    "{context}: unpack_selected_u32"
                );
            }
        }
        if width <= 32 {
            let codes: Vec<u32> = codes.iter().map(|&code| code as u32).collect();
            let mut out = vec![!0; n];
            kernels.unpack_u32(&packed, width, &mut out);
            assert_eq!(out, codes, "{context}: unpack_u32");
        }

        for (low, high) in ranges {
            let mut result = mask;
            kernels.select_between(&packed, width, n, low, high, &mut result);
            let expected = filtered(&mask, n, |row| (low..=high).contains(&codes[row]));
            assert_eq!(result, expected, "{context}: select_between {low}..={high}");
        }
        for bitmap in &bitmaps {
            let mut result = mask;
            kernels.select_in(&packed, width, n, bitmap, &mut result);
            let expected = filtered(&mask, n, |row| in_bitmap(bitmap, codes[row]));
            assert_eq!(
                result,
                expected,
                "{context}: select_in {} words",
                bitmap.len()
            );
        }

        for &(first_bit, first_code, span) in &stretches {
            let bits = CodeBits::new(&stretched, first_bit, first_code, span);
            let mut result = mask;
            kernels.select_in_bits(&packed, width, n, bits, &mut result);
            let is_in = |code: u64| {
                code >= first_code
                    && code - first_code <= span
                    && in_bitmap(&stretched, code - first_code + first_bit)
            };
            let expected = filtered(&mask, n, |row| is_in(codes[row]));
            assert_eq!(
                result, expected,
                "{context}: select_in_bits {first_bit} {first_code} {span}"
            );
            let mut result = mask;
            kernels.select_in_bits_u64(codes, bits, &mut result);
            // All 64 bits count, and wrap around.
            let is_in = |code: u64| {
                let from_first = code.wrapping_sub(first_code);
                from_first <= span && in_bitmap(&stretched, from_first + first_bit)
            };
            let expected = filtered(&mask, n, |row| is_in(codes[row]));
            assert_eq!(result, expected, "{context}: select_in_bits_u64");
        }

        let sum = |codes: &[u64]| codes.iter().map(|&code| u128::from(code)).sum::<u128>();
        assert_eq!(
            kernels.sum(&packed, width, n, None),
            sum(codes),
            "{context}: sum"
        );
        let masked = kernels.sum(&packed, width, n, Some(&mask));
        assert_eq!(masked, sum(&selected), "{context}: masked sum");

        let extremes = |codes: &[u64]| Some((*codes.iter().min()?, *codes.iter().max()?));
        assert_eq!(
            kernels.min_max(&packed, width, n, None),
            extremes(codes),
            "{context}"
        );
        let masked = kernels.min_max(&packed, width, n, Some(&mask));
        assert_eq!(masked, extremes(&selected), "{context}: masked min_max");
    }
}

/// All kernels on slices, at every level.
fn check_slices(values: &[u64], random: &mut Random) {
    let n = values.len();
    let mask = random.mask();
    let (a, b) = (random.next(), values.get(n / 3).copied().unwrap_or(5));
    let dictionary: Vec<u128> = (0..997)
        .map(|i| u128::from(random.next()) << 64 | i)
        .collect();
    let codes: Vec<u32> = values.iter().map(|&value| value as u32 % 997).collect();

    for kernels in levels() {
        let context = format!("{n} values, {}", kernels.level());
        for (low, high) in [(a, b), (b, a), (b, b), (0, !0), (0, 0)] {
            let mut result = mask;
            kernels.select_between_u64(values, low, high, &mut result);
            assert_eq!(
                result,
                filtered(&mask, n, |row| (low..=high).contains(&values[row])),
                "{context}"
            );
        }

        let mut out = vec![0; n];
        let len = kernels.compress_u64(values, &mask, &mut out);
        let rows = || (0..n).filter(|&row| mask.get(row));
        assert!(
            out[..len].iter().copied().eq(rows().map(|row| values[row])),
            "{context}"
        );
        let extremes = values
            .iter()
            .min()
            .copied()
            .zip(values.iter().max().copied());
        assert_eq!(kernels.min_max_u64(values), extremes, "{context}");

        check_gather(kernels, &dictionary, &codes);
        let words: Vec<u64> = dictionary
            .iter()
            .map(|&value| (value >> 64) as u64)
            .collect();
        check_gather(kernels, &words, &codes);
        let halves: Vec<u32> = words.iter().map(|&value| value as u32).collect();
        check_gather(kernels, &halves, &codes);
    }
}

fn check_gather<T: Copy + Default + PartialEq + std::fmt::Debug>(
    kernels: Kernels,
    dictionary: &[T],
    codes: &[u32],
) {
    let mut out = vec![T::default()];
    assert_eq!(kernels.gather(dictionary, codes, &mut out), Ok(()));
    let values = codes.iter().map(|code| dictionary[*code as usize]);
    let expected: Vec<T> = std::iter::once(T::default()).chain(values).collect();
    assert_eq!(out, expected);
    if let Some(&largest) = codes.iter().max() {
        let short = &dictionary[..largest as usize];
        let error = CodeOutOfRange {
            code: largest,
            len: short.len(),
        };
        assert_eq!(kernels.gather(short, codes, &mut out), Err(error));
        assert_eq!(out, expected);
    }
}

#[test]
fn all_levels_agree_with_the_oracle_at_all_widths_and_lengths() {
    let mut random = Random(1);
    for width in 0..=MAX_WIDTH {
        for n in LENGTHS {
            let codes = random.codes(width, n);
            check_packed(&codes, width, &mut random);
        }
    }
}

#[test]
fn all_levels_agree_with_the_oracle_on_slices() {
    let mut random = Random(2);
    for n in LENGTHS {
        for width in [1, 8, 32, 63, 64] {
            let values = random.codes(width, n);
            check_slices(&values, &mut random);
        }
    }
}

#[test]
fn packing_agrees_with_the_bitpacking_crate() {
    use bitpacking::{BitPacker, BitPacker1x};
    let mut random = Random(3);
    let packer = BitPacker1x::new();
    for width in 1..=32 {
        let codes = random.codes(width, BitPacker1x::BLOCK_LEN);
        let narrow: Vec<u32> = codes.iter().map(|&code| code as u32).collect();
        let mut theirs = [0; BitPacker1x::BLOCK_LEN * 4];
        let len_bytes = packer.compress(&narrow, &mut theirs, width);
        for kernels in levels() {
            let mut ours = [0; BitPacker1x::BLOCK_LEN * 4];
            kernels.pack(&codes, width, &mut ours);
            assert_eq!(ours[..len_bytes], theirs[..len_bytes], "width {width}");
        }
    }
}

#[test]
#[should_panic(expected = "do not fit")]
fn a_block_without_its_pad_is_refused() {
    let packed = vec![0; packed_bytes(1024, 5) + PAD_BYTES - 1];
    Kernels::best().sum(&packed, 5, 1024, None);
}

#[test]
fn codes_near_the_end_of_32_bits_do_not_wrap_around() {
    for width in [25, 26, 30, 31, 32] {
        let last = max_code(width);
        let codes: Vec<u64> = (0..64).chain(last - 63..=last).collect();
        let packed = pack_naively(&codes, width);
        let bitmap = [!0; 2];
        for first_code in [last - 5, last, 0, 60] {
            for (first_bit, span) in [(0, 127), (100, 27), (3, 0)] {
                let bits = CodeBits::new(&bitmap, first_bit, first_code, span);
                for kernels in levels() {
                    let mut mask = Mask::all();
                    kernels.select_in_bits(&packed, width, codes.len(), bits, &mut mask);
                    let is_in =
                        |row: &usize| codes[*row] >= first_code && codes[*row] - first_code <= span;
                    let expected = (0..codes.len()).filter(is_in);
                    assert!(
                        mask.iter().eq(expected),
                        "width {width}, {}",
                        kernels.level()
                    );
                }
            }
        }
    }
}

#[test]
fn sums_do_not_overflow() {
    for width in [8, 16, 32, 33, 54, 55, 64] {
        let packed = vec![0xFF; packed_bytes(1024, width) + PAD_BYTES];
        for kernels in levels() {
            let sum = kernels.sum(&packed, width, 1024, None);
            assert_eq!(sum, u128::from(max_code(width)) * 1024, "width {width}");
        }
    }
}

proptest! {
    #[test]
    fn all_levels_agree_with_the_oracle_on_any_block(
        width in 0..=MAX_WIDTH,
        codes in vec(any::<u64>(), 0..=BLOCK_LEN),
        skew in select(vec![0u32, 1, 8, 40, 63]),
        seed: u64,
    ) {
        // Shifting right makes small codes likely, which random bits hardly ever are.
        let codes: Vec<u64> = codes.iter().map(|code| code >> skew & max_code(width)).collect();
        let mut random = Random(seed);
        check_packed(&codes, width, &mut random);
        check_slices(&codes, &mut random);
    }
}
