//! Aggregates of DOUBLEs over frames whose start moves, computed without taking values back.
//!
//! DataFusion subtracts what leaves a frame. After 1e20 left, the sum of 1 and 2 was 0, and after a NaN or an infinity all were NaN. Here a
//! frame has two parts: of the older rows, what each and all after it come to, and of the newer ones, what they come to together. When
//! the older part is used up the newer one takes its place, so that each row is added twice.
//!
//! Source of the two parts: Tangwongsan et al., General Incremental Sliding-Window Aggregation, VLDB 2015, with two stacks.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef, Float64Type, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, LogicalPlan, ReversedUDAF,
    Signature, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_plan::PhysicalExpr;

use super::plan::{map_under_names, schema_below, uses};
use crate::tree::{TreeNode, transform_up_with_subqueries};

/// The functions that take values back.
const TAKE_BACK: [&str; 17] = [
    "sum",
    "avg",
    "var",
    "var_pop",
    "stddev",
    "stddev_pop",
    "covar_samp",
    "covar_pop",
    "corr",
    "regr_avgx",
    "regr_avgy",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// The rule. It comes behind type coercion, when all know their types.
#[derive(Debug)]
pub(super) struct MovingDoubles;

impl AnalyzerRule for MovingDoubles {
    fn name(&self) -> &str {
        "moving_doubles"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        transform_up_with_subqueries(plan, rewrite).data()
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !uses(&plan, |expr| taking_back(expr).is_some())? {
        return Ok(Transformed::no(plan));
    }
    let schema = schema_below(&plan)?;
    map_under_names(plan, |expr| {
        expr.transform_up(|mut expr| {
            let Some(inner) = taking_back(&expr) else {
                return Ok(Transformed::no(expr));
            };
            let Expr::WindowFunction(call) = &mut expr else {
                return Ok(Transformed::no(expr));
            };
            for argument in &call.params.args {
                if argument.get_type(&schema)? != DataType::Float64 {
                    return Ok(Transformed::no(expr));
                }
            }
            let moving = AggregateUDF::from(Moving { inner });
            call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(moving));
            Ok(Transformed::yes(expr))
        })
    })
}

/// The function of a window that would take values back.
fn taking_back(expr: &Expr) -> Option<Arc<AggregateUDF>> {
    let Expr::WindowFunction(call) = expr else {
        return None;
    };
    let WindowFunctionDefinition::AggregateUDF(func) = &call.fun else {
        return None;
    };
    let params = &call.params;
    let moves = !params.window_frame.start_bound.is_unbounded();
    let is_done = func.inner().is::<Moving>();
    let is_known = TAKE_BACK.contains(&func.name());
    (moves && is_known && !is_done && !params.distinct).then(|| Arc::clone(func))
}

/// DataFusion's function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moving {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Moving {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(match self.name() {
            "sum" => Box::new(TwoSums::new(false)),
            "avg" => Box::new(TwoSums::new(true)),
            _ => Box::new(TwoParts::new(Arc::clone(&self.inner), &args)?),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(ty)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// A sum, and how many values it has.
type Sum = (f64, u64);

/// Sums or averages.
#[derive(Debug)]
struct TwoSums {
    is_average: bool,
    /// Of each of the older rows and all after it, the newest first.
    older: Vec<Sum>,
    newer: Vec<Option<f64>>,
    of_newer: Sum,
}

impl TwoSums {
    fn new(is_average: bool) -> Self {
        Self {
            is_average,
            older: Vec::new(),
            newer: Vec::new(),
            of_newer: (0.0, 0),
        }
    }
}

impl Accumulator for TwoSums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<Float64Type>() {
            if let Some(value) = value {
                self.of_newer.0 += value;
                self.of_newer.1 += 1;
            }
            self.newer.push(value);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values[0].len() {
            if self.older.is_empty() {
                let (mut sum, mut count) = (0.0, 0);
                for value in self.newer.drain(..).rev() {
                    if let Some(value) = value {
                        sum += value;
                        count += 1;
                    }
                    self.older.push((sum, count));
                }
                self.of_newer = (0.0, 0);
            }
            self.older.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame is of one thread")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame is of one thread")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (sum, count) = self.older.last().copied().unwrap_or_default();
        let (sum, count) = (sum + self.of_newer.0, count + self.of_newer.1);
        let value = match self.is_average {
            true => sum / count as f64,
            false => sum,
        };
        Ok(ScalarValue::Float64((count > 0).then_some(value)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.older.capacity() * size_of::<Sum>()
            + self.newer.capacity() * size_of::<Option<f64>>()
    }
}

/// Any other function, of whose parts there are states.
#[derive(Debug)]
struct TwoParts {
    func: Arc<AggregateUDF>,
    arguments: Arguments,
    /// Of each of the older rows and all after it, the newest first.
    older: Vec<Vec<ScalarValue>>,
    /// One row each.
    newer: Vec<Vec<ArrayRef>>,
    of_newer: Box<dyn Accumulator>,
}

/// What an accumulator is made of.
#[derive(Debug)]
struct Arguments {
    return_field: FieldRef,
    schema: Schema,
    expr_fields: Vec<FieldRef>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    name: String,
}

impl Arguments {
    fn empty(&self, func: &AggregateUDF) -> Result<Box<dyn Accumulator>> {
        func.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            expr_fields: &self.expr_fields,
            ignore_nulls: false,
            order_bys: &[],
            name: &self.name,
            is_reversed: false,
            is_distinct: false,
            exprs: &self.exprs,
        })
    }
}

impl TwoParts {
    fn new(func: Arc<AggregateUDF>, args: &AccumulatorArgs<'_>) -> Result<Self> {
        let arguments = Arguments {
            return_field: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            expr_fields: args.expr_fields.to_vec(),
            exprs: args.exprs.to_vec(),
            name: args.name.to_owned(),
        };
        let of_newer = arguments.empty(&func)?;
        Ok(Self {
            func,
            arguments,
            older: Vec::new(),
            newer: Vec::new(),
            of_newer,
        })
    }
}

fn merge(into: &mut dyn Accumulator, state: &[ScalarValue]) -> Result<()> {
    let states: Result<Vec<ArrayRef>> = state.iter().map(|value| value.to_array()).collect();
    into.merge_batch(&states?)
}

impl Accumulator for TwoParts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for row in 0..values[0].len() {
            let row = values.iter().map(|column| column.slice(row, 1));
            self.newer.push(row.collect());
        }
        self.of_newer.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..values[0].len() {
            if self.older.is_empty() {
                for row in self.newer.drain(..).rev() {
                    let mut part = self.arguments.empty(&self.func)?;
                    part.update_batch(&row)?;
                    if let Some(after) = self.older.last() {
                        merge(part.as_mut(), after)?;
                    }
                    self.older.push(part.state()?);
                }
                self.of_newer = self.arguments.empty(&self.func)?;
            }
            self.older.pop();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        internal_err!("a frame is of one thread")
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a frame is of one thread")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut all = self.arguments.empty(&self.func)?;
        if let Some(older) = self.older.last() {
            merge(all.as_mut(), older)?;
        }
        if !self.newer.is_empty() {
            merge(all.as_mut(), &self.of_newer.state()?)?;
        }
        all.evaluate()
    }

    fn size(&self) -> usize {
        let states = self.older.iter().flatten().map(ScalarValue::size);
        let rows = self
            .newer
            .iter()
            .flatten()
            .map(|row| size_of_val(row) + row.len() * 8);
        size_of_val(self) + states.sum::<usize>() + rows.sum::<usize>()
    }
}
