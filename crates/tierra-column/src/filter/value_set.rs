//! Sets of values for `IN`, of each kind of value.
//!
//! A set keeps its values sorted in every case: block verdicts and narrowing to a block's range
//! are binary searches in them.

use arrow::array::Array;
use hashbrown::HashSet;

use super::OrdinalSet;
use crate::error::FilterError;
use crate::value::Value;

/// Distinct values of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueSet {
    /// Of a type that maps to ordinals.
    Ordinals(OrdinalSet),
    /// DECIMALs beyond 18 digits, sorted.
    Wide(Vec<i128>),
    /// Strings: sorted, and hashed for membership.
    Bytes {
        /// In ascending order.
        sorted: Vec<Box<[u8]>>,
        /// The same, hashed.
        hashed: HashSet<Box<[u8]>>,
    },
}

impl ValueSet {
    /// A set of ordinals, in any order, repeated or not.
    pub fn ordinals(values: Vec<u64>) -> ValueSet {
        ValueSet::Ordinals(OrdinalSet::new(values))
    }

    /// A set of wide DECIMALs.
    pub fn wide(mut values: Vec<i128>) -> ValueSet {
        values.sort_unstable();
        values.dedup();
        ValueSet::Wide(values)
    }

    /// A set of strings.
    pub fn bytes(mut values: Vec<Box<[u8]>>) -> ValueSet {
        values.sort_unstable();
        values.dedup();
        ValueSet::Bytes {
            hashed: values.iter().cloned().collect(),
            sorted: values,
        }
    }

    /// The set of `values`, all of one kind (an empty list becomes an empty set of ordinals, which
    /// no filter keeps).
    ///
    /// # Errors
    /// [`FilterError::Type`] where kinds are mixed.
    pub fn new(values: Vec<Value>) -> Result<ValueSet, FilterError> {
        let kind = values.first().map_or("64-bit", Value::kind);
        let (mut ordinals, mut wide, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            if value.kind() != kind {
                return Err(FilterError::Type {
                    filter: value.kind(),
                    column: kind.to_owned(),
                });
            }
            match value {
                Value::Ordinal(value) => ordinals.push(value),
                Value::Wide(value) => wide.push(value),
                Value::Bytes(value) => bytes.push(value),
            }
        }
        Ok(if !wide.is_empty() {
            ValueSet::wide(wide)
        } else if !bytes.is_empty() {
            ValueSet::bytes(bytes)
        } else {
            ValueSet::ordinals(ordinals)
        })
    }

    /// The set of an array's values, and whether a NULL was among them.
    ///
    /// # Errors
    /// [`FilterError::Type`] where no column has the array's type.
    pub fn of_array(array: &dyn Array) -> Result<(ValueSet, bool), FilterError> {
        let mut values = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            match Value::of_array(array, row) {
                Some(value) => values.push(value),
                None if array.is_null(row) => {}
                None => {
                    return Err(FilterError::Type {
                        filter: "unsupported",
                        column: array.data_type().to_string(),
                    });
                }
            }
        }
        Ok((ValueSet::new(values)?, array.null_count() > 0))
    }

    /// Members.
    pub fn len(&self) -> usize {
        match self {
            ValueSet::Ordinals(set) => set.members().len(),
            ValueSet::Wide(sorted) => sorted.len(),
            ValueSet::Bytes { sorted, .. } => sorted.len(),
        }
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `value` is a member; never for a value of another kind.
    pub fn contains(&self, value: &Value) -> bool {
        match (self, value) {
            (ValueSet::Ordinals(set), Value::Ordinal(value)) => set.contains(*value),
            (ValueSet::Wide(sorted), Value::Wide(value)) => sorted.binary_search(value).is_ok(),
            (ValueSet::Bytes { hashed, .. }, Value::Bytes(value)) => hashed.contains(value),
            _ => false,
        }
    }

    /// The members in ascending order.
    pub fn values(&self) -> Vec<Value> {
        match self {
            ValueSet::Ordinals(set) => set.members().iter().copied().map(Value::Ordinal).collect(),
            ValueSet::Wide(sorted) => sorted.iter().copied().map(Value::Wide).collect(),
            ValueSet::Bytes { sorted, .. } => sorted.iter().cloned().map(Value::Bytes).collect(),
        }
    }

    /// The members that `keep` accepts.
    pub(crate) fn retain(&self, keep: impl Fn(&Value) -> bool) -> ValueSet {
        let kept = self.values().into_iter().filter(keep).collect();
        ValueSet::new(kept).expect("members of one set are of one kind")
    }
}
