//! Rows as JSON: one array of objects, with explicit NULLs.
//!
//! JSON has no NaN and no infinities. Arrow writes them as `null`, like NULL. Here they are strings, as in other databases
//! and in Protocol Buffers.

use std::io::Write;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float16Type, Float32Type, Float64Type,
};
use arrow::error::ArrowError;
use arrow::json::writer::{JsonArray, NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions, Writer, WriterBuilder};

/// Writes batches to `out` as one array.
pub fn writer<W: Write>(out: W) -> Writer<W, JsonArray> {
    let options = WriterBuilder::new().with_explicit_nulls(true);
    let options = options.with_encoder_factory(Arc::new(Floats));
    options.build(out)
}

/// Encodes floating-point numbers; arrow encodes all other types.
#[derive(Debug)]
struct Floats;

impl EncoderFactory for Floats {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        match array.data_type() {
            DataType::Float64 => floats::<Float64Type>(field, array),
            DataType::Float32 => floats::<Float32Type>(field, array),
            DataType::Float16 => floats::<Float16Type>(field, array),
            _ => Ok(None),
        }
    }
}

/// Options without [`Floats`], which would call itself forever.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

fn floats<'a, T>(
    field: &'a FieldRef,
    array: &'a dyn Array,
) -> Result<Option<NullableEncoder<'a>>, ArrowError>
where
    T: ArrowPrimitiveType<Native: Into<f64>>,
{
    let encoder = FloatEncoder {
        values: array.as_primitive::<T>(),
        finite: make_encoder(field, array, &PLAIN)?,
    };
    let nulls = array.nulls().cloned();
    Ok(Some(NullableEncoder::new(Box::new(encoder), nulls)))
}

struct FloatEncoder<'a, T: ArrowPrimitiveType> {
    values: &'a PrimitiveArray<T>,
    finite: NullableEncoder<'a>,
}

impl<T: ArrowPrimitiveType<Native: Into<f64>>> Encoder for FloatEncoder<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value: f64 = self.values.value(row).into();
        let text: &[u8] = match value {
            f64::INFINITY => b"\"Infinity\"",
            f64::NEG_INFINITY => b"\"-Infinity\"",
            _ if value.is_nan() => b"\"NaN\"",
            _ => return self.finite.encode(row, out),
        };
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Float32Array, Float64Array, RecordBatch};

    use super::*;

    #[test]
    fn what_is_no_number_is_no_null_either() {
        let doubles = [Some(1.5), None, Some(f64::NAN), Some(f64::NEG_INFINITY)];
        let floats = [Some(f32::INFINITY), Some(-0.0), None, Some(1e30)];
        let columns: [(&str, ArrayRef); 2] = [
            ("d", Arc::new(Float64Array::from(doubles.to_vec()))),
            ("f", Arc::new(Float32Array::from(floats.to_vec()))),
        ];
        let mut out = Vec::new();
        let mut writer = writer(&mut out);
        writer
            .write(&RecordBatch::try_from_iter(columns).unwrap())
            .unwrap();
        writer.finish().unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"[{"d":1.5,"f":"Infinity"},{"d":null,"f":-0.0},{"d":"NaN","f":null},{"d":"-Infinity","f":1.0e30}]"#
        );
    }
}
