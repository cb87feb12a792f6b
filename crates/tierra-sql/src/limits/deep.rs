//! Deeply nested statements are prepared, executed and dropped on large stacks.
//!
//! Expressions are evaluated by recursion, and operators ask each other for batches by recursion. A thread of the runtime
//! has 2 MiB of stack, which is enough for nearly all statements. The others are executed by separate threads, which are
//! started when the first such statement comes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use tokio::runtime::{Builder, Runtime};

use super::depth::SHALLOW;
use super::thread::drop_apart;

/// Stack of a thread that executes deeper statements.
const STACK_BYTES: usize = 256 << 20;
/// Stack for the recursion over a statement before it is planned.
const ROOM_BYTES: usize = 128 << 20;

/// A future that is polled with a large stack.
pub(crate) struct Roomy<'a, T>(pub(crate) BoxFuture<'a, T>);

impl<T> Future for Roomy<'_, T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        roomy(|| self.0.as_mut().poll(context))
    }
}

/// Runs `work` with a large stack.
fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(ROOM_BYTES / 2, ROOM_BYTES, work)
}

/// Whether `plan` nests too deeply for an ordinary thread's stack.
///
/// # Errors
/// If an operator's expressions cannot be listed.
pub(crate) fn is_deep(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(roomy(|| levels(plan))? > SHALLOW)
}

fn levels(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut expressions = 0;
    plan.apply_expressions(&mut |expr| {
        expressions = expressions.max(levels_of(expr));
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut below = 0;
    for child in plan.children() {
        below = below.max(levels(child)?);
    }
    Ok(1 + expressions.max(below))
}

fn levels_of(expr: &Arc<dyn PhysicalExpr>) -> usize {
    let children = expr.children();
    1 + children.into_iter().map(levels_of).max().unwrap_or(0)
}

/// Runs `start` on threads with a large stack. It spawns every task that executes the plan.
///
/// # Errors
/// Those of `start`, and if no thread can be started.
pub(crate) fn execute_deep(
    start: impl FnOnce() -> Result<SendableRecordBatchStream>,
) -> Result<SendableRecordBatchStream> {
    let _entered = runtime()?.enter();
    roomy(start)
}

fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // Of two first calls at once, one waits for the other's: a second runtime would have to be dropped, which panics in async code.
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Builder::new_multi_thread()
        .thread_name("tierra-deep")
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(DataFusionError::IoError)?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// A plan that is dropped with a large stack.
pub(crate) struct DeepPlan(Option<Arc<dyn ExecutionPlan>>);

impl DeepPlan {
    pub(crate) fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self(Some(plan))
    }
}

impl Drop for DeepPlan {
    fn drop(&mut self) {
        if let Some(plan) = self.0.take() {
            drop_apart(plan);
        }
    }
}
