//! The 22 queries, as data: one SELECT each, with the specification's validation parameters.
//!
//! Q15's view is a common table expression, and Q11's fraction that of scale 1.

macro_rules! query {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../queries/tpch/", $name, ".sql")),
        )
    };
}

/// Name and text of each query, in their order; no text ends in a semicolon.
pub const QUERIES: [(&str, &str); 22] = [
    query!("q1"),
    query!("q2"),
    query!("q3"),
    query!("q4"),
    query!("q5"),
    query!("q6"),
    query!("q7"),
    query!("q8"),
    query!("q9"),
    query!("q10"),
    query!("q11"),
    query!("q12"),
    query!("q13"),
    query!("q14"),
    query!("q15"),
    query!("q16"),
    query!("q17"),
    query!("q18"),
    query!("q19"),
    query!("q20"),
    query!("q21"),
    query!("q22"),
];
