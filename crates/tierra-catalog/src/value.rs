//! Values, how they compare, and how PostgreSQL writes those that need no name of a thing.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The values of one item of FROM, or of a row.
pub(crate) type Part = Arc<[Value]>;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// All integers, and the numbers of things.
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    Array(Arc<Items>),
    Record(Arc<[Value]>),
}

/// The items of an array of one dimension.
#[derive(Clone, Debug)]
pub(crate) struct Items {
    /// The subscript of the first one.
    pub(crate) first: i64,
    pub(crate) items: Vec<Value>,
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn array(items: Vec<Self>) -> Self {
        Self::Array(Arc::new(Items { first: 1, items }))
    }

    /// A vector, whose first subscript is zero.
    pub(crate) fn vector(items: Vec<Self>) -> Self {
        Self::Array(Arc::new(Items { first: 0, items }))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether a condition holds.
    pub(crate) fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }

    /// The text of a value whose type is text. The binder sees to it that no other comes here.
    pub(crate) fn as_text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    pub(crate) fn as_int(&self) -> i64 {
        match self {
            Self::Int(int) => *int,
            Self::Float(float) => float.round_ties_even() as i64,
            _ => 0,
        }
    }

    pub(crate) fn items(&self) -> &[Self] {
        match self {
            Self::Array(array) => &array.items,
            _ => &[],
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Array(array) => array.items.iter().map(|item| 16 + item.bytes()).sum(),
            Self::Record(fields) => fields.iter().map(|field| 16 + field.bytes()).sum(),
            _ => 16,
        }
    }

    /// The order of two values of one type; NULL is the greatest.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Greater,
            (_, Self::Null) => Ordering::Less,
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Int(left), Self::Int(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Array(left), Self::Array(right)) => order_of_lists(&left.items, &right.items),
            (Self::Record(left), Self::Record(right)) => order_of_lists(left, right),
            (left, right) => match (left.as_float(), right.as_float()) {
                (Some(left), Some(right)) => left.total_cmp(&right),
                // Values of different types do not meet; the order is any that is one.
                _ => left.rank().cmp(&right.rank()),
            },
        }
    }

    fn as_float(&self) -> Option<f64> {
        match self {
            Self::Int(int) => Some(*int as f64),
            // One zero and one NaN, which is the greatest.
            Self::Float(float) if float.is_nan() => Some(f64::NAN),
            Self::Float(float) => Some(*float + 0.0),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 9,
            Self::Bool(_) => 0,
            Self::Int(_) | Self::Float(_) => 1,
            Self::Text(_) => 2,
            Self::Array(_) => 3,
            Self::Record(_) => 4,
        }
    }
}

/// The items of two arrays.
pub(crate) fn joined(left: &Value, right: &Value) -> Value {
    let items = left.items().iter().chain(right.items());
    let first = match left {
        Value::Array(array) => array.first,
        _ => 1,
    };
    Value::Array(Arc::new(Items {
        first,
        items: items.cloned().collect(),
    }))
}

fn order_of_lists(left: &[Value], right: &[Value]) -> Ordering {
    let pairs = left.iter().zip(right);
    let mut orders = pairs.map(|(left, right)| left.order(right));
    let different = orders.find(|order| order.is_ne());
    different.unwrap_or_else(|| left.len().cmp(&right.len()))
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Null => 0.hash(state),
            Self::Bool(truth) => truth.hash(state),
            Self::Int(_) | Self::Float(_) => self.as_float().unwrap_or(0.0).to_bits().hash(state),
            Self::Text(text) => text.hash(state),
            Self::Array(array) => array.items.hash(state),
            Self::Record(fields) => fields.hash(state),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(int: i64) -> Self {
        Self::Int(int)
    }
}

impl From<u32> for Value {
    fn from(oid: u32) -> Self {
        Self::Int(oid.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_greatest_and_numbers_are_one_kind() {
        assert_eq!(Value::Null.order(&Value::Int(1)), Ordering::Greater);
        assert_eq!(Value::Int(1), Value::Float(1.0));
        assert_eq!(Value::Float(0.0), Value::Float(-0.0));
        let left = Value::array(vec![Value::Int(1), Value::Null]);
        assert_eq!(
            left.order(&Value::array(vec![Value::Int(1), Value::Int(9)])),
            Ordering::Greater
        );
        assert_eq!(
            left.order(&Value::array(vec![Value::Int(1)])),
            Ordering::Greater
        );
    }
}
