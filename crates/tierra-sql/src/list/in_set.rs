//! `x = ANY(list)` as one function call on one array.
//!
//! A scan reads the values as one set. Elsewhere the call evaluates as the list would.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::physical_expr::expressions::{Column, InListExpr};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;

use super::items::{Items, List, stored_doubles};
use super::set::ListSet;
use crate::rules::schema_below;
use crate::tree::{TreeNode, apply_expressions, apply_with_subqueries};

/// The function `x -> x = ANY(list)`.
#[derive(Debug)]
pub(crate) struct InSet {
    name: String,
    list: Arc<List>,
    signature: Signature,
    /// The list as a set of the column's type, after a scan has asked for it.
    set: OnceLock<(DataType, ListSet)>,
    /// The list as an expression on column 0, after the first evaluation.
    evaluated: OnceLock<(DataType, Evaluated)>,
}

#[derive(Debug, Clone)]
struct Evaluated {
    /// `None` if no value can equal an item.
    list: Option<Arc<InListExpr>>,
    has_null: bool,
}

impl InSet {
    pub(crate) fn new(name: String, list: Arc<List>) -> Self {
        Self {
            name,
            list,
            signature: Signature::user_defined(Volatility::Immutable),
            set: OnceLock::new(),
            evaluated: OnceLock::new(),
        }
    }

    /// The list as a set of values of a column of type `ty`.
    pub(crate) fn values(&self, ty: &DataType) -> Result<ListSet> {
        if let Some((known, set)) = self.set.get()
            && known == ty
        {
            return Ok(set.clone());
        }
        let set = self.list.set(ty)?;
        // Another thread may have set it first, to the same set.
        let _ = self.set.set((ty.clone(), set.clone()));
        Ok(set)
    }

    fn evaluated(&self, ty: &DataType) -> Result<Evaluated> {
        if let Some((known, evaluated)) = self.evaluated.get()
            && known == ty
        {
            return Ok(evaluated.clone());
        }
        let Items { values, has_null } = self.list.items(ty)?;
        let list = if values.is_empty() {
            None
        } else {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("value", 0));
            let list = InListExpr::try_new_from_array(column, values, false, &schema_of(ty))?;
            Some(Arc::new(list))
        };
        let evaluated = Evaluated { list, has_null };
        let _ = self.evaluated.set((ty.clone(), evaluated.clone()));
        Ok(evaluated)
    }

    /// For each of `values`, whether the list contains it.
    pub(super) fn holds(&self, values: ArrayRef) -> Result<BooleanArray> {
        let rows = values.len();
        if self.list.len() == 0 {
            return Ok(BooleanArray::new(BooleanBuffer::new_unset(rows), None));
        }
        if values.data_type().is_null() {
            return Ok(BooleanArray::new_null(rows));
        }
        let values = stored_doubles(values);
        let ty = values.data_type();
        let evaluated = self.evaluated(ty)?;
        let nulls = values.nulls().cloned();
        let found = match &evaluated.list {
            None => BooleanBuffer::new_unset(rows),
            Some(list) => {
                let batch = RecordBatch::try_new(Arc::new(schema_of(ty)), vec![values])?;
                let found = list.evaluate(&batch)?.into_array(rows)?;
                let Some(found) = found.as_boolean_opt() else {
                    return internal_err!("a list yields no boolean");
                };
                match found.nulls() {
                    Some(nulls) => found.values() & nulls.inner(),
                    None => found.values().clone(),
                }
            }
        };
        let nulls = match evaluated.has_null {
            true => Some(NullBuffer::new(found.clone())),
            false => nulls,
        };
        Ok(BooleanArray::new(found, nulls))
    }
}

/// Fails if `plan` compares a long list with values of a type that it cannot be one array for. The planner leaves the types of conditions
/// to coercion, and then it is too late to plan the list literal by literal.
pub(crate) fn check_sets(plan: &LogicalPlan) -> Result<()> {
    apply_with_subqueries(plan, |plan| {
        let schema = schema_below(plan)?;
        apply_expressions(plan, |expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr
                    && let Some(set) = call.func.inner().downcast_ref::<InSet>()
                    && let Ok(ty) = call.args[0].get_type(&schema)
                {
                    set.coerce_types(&[ty])?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

fn schema_of(ty: &DataType) -> Schema {
    Schema::new(vec![Field::new("value", ty.clone(), true)])
}

impl ScalarUDFImpl for InSet {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value] => Ok(format!(
                "{} IN ({} values)",
                value.schema_name(),
                self.list.len()
            )),
            _ => internal_err!("a set is asked about one value"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] if self.list.is_comparable(ty) => Ok(types.to_vec()),
            _ => plan_err!("a long IN-list of other types is planned literal by literal"),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return internal_err!("a set is asked about one value");
        };
        let values = value.to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(Arc::new(self.holds(values)?)))
    }
}

// Sets with the same list are equal; the caches do not count.
impl PartialEq for InSet {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && (Arc::ptr_eq(&self.list, &other.list) || self.list == other.list)
    }
}

impl Eq for InSet {}

impl Hash for InSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.list.len().hash(state);
    }
}
