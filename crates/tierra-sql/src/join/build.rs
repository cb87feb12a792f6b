//! The build side of a join: its rows, the table of their keys, and the marks of rows that have matched.
//!
//! It is collected once per execution, by the probing partition that is polled first; the others wait for it. Memory is
//! reserved from the session's pool before it is used.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::resources_datafusion_err;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use futures::StreamExt;
use tierra_index::{JoinMatch, JoinTable};
use tierra_interleave::{Cx, GroupReport, Lookups, Scheduling, for_each, map_into};
use tierra_memory::{MemoryGate, in_mode};

use super::keys::{JoinKeys, rows_with_key};

/// The table of a build side's keys, and the state to look keys up in it.
pub(super) struct BuildTable {
    table: JoinTable,
    keys: JoinKeys,
    gate: MemoryGate,
    scheduling: Scheduling,
}

/// Buffers of lookups, reused from batch to batch.
#[derive(Default)]
pub(super) struct Scratch {
    numbers: Vec<u64>,
    with_key: Vec<usize>,
}

impl BuildTable {
    pub(super) fn table(&self) -> &JoinTable {
        &self.table
    }

    pub(super) fn keys(&self) -> JoinKeys {
        self.keys
    }

    /// Looks up the key of each row: `matches` gets one match per row.
    pub(super) fn find(
        &self,
        columns: &[ArrayRef],
        scratch: &mut Scratch,
        matches: &mut Vec<JoinMatch>,
    ) -> Result<GroupReport> {
        let rows = columns.first().map_or(0, |column| column.len());
        let Scratch { numbers, with_key } = scratch;
        numbers.resize(rows, 0);
        self.keys.numbers(columns, numbers)?;
        matches.clear();
        matches.resize(rows, JoinMatch::default());
        let mut lookups = Lookups::new(self.scheduling);
        let table = &self.table;
        match rows_with_key(columns) {
            None => lookups.run(self.gate.now(), rows, |execution, size, part| {
                let matches = &mut matches[part.clone()];
                in_mode!(execution, M => map_into(
                    size,
                    &numbers[part],
                    |cx: Cx<M>, number| table.find(cx, *number),
                    matches,
                ))
            }),
            Some(nulls) => {
                with_key.clear();
                with_key.extend(nulls.valid_indices());
                lookups.run(self.gate.now(), with_key.len(), |execution, size, part| {
                    let rows = &with_key[part];
                    in_mode!(execution, M => for_each(
                        size,
                        rows,
                        |cx: Cx<M>, row| table.find(cx, numbers[*row]),
                        |place, found| matches[rows[place]] = found,
                    ))
                });
            }
        }
        Ok(lookups.report())
    }
}

/// One bit per row of the build side, set if the row has matched. All probing partitions set bits.
struct Matched(Vec<AtomicU64>);

impl Matched {
    fn none_of(rows: usize) -> Self {
        Self((0..rows.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }
}

/// A build side, ready to be probed.
pub(super) struct BuildSide {
    batch: RecordBatch,
    /// The columns of the key, in the order of the join's conditions.
    key_columns: Vec<ArrayRef>,
    table: Arc<BuildTable>,
    /// Present if the join's type needs it.
    matched: Option<Matched>,
    /// Partitions that are still probing.
    probing: AtomicUsize,
    _memory: MemoryReservation,
}

impl BuildSide {
    pub(super) fn batch(&self) -> &RecordBatch {
        &self.batch
    }

    pub(super) fn key_columns(&self) -> &[ArrayRef] {
        &self.key_columns
    }

    pub(super) fn table(&self) -> &Arc<BuildTable> {
        &self.table
    }

    /// Marks `rows` as matched, if the join's type needs it.
    pub(super) fn mark(&self, rows: &[u32]) {
        let Some(Matched(words)) = &self.matched else {
            return;
        };
        for row in rows {
            // Relaxed: the partition that reads the bits has seen `end_probing` of all partitions that set them.
            words[*row as usize / 64].fetch_or(1 << (row % 64), Ordering::Relaxed);
        }
    }

    /// The rows of `rows` whose mark equals `marked`.
    pub(super) fn rows_marked(&self, rows: Range<usize>, marked: bool) -> Vec<u32> {
        let Some(Matched(words)) = &self.matched else {
            return Vec::new();
        };
        let is_marked =
            |row: &usize| words[row / 64].load(Ordering::Relaxed) >> (row % 64) & 1 != 0;
        rows.filter(|row| is_marked(row) == marked)
            .map(|row| row as u32)
            .collect()
    }

    /// Ends the probing of a partition; `true` if it was the last one.
    pub(super) fn end_probing(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// The metrics of the build side.
#[derive(Clone)]
pub(super) struct BuildMetrics {
    time: Time,
    compute: Time,
    rows: Count,
    bytes: Count,
}

impl BuildMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let builder = || MetricBuilder::new(metrics);
        Self {
            time: builder().subset_time("build_time", partition),
            compute: builder().elapsed_compute(partition),
            rows: builder().counter("build_rows", partition),
            bytes: builder().counter("build_bytes", partition),
        }
    }
}

/// Makes a build side.
pub(super) struct Builder {
    pub(super) input: SendableRecordBatchStream,
    pub(super) on: Vec<PhysicalExprRef>,
    pub(super) keys: JoinKeys,
    pub(super) gate: MemoryGate,
    pub(super) scheduling: Scheduling,
    pub(super) threads: usize,
    /// Whether matched rows are marked.
    pub(super) marks: bool,
    /// Partitions that will probe.
    pub(super) probing: usize,
    pub(super) memory: MemoryReservation,
    pub(super) metrics: BuildMetrics,
}

impl Builder {
    pub(super) async fn build(mut self) -> Result<BuildSide> {
        let schema = self.input.schema();
        let batches = self.collect().await?;
        let start = Instant::now();
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows > JoinTable::MAX_ROWS {
            return Err(resources_datafusion_err!(
                "the smaller side of a join has {rows} rows; it can have {}: join fewer at a time",
                JoinTable::MAX_ROWS
            ));
        }
        self.metrics.rows.add(rows);
        let batch = self.concat(&schema, batches, rows)?;
        let key_columns = evaluate_expressions_to_arrays(&self.on, &batch)?;

        let marks = if self.marks { rows.div_ceil(8) } else { 0 };
        self.memory.try_grow(marks)?;
        let column = self.keys.column_of_numbers(&key_columns);
        let numbers = if column.is_some() {
            0
        } else {
            rows * size_of::<u64>()
        };
        let building = numbers + JoinTable::bytes_to_build(rows);
        self.memory.try_grow(building)?;
        let table = match column {
            Some(column) => self.table(&column.buffer::<u64>(0)[..rows], &key_columns),
            None => {
                let mut numbers = vec![0; rows];
                self.keys.numbers(&key_columns, &mut numbers)?;
                self.table(&numbers, &key_columns)
            }
        };
        self.memory.try_shrink(building)?;
        self.memory.grow(table.bytes());
        self.metrics.bytes.add(self.memory.size());
        let spent = start.elapsed();
        self.metrics.time.add_duration(spent);
        self.metrics.compute.add_duration(spent);

        let table = BuildTable {
            table,
            keys: self.keys,
            gate: self.gate,
            scheduling: self.scheduling,
        };
        Ok(BuildSide {
            batch,
            key_columns,
            table: Arc::new(table),
            matched: self.marks.then(|| Matched::none_of(rows)),
            probing: AtomicUsize::new(self.probing),
            _memory: self.memory,
        })
    }

    async fn collect(&mut self) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        // Batches may share buffers.
        let mut counter = RecordBatchMemoryCounter::new();
        while let Some(batch) = self.input.next().await {
            let batch = batch?;
            self.memory.try_grow(counter.count_batch(&batch))?;
            batches.push(batch);
        }
        Ok(batches)
    }

    /// All rows as one batch. It concatenates column by column, so that at most one column exists twice.
    fn concat(
        &self,
        schema: &SchemaRef,
        batches: Vec<RecordBatch>,
        rows: usize,
    ) -> Result<RecordBatch> {
        let columns = (0..schema.fields().len()).map(|place| {
            batches
                .iter()
                .map(|batch| Arc::clone(batch.column(place)))
                .collect()
        });
        let columns: Vec<Vec<ArrayRef>> = columns.collect();
        drop(batches);
        let twice = columns
            .iter()
            .map(|parts| parts.iter().map(|part| part.get_array_memory_size()).sum())
            .max();
        let twice = twice.unwrap_or(0);
        self.memory.try_grow(twice)?;
        let columns = columns.into_iter().zip(schema.fields());
        let columns = columns.map(|(parts, field)| match parts.as_slice() {
            [] => Ok(arrow::array::new_empty_array(field.data_type())),
            parts => {
                let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
                Ok(concat(&parts)?)
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.memory.try_shrink(twice)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(schema),
            columns,
            &options,
        )?)
    }

    fn table(&self, numbers: &[u64], key_columns: &[ArrayRef]) -> JoinTable {
        match rows_with_key(key_columns) {
            None => JoinTable::build(numbers, |_| true, self.threads),
            Some(nulls) => JoinTable::build(numbers, |row| nulls.is_valid(row), self.threads),
        }
    }
}
