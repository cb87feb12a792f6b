//! A table's specification in the body of a manifest.
//!
//! Invariant: a decoded specification passes the checks of a new one, and each column has its own id.

use std::collections::HashMap;

use tierra_column::{Encoding, LogicalType};

use crate::manifest::codec::{Decoder, Encoder};
use crate::manifest::{ColumnId, ManifestError, TableEntry};
use crate::spec::index_kind::IndexKind;
use crate::spec::{ColumnSpec, TableSpec};

/// Stands for an encoding chosen by Tierra.
const ANY_ENCODING: u8 = 0xff;

/// The positions of columns by their ids.
pub(super) struct ColumnPositions(HashMap<ColumnId, usize>);

impl ColumnPositions {
    /// Reads the id of a column, and returns its position.
    pub(super) fn read(&self, input: &mut Decoder) -> Result<usize, ManifestError> {
        let id = input.u32()?;
        let position = self.0.get(&ColumnId(id)).copied();
        position.ok_or_else(|| input.fault(format!("the table has no column with id {id}")))
    }
}

/// In the byte of a column's placement: the encoding of its near copies follows.
const HAS_NEAR_ENCODING: u8 = 4;

pub(super) fn encode_spec(out: &mut Encoder, table: &TableEntry) {
    let spec = &table.spec;
    out.text(&spec.name);
    out.u32(table.next_column_id.0);
    out.count(spec.columns.len());
    for (column, id) in spec.columns.iter().zip(&table.column_ids) {
        out.u32(id.0);
        out.text(&column.name);
        column.ty.tag().into_iter().for_each(|byte| out.u8(byte));
        out.u8(u8::from(column.nullable));
        encode_encoding(out, column.encoding);
        let near = match column.near {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        match column.near_encoding {
            None => out.u8(near),
            Some(encoding) => {
                out.u8(near | HAS_NEAR_ENCODING);
                out.u8(encoding.tag());
            }
        }
        out.u8(match column.index {
            None => 0,
            Some(IndexKind::Inverted) => 1,
        });
    }
    out.count(spec.primary_key.len());
    for column in &spec.primary_key {
        out.u32(table.column_ids[*column].0);
    }
}

/// A table's specification, the ids of its columns, and the next column id.
pub(super) type DecodedSpec = (TableSpec, Vec<ColumnId>, ColumnId);

pub(super) fn decode_spec(
    input: &mut Decoder,
) -> Result<(DecodedSpec, ColumnPositions), ManifestError> {
    let name = input.text()?;
    let next_id = ColumnId(input.u32()?);
    let (mut columns, mut ids) = (Vec::new(), Vec::new());
    let mut positions = HashMap::new();
    for at in 0..input.count(4 + 5 + 7)? {
        let id = ColumnId(input.u32()?);
        let column = decode_column(input)?;
        if id >= next_id || positions.insert(id, at).is_some() {
            let name = &column.name;
            return Err(input.fault(format!(
                "column {name:?} has id {}, which is not its own",
                id.0
            )));
        }
        ids.push(id);
        columns.push(column);
    }
    let positions = ColumnPositions(positions);
    let primary_key = input.list(4, |input| positions.read(input))?;
    let spec = TableSpec {
        name,
        columns,
        primary_key,
    };
    spec.check()?;
    Ok(((spec, ids, next_id), positions))
}

fn decode_column(input: &mut Decoder) -> Result<ColumnSpec, ManifestError> {
    let name = input.text()?;
    let ty = decode_type(input, &name)?;
    let nullable = match input.u8()? {
        0 => false,
        1 => true,
        other => return Err(input.fault(format!("column {name:?} has nullability {other}"))),
    };
    let encoding = decode_encoding(input, &name)?;
    let placement = input.u8()?;
    let near_encoding = match placement & HAS_NEAR_ENCODING {
        0 => None,
        _ => match decode_encoding(input, &name)? {
            Some(encoding) => Some(encoding),
            None => {
                return Err(input.fault(format!("column {name:?} has near copies in no encoding")));
            }
        },
    };
    let near = match placement & !HAS_NEAR_ENCODING {
        0 => None,
        1 => Some(true),
        2 => Some(false),
        other => return Err(input.fault(format!("column {name:?} has unknown placement {other}"))),
    };
    let index = match input.u8()? {
        0 => None,
        1 if encoding.is_some_and(Encoding::uses_dictionary) => Some(IndexKind::Inverted),
        other => return Err(input.fault(format!("column {name:?} cannot have index {other}"))),
    };
    Ok(ColumnSpec {
        name,
        ty,
        nullable,
        encoding,
        near,
        near_encoding,
        index,
    })
}

pub(super) fn decode_type(input: &mut Decoder, of: &str) -> Result<LogicalType, ManifestError> {
    let tag = [input.u8()?, input.u8()?, input.u8()?];
    LogicalType::of_tag(tag)
        .ok_or_else(|| input.fault(format!("column {of:?} has unknown type {tag:?}")))
}

pub(super) fn encode_encoding(out: &mut Encoder, encoding: Option<Encoding>) {
    out.u8(encoding.map_or(ANY_ENCODING, Encoding::tag));
}

pub(super) fn decode_encoding(
    input: &mut Decoder,
    of: &str,
) -> Result<Option<Encoding>, ManifestError> {
    match input.u8()? {
        ANY_ENCODING => Ok(None),
        tag => match Encoding::of_tag(tag) {
            Some(encoding) => Ok(Some(encoding)),
            None => Err(ManifestError::Unknown {
                what: format!("encoding {tag} in column {of:?}"),
            }),
        },
    }
}
