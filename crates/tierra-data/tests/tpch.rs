//! What TPC-H's data promise: parts that make up the whole, counts, and types that Tierra has.

use arrow::{compute::concat_batches, datatypes::DataType};
use tierra_data::{Part, Scale, Source, tpch};

#[test]
fn parts_make_up_the_whole() {
    let scale = Scale::new(0.001).unwrap();
    for table in tpch::Table::ALL {
        let rows = |parts, batch_rows| {
            let batches: Vec<_> = Part::split(parts)
                .flat_map(|part| table.generate(scale, part, batch_rows))
                .collect();
            concat_batches(&table.schema(), &batches).unwrap()
        };
        let whole = rows(1, 8_192);
        assert_eq!(rows(4, 100), whole, "{}", table.name());
        let (found, expected) = (whole.num_rows() as f64, table.expected_rows(scale) as f64);
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{}: {found}",
            table.name()
        );
        if table != tpch::Table::Lineitem {
            assert_eq!(found, expected, "{}", table.name());
        }
    }
}

#[test]
fn types_are_those_of_tierra() {
    for table in tpch::Table::ALL {
        for field in table.schema().fields() {
            assert!(
                matches!(
                    field.data_type(),
                    DataType::Int32
                        | DataType::Int64
                        | DataType::Decimal128(15, 2)
                        | DataType::Date32
                        | DataType::Utf8View
                ),
                "{field}"
            );
        }
    }
}

#[test]
fn every_query_is_one_statement() {
    for (name, sql) in tpch::QUERIES {
        assert!(!sql.contains(';'), "{name}");
        assert!(
            sql.starts_with("select") || sql.starts_with("with"),
            "{name}"
        );
    }
}
