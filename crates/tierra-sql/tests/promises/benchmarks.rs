//! SSB and TPC-H: every query's answer is DataFusion's own on the same Parquet files, row for row, whichever
//! executes the joins.

use std::fs::File;

use datafusion::prelude::ParquetReadOptions;
use parquet::arrow::ArrowWriter;
use tierra_data::{Part, Scale, Source, ssb, tpch};
use tierra_sql::load::{LoadOptions, load_file};

use crate::joins;
use crate::twins::Twins;

/// Both read the same Parquet file; Tierra's rows are packed.
async fn add<S: Source>(twins: &Twins, table: S, scale: Scale) {
    let path = twins.dir.path().join(format!("{}.parquet", table.name()));
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, table.schema(), None).unwrap();
    for batch in table.generate(scale, Part::WHOLE, 8192) {
        writer.write(&batch).unwrap();
    }
    writer.close().unwrap();
    let name = path.to_str().unwrap();
    let options = ParquetReadOptions::default();
    let peer = &twins.peer;
    peer.register_parquet(table.name(), name, options)
        .await
        .unwrap();
    let database = twins.tierra.database();
    load_file(database, table.name(), &path, &LoadOptions::default()).unwrap();
    database.table(table.name()).unwrap().seal().unwrap();
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
    twins.tierra.execute(joins::ALL).await.unwrap();
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
    twins.tierra.execute(joins::ALL).await.unwrap();
    for (name, sql) in &tpch::QUERIES {
        twins.compare(name, sql).await;
    }
}
