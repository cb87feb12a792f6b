//! The filter that a build side gives the scan of its probe side.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use datafusion::error::Result;
use datafusion::logical_expr::{Accumulator, ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, lit};
use datafusion::physical_expr::{PhysicalExprRef, conjunction};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;
use datafusion_functions_aggregate_common::min_max::{MaxAccumulator, MinAccumulator};

use super::build::{BuildSide, BuildTable, Scratch};

/// A predicate on the probe side's key that is true for every row with a match: each column lies between the least and
/// the greatest of the build side's, and the key is in the table.
pub(super) fn of(build: &BuildSide, on_probe: &[PhysicalExprRef]) -> Result<Arc<dyn PhysicalExpr>> {
    if build.table().table().keys() == 0 {
        return Ok(lit(false));
    }
    let mut conjuncts: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for (column, probe) in build.key_columns().iter().zip(on_probe) {
        let (least, greatest) = bounds(column)?;
        for (operator, bound) in [(Operator::GtEq, least), (Operator::LtEq, greatest)] {
            let bound = BinaryExpr::new(Arc::clone(probe), operator, lit(bound));
            conjuncts.push(Arc::new(bound));
        }
    }
    // It follows the bounds, which narrow the values that it is evaluated on.
    conjuncts.push(Arc::new(HasMatch {
        on: on_probe.to_vec(),
        table: Arc::clone(build.table()),
    }));
    Ok(conjunction(conjuncts))
}

fn bounds(
    column: &ArrayRef,
) -> Result<(
    datafusion::common::ScalarValue,
    datafusion::common::ScalarValue,
)> {
    let values = std::slice::from_ref(column);
    let mut least = MinAccumulator::try_new(column.data_type())?;
    least.update_batch(values)?;
    let mut greatest = MaxAccumulator::try_new(column.data_type())?;
    greatest.update_batch(values)?;
    Ok((least.evaluate()?, greatest.evaluate()?))
}

/// Whether a row's key is in the table. If keys are hashed, it may be true for a few that are not.
struct HasMatch {
    on: Vec<PhysicalExprRef>,
    table: Arc<BuildTable>,
}

impl PhysicalExpr for HasMatch {
    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.on.iter().collect()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(HasMatch {
            on: children,
            table: Arc::clone(&self.table),
        }))
    }

    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _schema: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let columns = evaluate_expressions_to_arrays(&self.on, batch)?;
        let mut matches = Vec::new();
        self.table
            .find(&columns, &mut Scratch::default(), &mut matches)?;
        let found: BooleanArray = matches.iter().map(|found| Some(found.is_some())).collect();
        Ok(ColumnarValue::Array(Arc::new(found)))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for HasMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("has_match")
    }
}

impl fmt::Debug for HasMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HasMatch({:?})", self.on)
    }
}

// The same table, not an equal one: every execution has its own.
impl PartialEq for HasMatch {
    fn eq(&self, other: &Self) -> bool {
        self.on == other.on && Arc::ptr_eq(&self.table, &other.table)
    }
}

impl Eq for HasMatch {}

impl Hash for HasMatch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.on.hash(state);
        Arc::as_ptr(&self.table).hash(state);
    }
}
