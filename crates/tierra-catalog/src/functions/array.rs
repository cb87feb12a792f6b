//! Functions of arrays.

use super::function::{Function, OUTPUTS, function};
use crate::error::Result;
use crate::types::Type;
use crate::value::{Value, joined};

const T: Type = Type::TEXT;
const I: Type = Type::INT4;
const A: Type = Type::ANYARRAY;
const E: Type = Type::ANYELEMENT;

pub(super) const FUNCTIONS: &[Function] = &[
    function("array_to_string", &[OUTPUTS, T], T, |_, a| {
        Ok(written(&a[0], a[1].as_text(), None))
    }),
    function("array_to_string", &[OUTPUTS, T, T], T, |_, a| {
        Ok(match a[0].is_null() || a[1].is_null() {
            true => Value::Null,
            false => written(
                &a[0],
                a[1].as_text(),
                (!a[2].is_null()).then(|| a[2].as_text()),
            ),
        })
    })
    .called_on_null(),
    function("string_to_array", &[T, T], Type::TEXT_ARRAY, |_, a| {
        Ok(split(&a[0], &a[1], None))
    })
    .called_on_null(),
    function("string_to_array", &[T, T, T], Type::TEXT_ARRAY, |_, a| {
        Ok(split(&a[0], &a[1], Some(&a[2])))
    })
    .called_on_null(),
    function("array_length", &[A, I], I, |_, a| {
        Ok(of_dimension(a, |_, len| len))
    }),
    function("array_upper", &[A, I], I, |_, a| {
        Ok(of_dimension(a, |first, len| first + len - 1))
    }),
    function("array_lower", &[A, I], I, |_, a| {
        Ok(of_dimension(a, |first, _| first))
    }),
    function("array_ndims", &[A], I, |_, a| {
        Ok(if a[0].items().is_empty() {
            Value::Null
        } else {
            Value::Int(1)
        })
    }),
    function("cardinality", &[A], I, |_, a| {
        Ok(Value::Int(a[0].items().len() as i64))
    }),
    function("array_position", &[A, E], I, |_, a| {
        let first = bounds(&a[0]).0;
        let place = a[0].items().iter().position(|item| *item == a[1]);
        Ok(place.map(|place| first + place as i64).into())
    })
    .called_on_null(),
    function("array_append", &[A, E], A, |_, a| {
        Ok(joined(&a[0], &Value::array(vec![a[1].clone()])))
    })
    .called_on_null(),
    function("array_prepend", &[E, A], A, |_, a| {
        Ok(joined(&Value::array(vec![a[0].clone()]), &a[1]))
    })
    .called_on_null(),
    function("array_cat", &[A, A], A, |_, a| cat(a)).called_on_null(),
    function("array_remove", &[A, E], A, |_, a| {
        let items = a[0].items().iter().filter(|item| **item != a[1]);
        Ok(if a[0].is_null() {
            Value::Null
        } else {
            Value::array(items.cloned().collect())
        })
    })
    .called_on_null(),
];

fn cat(arguments: &[Value]) -> Result<Value> {
    Ok(match (&arguments[0], &arguments[1]) {
        (Value::Null, other) | (other, Value::Null) => other.clone(),
        (left, right) => joined(left, right),
    })
}

/// The first subscript, and how many items there are.
fn bounds(array: &Value) -> (i64, i64) {
    match array {
        Value::Array(array) => (array.first, array.items.len() as i64),
        _ => (1, 0),
    }
}

/// There is one dimension, and none of an empty array.
fn of_dimension(arguments: &[Value], value: fn(i64, i64) -> i64) -> Value {
    match (bounds(&arguments[0]), arguments[1].as_int()) {
        ((_, 0), _) => Value::Null,
        ((first, len), 1) => Value::Int(value(first, len)),
        _ => Value::Null,
    }
}

fn written(array: &Value, between: &str, null: Option<&str>) -> Value {
    let items = array.items().iter().filter_map(|item| match item {
        Value::Null => null,
        item => Some(item.as_text()),
    });
    items.collect::<Vec<_>>().join(between).into()
}

fn split(text: &Value, between: &Value, null: Option<&Value>) -> Value {
    if text.is_null() {
        return Value::Null;
    }
    let (whole, mut letter) = (text.as_text(), [0; 4]);
    let parts: Vec<Value> = match between {
        _ if whole.is_empty() => Vec::new(),
        Value::Null => whole
            .chars()
            .map(|c| Value::text(c.encode_utf8(&mut letter)))
            .collect(),
        between if between.as_text().is_empty() => vec![text.clone()],
        between => whole.split(between.as_text()).map(Value::text).collect(),
    };
    let parts = parts.into_iter().map(|part| {
        if null == Some(&part) {
            Value::Null
        } else {
            part
        }
    });
    Value::array(parts.collect())
}
