//! Create a database, put rows in, ask, leave, come back: the rows are still there.
//!
//! Run it with `cargo run --release -p tierra --example first_steps`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path().join("observatory");

    // A database is a directory. Each statement is durable when `sql` returns.
    let db = tierra::Database::create(&dir)?;
    db.sql("CREATE TABLE stars (name VARCHAR PRIMARY KEY, light_years DOUBLE, seen DATE)")?;
    db.sql(
        "INSERT INTO stars VALUES
           ('Sirius', 8.6, DATE '2026-01-12'),
           ('Vega', 25.0, DATE '2026-07-30'),
           ('Deneb', 2600, NULL)",
    )?;

    // An answer is a list of Arrow batches, and prints as a table.
    let nearby = db.sql("SELECT name, seen FROM stars WHERE light_years < 100 ORDER BY name")?;
    println!("{nearby}");
    assert_eq!(nearby.row_count(), 2);

    // An error changes nothing and says what to do.
    let again = db.sql("INSERT INTO stars VALUES ('Altair', 16.7, NULL), ('Vega', 25, NULL)");
    println!("refused: {}", again.expect_err("Vega is there already"));

    drop(db);
    let db = tierra::Database::open(&dir)?;
    assert_eq!(db.sql("SELECT * FROM stars")?.row_count(), 3);
    Ok(())
}
