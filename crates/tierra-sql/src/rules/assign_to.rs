//! A mark around a value that goes into a column.
//!
//! UPDATE and MERGE are planned as queries, in which nothing else says where a value goes. The mark is a function that is
//! never called: [`super::assignment`] replaces it by an assignment as soon as the types are known.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The mark of one column of a statement's target.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AssignTo {
    name: String,
    signature: Signature,
    pub(super) table: String,
    pub(super) field: FieldRef,
}

/// The mark of the column `field` of `table`, which is called `name` in a statement.
pub(crate) fn assign_to(name: String, table: &str, field: FieldRef) -> ScalarUDF {
    ScalarUDF::from(AssignTo {
        name,
        signature: Signature::any(1, Volatility::Immutable),
        table: table.to_string(),
        field,
    })
}

impl ScalarUDFImpl for AssignTo {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!(
            "the mark of column '{}' was not replaced",
            self.field.name()
        )
    }
}
