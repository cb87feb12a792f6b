//! `x IN (ten thousand literals)` as one function call on one array.
//!
//! The planner visits every expression many times; thousands of literals would cost it hundreds of
//! milliseconds. [`crate::statement`] therefore takes long lists out of the text before it is parsed,
//! and puts a call of an [`InSet`] in their place, which the planner sees as a single node. A scan
//! reads the values as one set; anywhere else the call evaluates like the list it stands for.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::{Column, InListExpr};
use datafusion::physical_expr_common::physical_expr::PhysicalExpr;
use tierra_column::ValueSet;

/// The literals of a list, as written.
#[derive(Debug, PartialEq)]
pub(crate) enum Literals {
    Integers(Vec<i64>),
    Strings(Vec<String>),
}

impl Literals {
    pub(crate) fn len(&self) -> usize {
        match self {
            Literals::Integers(values) => values.len(),
            Literals::Strings(values) => values.len(),
        }
    }

    fn array(&self) -> ArrayRef {
        match self {
            Literals::Integers(values) => Arc::new(Int64Array::from(values.clone())),
            Literals::Strings(values) => Arc::new(StringViewArray::from_iter_values(values)),
        }
    }
}

/// The function `x -> x IN (literals)`.
#[derive(Debug)]
pub(crate) struct InSet {
    name: String,
    literals: Literals,
    signature: Signature,
    /// The list as a set of the column's type, once a scan has asked for it.
    set: OnceLock<(DataType, Arc<ValueSet>)>,
    /// The list as an expression on column 0, once it was evaluated.
    list: OnceLock<Arc<InListExpr>>,
}

impl InSet {
    pub(crate) fn new(name: String, literals: Literals) -> Self {
        Self {
            name,
            literals,
            signature: Signature::user_defined(Volatility::Immutable),
            set: OnceLock::new(),
            list: OnceLock::new(),
        }
    }

    /// The literals that a value of type `ty` can equal.
    fn array(&self, ty: &DataType) -> Result<ArrayRef> {
        let array = self.literals.array();
        // Integers beyond a column's type equal none of its values; a string that is no date is an
        // error, as it is in a comparison.
        let safe = matches!(self.literals, Literals::Integers(_));
        let array = cast_with_options(
            &array,
            ty,
            &CastOptions {
                safe,
                ..CastOptions::default()
            },
        )?;
        if array.null_count() == 0 {
            return Ok(array);
        }
        let present = arrow::compute::is_not_null(&array)?;
        Ok(arrow::compute::filter(&array, &present)?)
    }

    /// The list as a set of values of a column of type `ty`.
    pub(crate) fn values(&self, ty: &DataType) -> Result<Arc<ValueSet>> {
        if let Some((known, set)) = self.set.get()
            && known == ty
        {
            return Ok(Arc::clone(set));
        }
        let array = self.array(ty)?;
        let (set, _) = ValueSet::of_array(array.as_ref())
            .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))?;
        let set = Arc::new(set);
        // Another thread may have been first, with the same set.
        let _ = self.set.set((ty.clone(), Arc::clone(&set)));
        Ok(set)
    }

    fn list(&self, ty: &DataType) -> Result<Arc<InListExpr>> {
        if let Some(list) = self.list.get() {
            return Ok(Arc::clone(list));
        }
        let schema = Schema::new(vec![Field::new("value", ty.clone(), true)]);
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("value", 0));
        let list = Arc::new(InListExpr::try_new_from_array(
            column,
            self.array(ty)?,
            false,
            &schema,
        )?);
        let _ = self.list.set(Arc::clone(&list));
        Ok(list)
    }
}

/// Types that the comparison of integers or of strings leaves as they are.
fn accepts(literals: &Literals, ty: &DataType) -> bool {
    match literals {
        Literals::Integers(_) => matches!(
            ty,
            DataType::Int32 | DataType::Int64 | DataType::Decimal128(_, _)
        ),
        Literals::Strings(_) => {
            matches!(
                ty,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Date32
            )
        }
    }
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
                self.literals.len()
            )),
            _ => internal_err!("a set is asked about one value"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [ty] if accepts(&self.literals, ty) => Ok(types.to_vec()),
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
        let schema = Schema::new(vec![Field::new("value", values.data_type().clone(), true)]);
        let list = self.list(values.data_type())?;
        list.evaluate(&RecordBatch::try_new(Arc::new(schema), vec![values])?)
    }
}

// Two sets are the same function if they have the same literals; the caches do not count.
impl PartialEq for InSet {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.literals == other.literals
    }
}

impl Eq for InSet {}

impl Hash for InSet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.literals.len().hash(state);
    }
}
