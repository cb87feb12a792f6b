//! What a kernel costs per value on this CPU: every kernel, width and level, on one full block
//! that stays in the cache. Each answer is checked against the scalar level's before it is timed.
//!
//! `cargo run --release -p tierra-column --example kernels [-- WIDTH...]`

use std::{hint::black_box, time::Instant};
use tierra_column::bits::{BLOCK_LEN, Kernels, Level, Mask, PAD_BYTES, max_code};

const WIDTHS: &[u8] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 10, 12, 13, 16, 17, 20, 25, 31, 32, 33, 48, 63, 64,
];

/// Calls per sample, and samples of which the median counts.
const CALLS: usize = 2_000;
const SAMPLES: usize = 15;

/// An array that starts on a cache line, as blocks do.
#[repr(align(64))]
struct Aligned<T, const N: usize>([T; N]);

const PACKED_BYTES: usize = BLOCK_LEN * 8 + PAD_BYTES;

/// One block and all that the kernels read.
struct Input {
    width: u8,
    values: Box<Aligned<u64, BLOCK_LEN>>,
    packed: Box<Aligned<u8, PACKED_BYTES>>,
    half: Mask,
    /// One row in 50.
    few: Mask,
    bitmap: Vec<u64>,
    low: u64,
    high: u64,
    dictionary: Vec<u64>,
    codes: Vec<u32>,
}

/// All that the kernels write.
struct Output {
    u32s: Box<Aligned<u32, BLOCK_LEN>>,
    u64s: Box<Aligned<u64, BLOCK_LEN>>,
    gathered: Vec<u64>,
    packed: Box<Aligned<u8, PACKED_BYTES>>,
    mask: Mask,
    number: u128,
    extremes: Option<(u64, u64)>,
}

impl Output {
    fn new() -> Self {
        Self {
            u32s: Box::new(Aligned([0; _])),
            u64s: Box::new(Aligned([0; _])),
            gathered: Vec::new(),
            packed: Box::new(Aligned([0; _])),
            mask: Mask::none(),
            number: 0,
            extremes: None,
        }
    }

    /// Compresses keep what follows undefined.
    fn answer(&self, kept: usize) -> impl PartialEq + use<> {
        let (bytes, gathered) = (self.packed.0.to_vec(), self.gathered.clone());
        let (u32s, u64s) = (self.u32s.0[..kept].to_vec(), self.u64s.0[..kept].to_vec());
        let unpacked = (gathered, u32s, u64s);
        (bytes, unpacked, self.mask, self.number, self.extremes)
    }
}

struct Kernel {
    name: &'static str,
    widths: std::ops::RangeInclusive<u8>,
    run: fn(Kernels, &Input, &mut Output),
}

/// Kernels on packed codes, then kernels on slices, whose cost does not depend on a width.
const KERNELS: [Kernel; 14] = [
    Kernel {
        name: "pack",
        widths: 0..=64,
        run: |kernels, i, o| kernels.pack(&i.values.0, i.width, &mut o.packed.0),
    },
    Kernel {
        name: "unpack_u32",
        widths: 0..=32,
        run: |kernels, i, o| kernels.unpack_u32(&i.packed.0, i.width, &mut o.u32s.0),
    },
    Kernel {
        name: "unpack_u64",
        widths: 0..=64,
        run: |kernels, i, o| kernels.unpack_u64(&i.packed.0, i.width, &mut o.u64s.0),
    },
    Kernel {
        name: "unpack_selected_u32, half",
        widths: 0..=32,
        run: |kernels, i, o| {
            kernels.unpack_selected_u32(&i.packed.0, i.width, BLOCK_LEN, &i.half, &mut o.u32s.0);
        },
    },
    Kernel {
        name: "unpack_selected_u32, few",
        widths: 0..=32,
        run: |kernels, i, o| {
            kernels.unpack_selected_u32(&i.packed.0, i.width, BLOCK_LEN, &i.few, &mut o.u32s.0);
        },
    },
    Kernel {
        name: "select_between",
        widths: 0..=64,
        run: |kernels, i, o| {
            o.mask = Mask::all();
            kernels.select_between(&i.packed.0, i.width, BLOCK_LEN, i.low, i.high, &mut o.mask);
        },
    },
    Kernel {
        name: "select_in",
        widths: 0..=64,
        run: |kernels, i, o| {
            o.mask = Mask::all();
            kernels.select_in(&i.packed.0, i.width, BLOCK_LEN, &i.bitmap, &mut o.mask);
        },
    },
    Kernel {
        name: "sum",
        widths: 0..=64,
        run: |kernels, i, o| o.number = kernels.sum(&i.packed.0, i.width, BLOCK_LEN, None),
    },
    Kernel {
        name: "sum, half selected",
        widths: 0..=64,
        run: |kernels, i, o| {
            o.number = kernels.sum(&i.packed.0, i.width, BLOCK_LEN, Some(&i.half));
        },
    },
    Kernel {
        name: "min_max",
        widths: 0..=64,
        run: |kernels, i, o| o.extremes = kernels.min_max(&i.packed.0, i.width, BLOCK_LEN, None),
    },
    Kernel {
        name: "slice select_between_u64",
        widths: 64..=64,
        run: |kernels, i, o| {
            o.mask = Mask::all();
            kernels.select_between_u64(&i.values.0, i.low, i.high, &mut o.mask);
        },
    },
    Kernel {
        name: "slice compress_u64, half",
        widths: 64..=64,
        run: |kernels, i, o| {
            kernels.compress_u64(&i.values.0, &i.half, &mut o.u64s.0);
        },
    },
    Kernel {
        name: "slice min_max_u64",
        widths: 64..=64,
        run: |kernels, i, o| o.extremes = kernels.min_max_u64(&i.values.0),
    },
    Kernel {
        name: "slice gather u64",
        widths: 64..=64,
        run: |kernels, i, o| {
            o.gathered.clear();
            let gathered = kernels.gather(&i.dictionary, &i.codes, &mut o.gathered);
            gathered.expect("the dictionary has all codes of 12 bits");
        },
    },
];

fn input(width: u8) -> Input {
    let mut state = u64::from(width) + 1;
    let mut random = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        state ^ state >> 29
    };
    let values = Aligned(std::array::from_fn(|_| random() & max_code(width)));
    let mut packed = Aligned([0; PACKED_BYTES]);
    Kernels::best().pack(&values.0, width, &mut packed.0);
    let mut few = Mask::none();
    (0..BLOCK_LEN / 50).for_each(|_| few.set(random() as usize % BLOCK_LEN, true));
    let bitmap_words = (max_code(width) / 64 + 1).min(1 << 12);
    Input {
        width,
        values: Box::new(values),
        packed: Box::new(packed),
        half: Mask(std::array::from_fn(|_| random())),
        few,
        bitmap: (0..bitmap_words).map(|_| random()).collect(),
        low: max_code(width) / 4 + 1,
        high: max_code(width) / 4 * 3 + 1,
        dictionary: (0..1 << 12).map(|_| random()).collect(),
        codes: (0..BLOCK_LEN).map(|_| random() as u32 >> 20).collect(),
    }
}

/// Median nanoseconds per value.
fn measure(kernel: &Kernel, kernels: Kernels, input: &Input, output: &mut Output) -> f64 {
    let mut samples = [0.0; SAMPLES];
    for sample in &mut samples {
        let start = Instant::now();
        for _ in 0..CALLS {
            (kernel.run)(kernels, black_box(input), black_box(output));
        }
        *sample = start.elapsed().as_nanos() as f64 / (CALLS * BLOCK_LEN) as f64;
    }
    samples.sort_by(f64::total_cmp);
    samples[SAMPLES / 2]
}

fn main() {
    let asked: Vec<u8> = std::env::args()
        .skip(1)
        .filter_map(|width| width.parse().ok())
        .collect();
    let widths = if asked.is_empty() { WIDTHS } else { &asked };
    let levels: Vec<Kernels> = Level::available().filter_map(Kernels::at).collect();

    print!("{:<27}{:>5}", "ns per value", "width");
    levels
        .iter()
        .for_each(|kernels| print!("{:>9}", kernels.level()));
    println!();
    for kernel in &KERNELS {
        for &width in widths.iter().filter(|width| kernel.widths.contains(width)) {
            print!("{:<27}{width:>5}", kernel.name);
            let input = input(width);
            let kept = match kernel.name.rsplit_once(", ") {
                Some((_, "half")) => input.half.count(),
                Some((_, "few")) => input.few.count(),
                _ => BLOCK_LEN,
            };
            let mut expected = Output::new();
            (kernel.run)(levels[0], &input, &mut expected);
            for &kernels in &levels {
                let mut output = Output::new();
                (kernel.run)(kernels, &input, &mut output);
                let is_right = output.answer(kept) == expected.answer(kept);
                assert!(
                    is_right,
                    "{}, width {width}, {}",
                    kernel.name,
                    kernels.level()
                );
                print!("{:>9.4}", measure(kernel, kernels, &input, &mut output));
            }
            println!();
        }
    }
}
