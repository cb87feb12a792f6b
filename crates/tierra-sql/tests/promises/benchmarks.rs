//! SSB and TPC-H: every query's answer is DataFusion's own on the same rows, row for row.

use tierra_data::{Part, Scale, Source, ssb, tpch};

use crate::twins::Twins;

async fn add<S: Source>(twins: &Twins, table: S, scale: Scale) {
    let batches: Vec<_> = table.generate(scale, Part::WHOLE, 8192).collect();
    twins.add(table.name(), &table.schema(), &batches);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ssb_answers_are_datafusions() {
    let twins = Twins::new();
    let scale = Scale::new(0.01).unwrap();
    for table in ssb::Table::ALL {
        add(&twins, table, scale).await;
    }
    for query in &ssb::QUERIES {
        twins.compare(query.name, query.sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_answers_are_datafusions() {
    let twins = Twins::new();
    let scale = Scale::new(0.01).unwrap();
    for table in tpch::Table::ALL {
        add(&twins, table, scale).await;
    }
    for (name, sql) in &tpch::QUERIES {
        twins.compare(name, sql).await;
    }
}
