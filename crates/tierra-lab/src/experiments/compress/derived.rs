//! What the thesis states of its measurements, computed from ours: speeds relative to BP128 (figure 3.13), and speed-ups by
//! threads (table 3.3).

use tierra_column::Encoding;

use super::data::DataSet;
use super::{DECODE, ENCODE, LZ4_WHOLE, MEMORIES, panel, tierra};
use crate::lab;
use crate::peers::codecs::{Bp128, Codec};
use crate::row::{Row, find};

pub(super) const RELATIVE: &str = "speed over BP128's";
pub(super) const SPEEDUP: &str = "speed-up by threads";
const PAPER: &str = "thesis";

/// The values encoded or decoded a second.
fn speed(
    rows: &[Row],
    name: &str,
    direction: &str,
    memory: &str,
    set: DataSet,
    threads: usize,
) -> Option<f64> {
    let identity = [
        (&*panel(direction, memory), name),
        ("data", set.name()),
        ("threads", &threads.to_string()),
    ];
    find(rows, &identity)?.value("values_per_s")
}

/// What is compared with BP128 in the thesis: its data set, and what the thesis states of DRAM and Optane.
const STATED: [(Encoding, DataSet, [f64; 2]); 2] = [
    (Encoding::FrameOfReference, DataSet::D2, [0.87, 1.72]),
    (Encoding::FastPfor, DataSet::D4, [0.35, 1.04]),
];

/// Rows of both, computed from the measured ones.
pub(super) fn rows(measured: &[Row]) -> Vec<Row> {
    let mut rows = Vec::new();
    let bp128 = tierra::name(Encoding::Dynamic128);
    for (memory, _) in MEMORIES {
        for (encoding, set, _) in STATED {
            let of = |name: &str| speed(measured, name, ENCODE, memory, set, 1);
            let ratio = of(&tierra::name(encoding)).zip(of(&bp128));
            rows.push(relative(
                "Tierra",
                encoding,
                set,
                memory,
                ratio.map(|(a, b)| a / b),
            ));
        }
        let contenders = [
            bp128.clone(),
            tierra::name(Encoding::Lz4),
            Bp128.name(),
            LZ4_WHOLE.name(),
        ];
        for name in contenders {
            for direction in [ENCODE, DECODE] {
                for set in [DataSet::D1, DataSet::D3] {
                    let of = |threads| speed(measured, &name, direction, memory, set, threads);
                    let ratio = of(lab::threads()).zip(of(1)).map(|(many, one)| many / one);
                    let series = format!("{name}, {} threads", lab::threads());
                    rows.push(speedup(&series, direction, set, memory, ratio));
                }
            }
        }
    }
    rows
}

/// Rows of both as the thesis states them; its speed-ups are the best of 1 to 24 threads.
pub(super) fn paper() -> Vec<Row> {
    let mut rows = Vec::new();
    for (encoding, set, stated) in STATED {
        for ((memory, _), ratio) in MEMORIES.into_iter().zip(stated) {
            rows.push(relative(PAPER, encoding, set, memory, Some(ratio)));
        }
    }
    let table = [
        ("BP128", [[11.5, 7.0, 5.3, 6.0], [3.7, 2.1, 1.2, 1.4]]),
        ("LZ4", [[18.5, 11.9, 14.0, 6.7], [11.2, 9.5, 1.8, 1.2]]),
    ];
    for (name, of_memories) in table {
        for ((memory, _), stated) in MEMORIES.into_iter().zip(of_memories) {
            let of = [ENCODE, DECODE].map(|it| [(it, DataSet::D1), (it, DataSet::D3)]);
            for ((direction, set), ratio) in of.into_iter().flatten().zip(stated) {
                let series = format!("{name}, up to 24 threads ({PAPER})");
                rows.push(speedup(&series, direction, set, memory, Some(ratio)));
            }
        }
    }
    rows
}

fn relative(who: &str, encoding: Encoding, set: DataSet, memory: &str, ratio: Option<f64>) -> Row {
    Row::new()
        .text(RELATIVE, who)
        .text("encoding", format!("{encoding}, {}, {memory}", set.name()))
        .number("relative_speed", ratio.unwrap_or(f64::NAN))
}

fn speedup(series: &str, direction: &str, set: DataSet, memory: &str, ratio: Option<f64>) -> Row {
    Row::new()
        .text(SPEEDUP, series)
        .text("of", format!("{direction}, {}, {memory}", set.name()))
        .number("speedup", ratio.unwrap_or(f64::NAN))
}
