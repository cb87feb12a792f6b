//! Answers queries of the catalog of the tables that the tests have: `ask < queries`, where queries are separated by lines of `;`.
//!
//! Prints each row as a line of fields between tabs, or the error, and a line of `;` behind each query.

use std::io::Read;

#[path = "../tests/tables/mod.rs"]
mod tables;

fn main() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    for query in text
        .split("\n;\n")
        .map(str::trim)
        .filter(|query| !query.is_empty())
    {
        println!("{}\n;", tables::answer(query));
    }
    Ok(())
}
