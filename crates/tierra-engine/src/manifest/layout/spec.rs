//! What a table is declared to be, in the body of a manifest.
//!
//! Invariant: what is decoded passes the checks that a declaration passes.

use tierra_column::{Encoding, LogicalType};

use super::INDEXES_SINCE;
use crate::index_kind::IndexKind;
use crate::manifest::ManifestError;
use crate::manifest::codec::{Decoder, Encoder};
use crate::spec::{ColumnSpec, TableSpec};

pub(super) fn encode_spec(out: &mut Encoder, spec: &TableSpec) {
    out.text(&spec.name);
    out.count(spec.columns.len());
    for column in &spec.columns {
        out.text(&column.name);
        let (ty, precision, scale) = match column.ty {
            LogicalType::Boolean => (0, 0, 0),
            LogicalType::Integer => (1, 0, 0),
            LogicalType::BigInt => (2, 0, 0),
            LogicalType::Decimal { precision, scale } => (3, precision, scale),
            LogicalType::Double => (4, 0, 0),
            LogicalType::Date => (5, 0, 0),
            LogicalType::Timestamp => (6, 0, 0),
            LogicalType::Varchar => (7, 0, 0),
        };
        out.u8(ty);
        out.u8(precision);
        out.u8(scale);
        out.u8(u8::from(column.nullable));
        out.u8(match column.encoding {
            None => 0,
            Some(Encoding::Plain) => 1,
            Some(Encoding::Static) => 2,
            Some(Encoding::Dynamic) => 3,
            Some(Encoding::FrameOfReference) => 4,
            Some(Encoding::Delta) => 5,
            Some(Encoding::Dictionary) => 6,
        });
        out.u8(match column.near {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        });
        out.u8(match column.index {
            None => 0,
            Some(IndexKind::Inverted) => 1,
        });
    }
    out.count(spec.primary_key.len());
    for column in &spec.primary_key {
        out.count(*column);
    }
}

pub(super) fn decode_spec(input: &mut Decoder, format: u8) -> Result<TableSpec, ManifestError> {
    let name = input.text()?;
    let columns = input.list(10, |input| decode_column(input, format))?;
    let primary_key = input.list(4, |input| Ok(input.u32()? as usize))?;
    let spec = TableSpec {
        name,
        columns,
        primary_key,
    };
    spec.check()?;
    Ok(spec)
}

fn decode_column(input: &mut Decoder, format: u8) -> Result<ColumnSpec, ManifestError> {
    let name = input.text()?;
    let (ty, precision, scale) = (input.u8()?, input.u8()?, input.u8()?);
    let ty = match ty {
        0 => LogicalType::Boolean,
        1 => LogicalType::Integer,
        2 => LogicalType::BigInt,
        3 => LogicalType::Decimal { precision, scale },
        4 => LogicalType::Double,
        5 => LogicalType::Date,
        6 => LogicalType::Timestamp,
        7 => LogicalType::Varchar,
        other => return Err(input.fault(format!("column {name:?} has unknown type {other}"))),
    };
    let nullable = match input.u8()? {
        0 => false,
        1 => true,
        other => return Err(input.fault(format!("column {name:?} has nullability {other}"))),
    };
    let encoding = match input.u8()? {
        0 => None,
        1 => Some(Encoding::Plain),
        2 => Some(Encoding::Static),
        3 => Some(Encoding::Dynamic),
        4 => Some(Encoding::FrameOfReference),
        5 => Some(Encoding::Delta),
        6 => Some(Encoding::Dictionary),
        other => return Err(input.fault(format!("column {name:?} has unknown encoding {other}"))),
    };
    let near = match input.u8()? {
        0 => None,
        1 => Some(true),
        2 => Some(false),
        other => return Err(input.fault(format!("column {name:?} has unknown placement {other}"))),
    };
    let index = match format >= INDEXES_SINCE {
        true => input.u8()?,
        false => 0,
    };
    let index = match index {
        0 => None,
        1 if encoding == Some(Encoding::Dictionary) => Some(IndexKind::Inverted),
        other => return Err(input.fault(format!("column {name:?} cannot have index {other}"))),
    };
    Ok(ColumnSpec {
        name,
        ty,
        nullable,
        encoding,
        near,
        index,
    })
}
