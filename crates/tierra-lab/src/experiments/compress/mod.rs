//! Figures 3.12 to 3.14 and table 3.3 of the replication thesis: what compressing integers saves and costs, near and far.
//!
//! The four data sets of the thesis, encoded and decoded by every encoding of Tierra and by the crates beside it. Values, encoded
//! bytes and decoded values lie in the same kind of memory, as in the thesis. Tierra's side is that of a table: chunks with their
//! statistics, sketches and checksums. Encoding, all sides write to the place of the encoded bytes; decoding, all hand over a few
//! thousand values at a time in memory of their own, which are copied to the place of the decoded ones. In far memory, which is
//! emulated with the bandwidth of the cores in use, what is written is durable, and what is read is waited for.
//!
//! Speeds are judged only in a build for the widest vectors of the CPU, which some crates leave to the compiler.
//!
//! Values are cut into pieces of a chunk, which threads share. LZ4's most thorough mode takes minutes for all of them: it has
//! fewer pieces. Packing alone is measured width by width, against the crates that pack.

mod data;
mod derived;
mod tierra;
mod widths;

use std::sync::Barrier;
use std::time::Instant;

use arrow::buffer::ScalarBuffer;
use tierra_column::Encoding;
use tierra_memory::emulation::{FarMemory, begin_read, count_as_far};
use tierra_memory::{Region, persist};

use self::data::DataSet;
use self::widths::{PACK, Packer, Place, UNPACK};
use super::{Experiment, Measured};
use crate::bar::Bar;
use crate::error::{Context, LabError};
use crate::lab::{self, Lab, SEED, ScaleOption};
use crate::memory;
use crate::peers::codecs::{
    BATCH, Bp128, Bp128Sorted, Codec, FastLanes, FastPfor, Lz4, Lz4Mode, Snap,
};
use crate::peers::fastlanes::Lanes;
use crate::pin;
use crate::progress;
use crate::random::Random;
use crate::results::Tier;
use crate::row::{Row, find};
use crate::turns::turns;
use crate::view::{Unit, View};

/// Memory as so many threads see it.
type Seen = fn(usize) -> Option<FarMemory>;

/// Near memory is real, far memory is Optane with the bandwidth of as many cores as threads run.
const MEMORIES: [(&str, Seen); 2] = [
    ("near", |_| None),
    ("emulated optane", |threads| Some(memory::optane(threads))),
];
/// The lengths of blocks, which LZ4 and Snappy compress one by one in Tierra.
const PIECE: usize = tierra_column::bits::BLOCK_LEN;
/// Pieces of slow contenders.
const FEW_PIECES: usize = 4;
/// What is no decoded value: below zero.
const NOT_DECODED: u8 = 0xA5;
/// The key of whether the compiler could use all vectors that the CPU has, and its values.
const BUILT: &str = "built for the widest vectors of this CPU";
const YES: &str = "yes";
const NO: &str = "no";

/// The experiment.
pub(super) struct Compress;

/// Who encodes.
#[derive(Clone, Copy)]
enum Contender {
    Tierra(Encoding),
    Peer(&'static dyn Codec),
}

const LZ4: Lz4 = Lz4 {
    mode: Lz4Mode::Default,
    piece: PIECE,
};
const LZ4_FAST: Lz4 = Lz4 {
    mode: Lz4Mode::Fast(8),
    piece: PIECE,
};
const LZ4_HIGH: Lz4 = Lz4 {
    mode: Lz4Mode::High(12),
    piece: PIECE,
};
/// As in the thesis: all bytes as one.
const LZ4_WHOLE: Lz4 = Lz4 {
    mode: Lz4Mode::Default,
    piece: tierra::PIECE,
};
const SNAP: Snap = Snap { piece: PIECE };

/// The encodings of Tierra.
const OURS: [Encoding; 11] = [
    Encoding::Static,
    Encoding::Dynamic,
    Encoding::Dynamic128,
    Encoding::FastPfor,
    Encoding::FrameOfReference,
    Encoding::Delta,
    Encoding::Rle,
    Encoding::Lz4,
    Encoding::Lz4Fast,
    Encoding::Lz4High,
    Encoding::Snappy,
];

/// What does the same as one of them.
const PEERS: [(Encoding, &dyn Codec); 11] = [
    (Encoding::Static, &FastLanes),
    (Encoding::Dynamic128, &Bp128),
    (Encoding::FastPfor, &FastPfor),
    (Encoding::FrameOfReference, &Lanes::FrameOfReference),
    (Encoding::Delta, &Lanes::Differences),
    (Encoding::Delta, &Bp128Sorted),
    (Encoding::Rle, &Lanes::Runs),
    (Encoding::Lz4, &LZ4),
    (Encoding::Lz4Fast, &LZ4_FAST),
    (Encoding::Lz4High, &LZ4_HIGH),
    (Encoding::Snappy, &SNAP),
];

/// Whether a codec takes a data set.
fn takes(codec: &dyn Codec, set: DataSet) -> bool {
    set.is_sorted() || !codec.needs_order()
}

impl Contender {
    /// Those that take a data set.
    fn all(set: DataSet) -> Vec<Contender> {
        let ours = OURS.into_iter().map(Contender::Tierra);
        let theirs = PEERS.into_iter().map(|(_, theirs)| theirs);
        let whole: &'static dyn Codec = &LZ4_WHOLE;
        let theirs = theirs.chain([whole]).filter(|codec| takes(*codec, set));
        ours.chain(theirs.map(Contender::Peer)).collect()
    }

    fn name(self) -> String {
        match self {
            Contender::Tierra(encoding) => tierra::name(encoding),
            Contender::Peer(codec) => codec.name(),
        }
    }

    /// Whether it takes fewer pieces.
    fn is_slow(self) -> bool {
        matches!(self, Contender::Tierra(Encoding::Lz4High)) || self.name() == LZ4_HIGH.name()
    }

    fn most_bytes(self, values: usize) -> usize {
        match self {
            Contender::Tierra(_) => values * 5 + (1 << 16),
            Contender::Peer(codec) => codec.most_bytes(values),
        }
    }
}

/// What is written where; a place for each piece.
struct Arrays {
    values: ScalarBuffer<i32>,
    encoded: Region,
    decoded: Region,
    /// Bytes of a place of an encoded piece.
    place_bytes: usize,
}

impl Arrays {
    fn new(values: Vec<i32>, place_bytes: usize) -> Result<Arrays, LabError> {
        let region = |bytes: usize| {
            let mut region = Region::near(bytes).by("the lab", "reserving memory")?;
            region.populate().by("the lab", "reserving memory")?;
            Ok::<_, LabError>(region)
        };
        let pieces = values.len().div_ceil(tierra::PIECE);
        Ok(Arrays {
            encoded: region(pieces * place_bytes)?,
            decoded: region(pieces * tierra::PIECE * 4)?,
            values: values.into(),
            place_bytes,
        })
    }

    fn pieces(&self) -> usize {
        self.values.len().div_ceil(tierra::PIECE)
    }

    fn piece(&self, piece: usize) -> ScalarBuffer<i32> {
        let first = piece * tierra::PIECE;
        let len = tierra::PIECE.min(self.values.len() - first);
        self.values.slice(first, len)
    }
}

/// Runs `work` on the pieces, a share for each thread, and returns the time until all are done.
fn in_threads<T: Send>(
    threads: usize,
    pieces: Vec<T>,
    work: impl Fn(T) -> Result<(), LabError> + Sync,
) -> Result<u64, LabError> {
    let mut shares: Vec<Vec<T>> = (0..threads).map(|_| Vec::new()).collect();
    for (number, piece) in pieces.into_iter().enumerate() {
        shares[number % threads].push(piece);
    }
    let start = Barrier::new(threads);
    let times: Vec<Result<u64, LabError>> = std::thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let running: Vec<_> = shares
            .into_iter()
            .enumerate()
            .map(|(number, share)| {
                scope.spawn(move || {
                    pin::to_cpu(number);
                    start.wait();
                    let started = Instant::now();
                    share.into_iter().try_for_each(work)?;
                    Ok(started.elapsed().as_nanos() as u64)
                })
            })
            .collect();
        let ended = running.into_iter().map(|thread| thread.join());
        ended
            .map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    times
        .into_iter()
        .try_fold(0, |most, time| Ok(most.max(time?)))
}

/// Encodes the first pieces; returns their lengths and the time.
fn encode(
    contender: Contender,
    arrays: &mut Arrays,
    pieces: usize,
    threads: usize,
) -> Result<(Vec<usize>, u64), LabError> {
    let mut lens = vec![0; pieces];
    let values: Vec<_> = (0..pieces).map(|piece| arrays.piece(piece)).collect();
    let places = arrays.encoded.chunks_exact_mut(arrays.place_bytes);
    let work = values.into_iter().zip(places).zip(&mut lens).collect();
    let time = in_threads(threads, work, |((values, place), len)| {
        // All of a piece is waited for at once: later passes over it find it in the cache.
        drop(begin_read(bytes_of(&values)));
        *len = match contender {
            Contender::Tierra(encoding) => tierra::encode(encoding, values, place)?,
            Contender::Peer(codec) => codec.encode(&values, place)?,
        };
        if tierra_memory::emulation::is_on() {
            persist::persist(&place[..*len]);
        }
        Ok(())
    })?;
    Ok((lens, time))
}

/// Decodes as many pieces as there are lengths.
fn decode(
    contender: Contender,
    arrays: &mut Arrays,
    lens: &[usize],
    threads: usize,
) -> Result<u64, LabError> {
    let counts: Vec<usize> = (0..lens.len())
        .map(|piece| arrays.piece(piece).len())
        .collect();
    let encoded = arrays.encoded.chunks_exact(arrays.place_bytes);
    let places = arrays.decoded.chunks_exact_mut(tierra::PIECE * 4);
    let work = encoded.zip(places).zip(lens.iter().zip(counts)).collect();
    in_threads(threads, work, |((encoded, place), (&len, count))| {
        let is_far = tierra_memory::emulation::is_on();
        let encoded = &encoded[..len];
        let (mut rest, mut read) = (place, 0);
        let batches = count.div_ceil(BATCH);
        let mut take = |values: &[i32]| {
            // What the next values are decoded from is waited for as they are.
            let until = (read + len / batches).min(len);
            drop(begin_read(&encoded[read..until]));
            read = until;
            let bytes: &[u8] = zerocopy::IntoBytes::as_bytes(values);
            let (here, behind) = std::mem::take(&mut rest).split_at_mut(bytes.len());
            match is_far {
                true => persist::copy_nontemporal(here, bytes),
                false => here.copy_from_slice(bytes),
            }
            rest = behind;
            Ok(())
        };
        match contender {
            Contender::Tierra(_) => tierra::decode(encoded, &mut take),
            Contender::Peer(codec) => codec.decode(encoded, count, &mut take),
        }
    })
}

fn bytes_of(values: &[i32]) -> &[u8] {
    zerocopy::IntoBytes::as_bytes(values)
}

/// The decoded values must be those encoded.
fn check(contender: Contender, arrays: &Arrays, pieces: usize) -> Result<(), LabError> {
    let places = arrays.decoded.chunks_exact(tierra::PIECE * 4);
    for (piece, place) in places.take(pieces).enumerate() {
        let values = arrays.piece(piece);
        let bytes = bytes_of(&values);
        if place[..bytes.len()] != *bytes {
            return Err(LabError::WrongAnswer {
                who: contender.name(),
                what: format!("decoded values of piece {piece} differ from those encoded"),
            });
        }
    }
    Ok(())
}

/// The key that names a panel's contenders.
fn panel(direction: &str, memory: &str) -> String {
    format!("{direction}, {memory}")
}

const ENCODE: &str = "encode";
const DECODE: &str = "decode";

/// All contenders on a data set in a memory, by that many threads.
fn measure(
    set: DataSet,
    arrays: &mut Arrays,
    memory: &str,
    threads: usize,
    rounds: usize,
) -> Result<Vec<Row>, LabError> {
    let contenders = Contender::all(set);
    let mut samples = vec![[Vec::new(), Vec::new()]; contenders.len()];
    let mut bytes = vec![0; contenders.len()];
    let pieces = |contender: Contender| match contender.is_slow() {
        true => arrays.pieces().min(FEW_PIECES),
        false => arrays.pieces(),
    };
    let pieces: Vec<usize> = contenders.iter().map(|&it| pieces(it)).collect();
    for turn in turns(contenders.len(), rounds) {
        let (contender, pieces) = (contenders[turn.contender], pieces[turn.contender]);
        let (lens, encode_ns) = encode(contender, arrays, pieces, threads)?;
        // Not what another contender decoded.
        arrays.decoded[..pieces * tierra::PIECE * 4].fill(NOT_DECODED);
        let decode_ns = decode(contender, arrays, &lens, threads)?;
        check(contender, arrays, pieces)?;
        if turn.is_warm_up() {
            bytes[turn.contender] = lens.iter().sum();
        } else {
            let [encodes, decodes] = &mut samples[turn.contender];
            encodes.push(encode_ns);
            decodes.push(decode_ns);
        }
    }
    let mut rows = Vec::new();
    for (number, samples) in samples.into_iter().enumerate() {
        let name = contenders[number].name();
        let values: usize = (0..pieces[number])
            .map(|piece| arrays.piece(piece).len())
            .sum();
        let rate = bytes[number] as f64 / (values * 4) as f64;
        for (direction, samples) in [ENCODE, DECODE].into_iter().zip(samples) {
            let row = Row::new()
                .text(&panel(direction, memory), &name)
                .text("data", set.name())
                .text("threads", threads.to_string())
                .text(
                    "data_and_threads",
                    format!("{}, threads: {threads}", set.name()),
                )
                .count("values", values as u64)
                .count("encoded_bytes", bytes[number] as u64)
                .number("rate", rate)
                .samples("time", "ns", samples);
            let per_second = row
                .value("time_ns")
                .map_or(f64::NAN, |ns| values as f64 / ns * 1e9);
            let gib_per_s = per_second * 4.0 / f64::from(1 << 30);
            let row = row
                .number("values_per_s", per_second)
                .number("gib_per_s", gib_per_s);
            rows.push(match (memory, threads, direction) {
                // Of every memory, number of threads and direction the same.
                ("near", 1, ENCODE) => row.text("codec", &name),
                _ => row,
            });
        }
    }
    Ok(rows)
}

impl Experiment for Compress {
    fn name(&self) -> &'static str {
        "compress"
    }

    fn about(&self) -> &'static str {
        "what does compressing integers save and cost, near and far, beside the crates that do nothing else?"
    }

    fn heeds(&self) -> &'static [ScaleOption] {
        &[ScaleOption::Records, ScaleOption::Runs]
    }

    fn run(&self, lab: &Lab) -> Result<Measured, LabError> {
        // Larger than the caches; the thesis has 100 million.
        let count = lab.records(1 << 17, 1 << 25) as usize;
        let rounds = lab.runs(1, 3);
        let is_built = is_built_for_this_cpu();
        if !is_built {
            println!(
                "The crate fastlanes is not at its best, so speeds meet no bars: build the lab with RUSTFLAGS=\"-C target-cpu=native\"."
            );
        }
        // Sorted values are taken by all.
        let place_bytes = Contender::all(DataSet::D3)
            .into_iter()
            .map(|contender| contender.most_bytes(tierra::PIECE))
            .max()
            .unwrap_or(0)
            .next_multiple_of(4096);
        let mut rows = vec![Row::new().text(BUILT, if is_built { YES } else { NO })];
        let threads_most = std::thread::available_parallelism().map_or(1, |it| it.get());
        let threads = [1, lab::threads()]
            .into_iter()
            .filter(|&it| it <= threads_most);
        let threads: Vec<usize> = threads.collect();
        let steps = DataSet::ALL.len() * MEMORIES.len() * threads.len();
        let bar = progress::bar("data sets", steps);
        for (number, set) in DataSet::ALL.into_iter().enumerate() {
            let mut random = Random::new(SEED + number as u64);
            let mut arrays = Arrays::new(set.values(count, &mut random), place_bytes)?;
            let far = [
                count_as_far(&arrays.values[..]),
                count_as_far(&arrays.encoded[..]),
                count_as_far(&arrays.decoded[..]),
            ];
            for (memory, seen) in MEMORIES {
                for &threads in &threads {
                    rows.extend(memory::during(seen(threads), || {
                        measure(set, &mut arrays, memory, threads, rounds)
                    })?);
                    bar.inc(1);
                }
            }
            drop(far);
        }
        bar.finish_and_clear();
        rows.extend(derived::rows(&rows));
        rows.extend(widths::measure(lab)?);
        let parameters = Row::new()
            .count("values", count as u64)
            .count("rounds", rounds as u64)
            .count("values_of_a_piece", tierra::PIECE as u64)
            .flag("built_for_avx2", cfg!(target_feature = "avx2"))
            .flag("built_for_avx512", cfg!(target_feature = "avx512bw"));
        Ok(Measured {
            tier: Tier::Emulated,
            parameters,
            rows,
        })
    }

    fn bars(&self, rows: &[Row]) -> Vec<Bar> {
        // The crates that leave vectors to the compiler would be slower than they are.
        let is_built = find(rows, &[(BUILT, YES)]).is_some();
        let mut bars = Vec::new();
        for place in Place::ALL {
            for direction in [PACK, UNPACK] {
                for ours in Packer::OURS {
                    let bar = match place {
                        Place::Cache => 0.8,
                        Place::Memory => 1.0,
                    };
                    bars.push(Bar::at_least(
                        format!(
                            "compress: {direction} {}, {}: speed over the faster of bitpacking and fastlanes, worst width",
                            place.name(),
                            ours.name()
                        ),
                        bar,
                        worst_width(rows, direction, place, ours).filter(|_| is_built),
                    ));
                }
            }
        }
        for (ours, theirs) in PEERS {
            // Packing alone is measured width by width. That does not choose widths, as dynamic packing has to.
            if ours == Encoding::Static {
                continue;
            }
            for direction in [ENCODE, DECODE] {
                bars.push(Bar::at_least(
                    format!(
                        "compress: {direction}, {ours}, near: speed over {}, worst data set",
                        theirs.name()
                    ),
                    1.0,
                    worst_of_data(rows, ours, theirs, |our, their| {
                        let speed = |row: &Row| {
                            let key = panel(direction, "near");
                            let name = row.get("codec")?.to_string();
                            let data = row.get("data")?.to_string();
                            let identity = [
                                (key.as_str(), name.as_str()),
                                ("data", &data),
                                ("threads", "1"),
                            ];
                            find(rows, &identity)?.value("values_per_s")
                        };
                        Some(speed(our)? / speed(their)?)
                    })
                    .filter(|_| is_built),
                ));
            }
            bars.push(Bar::at_least(
                format!(
                    "compress: {ours}: bytes of {} over its own, worst data set",
                    theirs.name()
                ),
                0.98,
                worst_of_data(rows, ours, theirs, |our, their| {
                    Some(their.value("rate")? / our.value("rate")?)
                }),
            ));
        }
        bars
    }

    fn views(&self) -> &'static [View] {
        &VIEWS
    }

    fn paper(&self) -> Vec<Row> {
        derived::paper()
    }
}

/// Whether the compiler could use the widest vectors of this CPU. Tierra and some crates choose them while they run, others do not.
#[cfg(target_arch = "x86_64")]
fn is_built_for_this_cpu() -> bool {
    if is_x86_feature_detected!("avx512bw") {
        cfg!(target_feature = "avx512bw")
    } else {
        cfg!(target_feature = "avx2") || !is_x86_feature_detected!("avx2")
    }
}

/// Other processors' vectors are of one width.
#[cfg(not(target_arch = "x86_64"))]
fn is_built_for_this_cpu() -> bool {
    true
}

/// The speed of ours over that of the faster peer at the width where that is least; `None` unless every width was measured.
fn worst_width(rows: &[Row], direction: &str, place: Place, ours: Packer) -> Option<f64> {
    let key = widths::panel(direction, place);
    let time = |packer: Packer, width: u8| {
        let identity = [(key.as_str(), packer.name()), ("width", &width.to_string())];
        find(rows, &identity)?.value("time_ns")
    };
    let ratio = |width: u8| {
        let [one, other] = Packer::PEERS.map(|peer| time(peer, width));
        Some(one?.min(other?) / time(ours, width)?)
    };
    let ratios: Option<Vec<f64>> = (1..=32).map(ratio).collect();
    ratios?.into_iter().reduce(f64::min)
}

/// The least of a ratio over the data sets that the peer takes, of the rows that tell rates; `None` unless all were measured.
fn worst_of_data(
    rows: &[Row],
    ours: Encoding,
    theirs: &dyn Codec,
    ratio: impl Fn(&Row, &Row) -> Option<f64>,
) -> Option<f64> {
    let of = |name: &str, set: DataSet| find(rows, &[("codec", name), ("data", set.name())]);
    let sets = DataSet::ALL.into_iter().filter(|set| takes(theirs, *set));
    let ratios = sets.map(|set| ratio(of(&tierra::name(ours), set)?, of(&theirs.name(), set)?));
    let ratios: Option<Vec<f64>> = ratios.collect();
    ratios?.into_iter().reduce(f64::min)
}

const fn widths_view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "width",
        series,
        value: "time_ns",
        per: Some("values"),
        unit: Unit::Nanoseconds,
        mean: false,
    }
}

const fn speed_view(title: &'static str, series: &'static str) -> View {
    View {
        title,
        category: "data_and_threads",
        series,
        value: "values_per_s",
        per: None,
        unit: Unit::PerSecond,
        mean: false,
    }
}

const VIEWS: [View; 11] = [
    View {
        title: "encoded bytes over those of the values",
        category: "data",
        series: "codec",
        value: "rate",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    speed_view("values encoded, near", "encode, near"),
    speed_view("values decoded, near", "decode, near"),
    speed_view("values encoded, far", "encode, emulated optane"),
    speed_view("values decoded, far", "decode, emulated optane"),
    View {
        title: "values encoded a second over BP128's",
        category: "encoding",
        series: derived::RELATIVE,
        value: "relative_speed",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    View {
        title: "speed of several threads over one's",
        category: "of",
        series: derived::SPEEDUP,
        value: "speedup",
        per: None,
        unit: Unit::Ratio,
        mean: false,
    },
    widths_view("time of packing a value in the cache", "pack, in the cache"),
    widths_view(
        "time of unpacking a value in the cache",
        "unpack, in the cache",
    ),
    widths_view("time of packing a value from memory", "pack, from memory"),
    widths_view(
        "time of unpacking a value from memory",
        "unpack, from memory",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_take_the_worst_width_and_want_them_all() {
        let mut rows = Vec::new();
        for width in 1..=32_u64 {
            for (packer, ns) in [
                (Packer::Static, 10 + width),
                (Packer::Bitpacking, 100),
                (Packer::FastLanes, 21),
            ] {
                rows.push(
                    Row::new()
                        .text(&widths::panel(PACK, Place::Cache), packer.name())
                        .text("width", width.to_string())
                        .samples("time", "ns", vec![ns]),
                );
            }
        }
        let worst = |rows: &[Row]| worst_width(rows, PACK, Place::Cache, Packer::Static);
        assert_eq!(worst(&rows), Some(0.5));
        assert_eq!(worst(&rows[1..]), None);
    }

    #[test]
    fn speeds_meet_bars_in_a_build_for_the_cpu_and_bytes_in_any() {
        let mut rows = Vec::new();
        for set in DataSet::ALL {
            for contender in Contender::all(set) {
                for direction in [ENCODE, DECODE] {
                    let row = Row::new()
                        .text(&panel(direction, "near"), contender.name())
                        .text("data", set.name())
                        .text("threads", "1")
                        .number("rate", 0.5)
                        .number("values_per_s", 1e9);
                    rows.push(match direction {
                        ENCODE => row.text("codec", contender.name()),
                        _ => row,
                    });
                }
            }
        }
        // Packing alone is not among these rows.
        let met = |rows: &[Row]| {
            let bars = Compress.bars(rows);
            let met = bars.iter().filter(|bar| bar.met).count();
            (met, bars.len() - Place::ALL.len() * 2 * Packer::OURS.len())
        };
        let built = |text: &str| Row::new().text(BUILT, text);
        let of_peers = 3 * (PEERS.len() - 1);
        rows.push(built(YES));
        assert_eq!(met(&rows), (of_peers, of_peers));
        rows.pop();
        rows.push(built(NO));
        assert_eq!(met(&rows), (PEERS.len() - 1, of_peers));
    }
}
