//! The types in a statement: TIMESTAMP is in microseconds, REAL and FLOAT are DOUBLE, and a limit that is not enforced is
//! refused, as in CREATE TABLE.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{self, TimezoneInfo};

/// The zone in which timestamps with a time zone are shown.
const UTC: &str = "+00:00";

/// Plans these types, and leaves the others to DataFusion.
#[derive(Debug)]
pub(super) struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, ty: &ast::DataType) -> Result<Option<FieldRef>> {
        use ast::DataType as Sql;
        let ty = match ty {
            Sql::Timestamp(digits, zone) => {
                let unit = match digits {
                    None | Some(6) => TimeUnit::Microsecond,
                    Some(3) => TimeUnit::Millisecond,
                    Some(0) => TimeUnit::Second,
                    _ => {
                        return plan_err!(
                            "{ty} is not supported; use TIMESTAMP, which has six digits"
                        );
                    }
                };
                let zone = match zone {
                    TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => None,
                    TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => Some(UTC.into()),
                };
                DataType::Timestamp(unit, zone)
            }
            Sql::Datetime(None | Some(6)) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Sql::Real | Sql::Float(_) | Sql::Float4 => DataType::Float64,
            Sql::Char(_) | Sql::Varchar(Some(_)) | Sql::String(Some(_)) => {
                return plan_err!("{ty} is not enforced; use VARCHAR");
            }
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", ty, true))))
    }
}
