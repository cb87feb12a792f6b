//! PostgreSQL's system catalog, as far as psql's `\d`, `\dt`, `\di`, `\dv`, `\df`, `\dn`, `\du` and `\l` ask for it.
//!
//! These queries are known by their tokens: what they select, from which tables, under which conditions. A query of which any
//! part is not known is not answered here, and the planner says that it has no such table: no answer rather than a wrong one.

mod answer;
mod pattern;
mod question;

pub(crate) use self::question::Question;
