//! The numbers of the placement study (Antão, Barreto, Lourenço: "A Study of Latency-Aware Data-Placement in Heterogeneous
//! (PMEM) Memory Systems"), as rows beside ours: TieredMemDB, 10 million records, on an Intel Optane machine.
//!
//! Its figures are pictures; these are the numbers of its text. Values computed from them are marked.

use crate::row::Row;

/// The store of these values.
pub(super) const PAPER: &str = "TieredMemDB (paper)";

/// Section 4.2: records, each of 10 fields of 100 bytes: "in total 10 GB".
const RECORDS: f64 = 1e7;
const RECORDS_BYTES: f64 = 1e10;
/// Section 4.3: DRAM with a threshold of 32 bytes over that with 16.
const DRAM_32_OVER_16: f64 = 1.7;
/// DRAM with 104 over that with 64 or 32.
const DRAM_104_OVER_64: f64 = 1.1;
/// DRAM with 105, which places all records there, over that with 104; the difference is "about 10 GB".
const DRAM_105_OVER_104: f64 = 2.4;
/// Section 4.3, for reads (R) and inserts (I): throughput in DRAM over that in PMEM, and latency in PMEM over that in
/// DRAM.
const DRAM_OVER_PMEM: [(&str, f64, f64); 2] = [("R", 1.3, 1.5), ("I", 2.0, 2.0)];
/// The largest allocation of a record in its store: with a threshold one byte larger, everything is in DRAM.
pub(super) const LARGEST_ALLOCATION_BYTES: u64 = 104;

/// The share of memory that is DRAM, by threshold, computed from the stated factors; with threshold 105 everything is in DRAM.
pub(super) fn threshold_shares() -> Vec<Row> {
    let before = 1.0 / DRAM_105_OVER_104;
    let small = before / DRAM_104_OVER_64;
    let shares = [
        ("16 B", small / DRAM_32_OVER_16),
        ("32 B", small),
        ("64 B", small),
        ("a field's size", before),
        ("a byte more", 1.0),
    ];
    let row = |(threshold, share)| {
        Row::new()
            .text("threshold", threshold)
            .text("store", PAPER)
            .text(
                "from",
                "computed from the factors 1.7, 1.1 and 2.4 of section 4.3",
            )
            .number("near_share", share)
    };
    shares.into_iter().map(row).collect()
}

/// The time of reads and of inserts in PMEM over that in DRAM.
pub(super) fn far_over_near(key: &str) -> Vec<Row> {
    let row = |(workload, time, latency)| {
        Row::new()
            .text("workload", workload)
            .text(key, format!("{PAPER}: PMEM"))
            .text("from", "section 4.3, throughput in DRAM over PMEM")
            .number("time_over_near", time)
            .number("latency_over_near", latency)
    };
    DRAM_OVER_PMEM.map(row).to_vec()
}

/// Bytes of memory per record: DRAM is 10 GB less, a factor of 2.4, if fields are in PMEM.
pub(super) fn bytes_per_record() -> Row {
    let all = RECORDS_BYTES / (1.0 - 1.0 / DRAM_105_OVER_104);
    Row::new()
        .text("store", PAPER)
        .text("records", "10000000")
        .text(
            "from",
            "computed from 10 GB and the factor 2.4 of section 4.3",
        )
        .number("record_bytes", all / RECORDS)
}

/// The requested ratios (section 4.3): parts of DRAM and of PMEM, and DRAM's share in percent.
pub(super) const RATIOS: [(u32, u32, &str); 7] = [
    (1, 5, "17 %"),
    (1, 3, "25 %"),
    (1, 2, "33 %"),
    (1, 1, "50 %"),
    (2, 1, "67 %"),
    (3, 1, "75 %"),
    (5, 1, "83 %"),
];
