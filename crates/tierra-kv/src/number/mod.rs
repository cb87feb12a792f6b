//! Numbers as clients write them and as replies show them, with Redis's rules for both.

mod big;
mod double;
mod extended;
mod integer;

pub(crate) use double::{parse_bound, parse_double, parse_weight, push_double};
pub(crate) use extended::Extended;
pub(crate) use integer::{parse_i64, push_i64, push_u64};
