//! What the Star Schema Benchmark's data promise: the same rows however they are cut, exact
//! counts, keys that hold, and queries as selective as the paper says.

use std::collections::HashSet;

use arrow::{
    array::{AsArray, RecordBatch},
    compute::concat_batches,
    datatypes::Int32Type,
};
use tierra_data::{
    Part, Scale, Source,
    ssb::{Table, answers},
};

fn whole(table: Table, scale: Scale) -> RecordBatch {
    let batches: Vec<_> = table.generate(scale, Part::WHOLE, 8_192).collect();
    concat_batches(&table.schema(), &batches).unwrap()
}

fn ints(batch: &RecordBatch, name: &str) -> Vec<i32> {
    let column = batch.column_by_name(name).unwrap();
    column.as_primitive::<Int32Type>().values().to_vec()
}

#[test]
fn rows_do_not_depend_on_how_they_are_cut() {
    let scale = Scale::new(0.001).unwrap();
    for table in Table::ALL {
        let whole = whole(table, scale);
        assert_eq!(whole.num_rows() as u64, table.rows(scale));
        for (parts, batch_rows) in [(1, 1_000_000), (3, 997), (7, 27), (64, 28)] {
            let batches: Vec<_> = Part::split(parts)
                .flat_map(|part| table.generate(scale, part, batch_rows))
                .collect();
            assert!(
                batches
                    .iter()
                    .all(|b| (1..=batch_rows).contains(&b.num_rows()))
            );
            let cut = concat_batches(&table.schema(), &batches).unwrap();
            assert_eq!(cut, whole, "{} in {parts} parts", table.name());
        }
    }
}

#[test]
fn row_counts_are_the_specification_s() {
    let rows = |factor, table: Table| table.rows(Scale::new(factor).unwrap());
    for (factor, lineorder, customer, supplier, part) in [
        (0.001, 6_000, 1_000, 500, 2_000),
        (0.1, 600_000, 3_000, 500, 20_000),
        (1.0, 6_000_000, 30_000, 2_000, 200_000),
        (1.9, 11_400_000, 57_000, 3_800, 200_000),
        (2.0, 12_000_000, 60_000, 4_000, 400_000),
        (10.0, 60_000_000, 300_000, 20_000, 800_000),
    ] {
        assert_eq!(rows(factor, Table::Lineorder), lineorder);
        assert_eq!(rows(factor, Table::Customer), customer);
        assert_eq!(rows(factor, Table::Supplier), supplier);
        assert_eq!(rows(factor, Table::Part), part);
        assert_eq!(rows(factor, Table::Date), 2_557);
    }
}

#[test]
fn keys_are_unique_and_every_foreign_key_is_found() {
    let scale = Scale::new(0.01).unwrap();
    let fact = whole(Table::Lineorder, scale);
    for (table, foreign_keys) in [
        (Table::Customer, &["lo_custkey"][..]),
        (Table::Supplier, &["lo_suppkey"]),
        (Table::Part, &["lo_partkey"]),
        (Table::Date, &["lo_orderdate", "lo_commitdate"]),
    ] {
        let keys = ints(&whole(table, scale), table.primary_key().unwrap());
        let unique: HashSet<i32> = keys.iter().copied().collect();
        assert_eq!(unique.len(), keys.len(), "{}", table.name());
        for name in foreign_keys {
            assert!(
                ints(&fact, name).iter().all(|key| unique.contains(key)),
                "{name}"
            );
        }
    }
    let lines = ints(&fact, "lo_orderkey")
        .into_iter()
        .zip(ints(&fact, "lo_linenumber"));
    assert_eq!(lines.collect::<HashSet<_>>().len(), fact.num_rows());
}

#[test]
fn values_keep_their_domains_and_formulas() {
    let fact = whole(Table::Lineorder, Scale::new(0.01).unwrap());
    let column = |name: &str| ints(&fact, name);
    for (name, low, high) in [
        ("lo_linenumber", 1, 7),
        ("lo_quantity", 1, 50),
        ("lo_discount", 0, 10),
        ("lo_tax", 0, 8),
        ("lo_orderdate", 19_920_101, 19_980_802),
    ] {
        let values = column(name);
        assert_eq!(values.iter().min(), Some(&low), "{name}");
        assert_eq!(values.iter().max(), Some(&high), "{name}");
    }
    let (price, discount) = (column("lo_extendedprice"), column("lo_discount"));
    let (revenue, tax) = (column("lo_revenue"), column("lo_tax"));
    let (order, total) = (column("lo_orderkey"), column("lo_ordtotalprice"));
    let mut totals = std::collections::HashMap::<i32, i64>::new();
    for row in 0..fact.num_rows() {
        let expected = i64::from(price[row]) * i64::from(100 - discount[row]) / 100;
        assert_eq!(i64::from(revenue[row]), expected);
        *totals.entry(order[row]).or_default() +=
            i64::from(revenue[row]) * i64::from(100 + tax[row]) / 100;
    }
    // The last order may be cut off by the exact number of rows.
    let last = order[fact.num_rows() - 1];
    for row in (0..fact.num_rows()).filter(|&row| order[row] != last) {
        assert_eq!(i64::from(total[row]), totals[&order[row]]);
    }
}

#[test]
fn dimensions_read_as_the_queries_expect() {
    let scale = Scale::new(0.001).unwrap();
    let distinct = |table: Table, name: &str| {
        let batch = whole(table, scale);
        let column = batch.column_by_name(name).unwrap().as_string_view().clone();
        let values = column.iter().map(|v| v.unwrap().to_owned());
        values.collect::<HashSet<String>>()
    };
    for (table, prefix) in [(Table::Customer, "c"), (Table::Supplier, "s")] {
        let cities = distinct(table, &format!("{prefix}_city"));
        assert_eq!(cities.len(), 250);
        assert!(cities.iter().all(|city| city.len() == 10));
        for city in ["UNITED KI1", "UNITED ST9", "PERU     0", "SAUDI ARA5"] {
            assert!(cities.contains(city), "{city}");
        }
        assert_eq!(distinct(table, &format!("{prefix}_nation")).len(), 25);
        assert_eq!(distinct(table, &format!("{prefix}_region")).len(), 5);
    }
    assert_eq!(distinct(Table::Part, "p_mfgr").len(), 5);
    assert_eq!(distinct(Table::Part, "p_category").len(), 25);
    let brands = distinct(Table::Part, "p_brand1");
    assert_eq!(brands.len(), 1_000);
    assert!(brands.contains("MFGR#2239"));
    assert!(distinct(Table::Date, "d_yearmonth").contains("Dec1997"));
    assert_eq!(distinct(Table::Date, "d_sellingseason").len(), 5);
}

/// The paper's filter factors (its table 3), corrected for what it leaves out: orders end on
/// 1998-08-02, so a year holds 1/6.6 of them and not 1/7.
#[test]
fn queries_select_what_the_paper_says() {
    let days = f64::from(366 + 365 + 365 + 365 + 366 + 365 + 214);
    let (year, to_1997) = (365.0 / days, 1.0 - 214.0 / days);
    let from_1997 = (365.0 + 214.0) / days;
    let expected = [
        year * (24.0 / 50.0) * (3.0 / 11.0),
        (31.0 / days) * (10.0 / 50.0) * (3.0 / 11.0),
        (7.0 / days) * (10.0 / 50.0) * (3.0 / 11.0),
        1.0 / 25.0 / 5.0,
        1.0 / 125.0 / 5.0,
        1.0 / 1_000.0 / 5.0,
        to_1997 / 25.0,
        to_1997 / 625.0,
        to_1997 / 125.0 / 125.0,
        (31.0 / days) / 125.0 / 125.0,
        1.0 / 25.0 * (2.0 / 5.0),
        from_1997 / 25.0 * (2.0 / 5.0),
        from_1997 / 5.0 / 25.0 / 25.0,
    ];
    let scale = Scale::new(0.1).unwrap();
    let rows = Table::Lineorder.rows(scale) as f64;
    for (answer, share) in answers(scale).iter().zip(expected) {
        let (selected, expected) = (answer.selected as f64, rows * share);
        // Lines of an order share customer and date, which widens the spread of the count.
        let tolerance = 3.0 * (4.0 * expected).sqrt() + 1.0;
        println!(
            "{}: {selected} rows, {expected:.1} expected",
            answer.query.name
        );
        assert!(
            (selected - expected).abs() <= tolerance,
            "{}",
            answer.query.name
        );
        assert!(selected > 0.0, "{} checks nothing", answer.query.name);
    }
}
