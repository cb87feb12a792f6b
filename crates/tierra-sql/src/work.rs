//! How much of the tables a query has read, counted by the operators of its plan.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// How much of the tables a query has read so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Blocks whose values were read.
    pub blocks_read: u64,
    /// Blocks that minima and maxima ruled out.
    pub blocks_skipped: u64,
    /// Blocks that another query of the batch had read: none of them is in `blocks_read`.
    pub blocks_shared: u64,
    /// Blocks that were unpacked into values.
    pub blocks_decoded: u64,
    /// Rows of tails that were read.
    pub tail_rows: u64,
    /// Bytes read from near memory.
    pub bytes_near: u64,
    /// Bytes read from far memory.
    pub bytes_far: u64,
    /// Bytes copied into frames before they were read.
    pub bytes_copied: u64,
    /// Keys and values looked up, one by one.
    pub lookups: u64,
    /// How often one of these gave way to another while it waited for memory.
    pub suspensions: u64,
    /// Cells read by their row from near memory.
    pub cells_near: u64,
    /// Cells read by their row from far memory.
    pub cells_far: u64,
}

impl std::ops::AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.blocks_read += other.blocks_read;
        self.blocks_skipped += other.blocks_skipped;
        self.blocks_shared += other.blocks_shared;
        self.blocks_decoded += other.blocks_decoded;
        self.tail_rows += other.tail_rows;
        self.bytes_near += other.bytes_near;
        self.bytes_far += other.bytes_far;
        self.bytes_copied += other.bytes_copied;
        self.lookups += other.lookups;
        self.suspensions += other.suspensions;
        self.cells_near += other.cells_near;
        self.cells_far += other.cells_far;
    }
}

/// A plan whose work can be asked for while it runs.
#[derive(Clone, Debug)]
pub(crate) struct PlanWork(Arc<dyn ExecutionPlan>);

impl PlanWork {
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self(plan)
    }

    /// The work of the plan's scans so far.
    pub(crate) fn so_far(&self) -> Work {
        let mut work = Work::default();
        add(&self.0, &mut work);
        work
    }
}

fn add(plan: &Arc<dyn ExecutionPlan>, work: &mut Work) {
    if let Some(metrics) = plan.metrics() {
        let sum = |name: &str| {
            metrics
                .sum_by_name(name)
                .map_or(0, |value| value.as_usize() as u64)
        };
        work.blocks_read += sum("blocks_read");
        work.blocks_skipped += sum("blocks_skipped");
        work.blocks_shared += sum("blocks_shared");
        work.blocks_decoded += sum("blocks_decoded");
        work.tail_rows += sum("tail_rows");
        work.bytes_near += sum("bytes_near");
        work.bytes_far += sum("bytes_far");
        work.bytes_copied += sum("bytes_copied");
        work.lookups += sum("lookups");
        work.suspensions += sum("suspensions");
        work.cells_near += sum("cells_near");
        work.cells_far += sum("cells_far");
    }
    for child in plan.children() {
        add(child, work);
    }
}
