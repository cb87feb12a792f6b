//! Tables as the statements that create them.
//!
//! Invariant: CREATE TABLE of the text gives the same table, whatever its names are.

use std::fmt::Write;

use tierra_engine::{Replicas, TableSpec};

/// The CREATE TABLE of a table, with all its settings, in a few lines.
pub fn create_table_text(spec: &TableSpec) -> String {
    let mut lines = Vec::new();
    for column in &spec.columns {
        let not_null = if column.nullable { "" } else { " NOT NULL" };
        lines.push(format!("{} {}{not_null}", quoted(&column.name), column.ty));
    }
    if !spec.primary_key.is_empty() {
        let names = spec.primary_key.iter();
        let names = names.map(|column| quoted(&spec.columns[*column].name));
        let names: Vec<String> = names.collect();
        lines.push(format!("PRIMARY KEY ({})", names.join(", ")));
    }
    let mut text = format!("CREATE TABLE {} (\n  ", quoted(&spec.name));
    text += &lines.join(",\n  ");
    text += "\n)";
    let options = options_of(spec);
    if !options.is_empty() {
        // Writing to a string never fails.
        let _ = write!(text, " WITH (\n  {}\n)", options.join(",\n  "));
    }
    text + ";\n"
}

/// The ALTER TABLE that places a table's copies; `None` if they lie where those of a new table do.
pub fn replicas_text(spec: &TableSpec, replicas: &Replicas) -> Option<String> {
    if replicas.columns.is_empty() && matches!(&replicas.table[..], [] | [_]) {
        return None;
    }
    let mut options = vec![option("replicas", &replicas.table.join(", "))];
    for (column, tiers) in &replicas.columns {
        options.push(option(&format!("{column}.replicas"), &tiers.join(", ")));
    }
    let (name, options) = (quoted(&spec.name), options.join(", "));
    // On one line: a name may have several.
    Some(format!("ALTER TABLE {name} SET ({options});").replace('\n', " "))
}

fn options_of(spec: &TableSpec) -> Vec<String> {
    let mut options = Vec::new();
    for column in &spec.columns {
        let mut add = |property: &str, value: &str| {
            options.push(option(&format!("{}.{property}", column.name), value));
        };
        if let Some(encoding) = column.encoding {
            add("encoding", encoding.name());
        }
        if let Some(near) = column.near {
            add("tier", if near { "near" } else { "far" });
        }
        if let Some(encoding) = column.near_encoding {
            add("near_encoding", encoding.name());
        }
        if let Some(index) = column.index {
            add("index", index.name());
        }
    }
    options
}

fn option(key: &str, value: &str) -> String {
    let escaped = |text: &str| text.replace('\'', "''");
    format!("'{}' = '{}'", escaped(key), escaped(value))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast;
    use tierra_column::{Encoding, LogicalType};
    use tierra_engine::{ColumnSpec, IndexKind};

    use super::*;
    use crate::ddl;
    use crate::statement::split;

    /// The table that a text creates.
    fn parsed(text: &str) -> TableSpec {
        use datafusion::sql::parser::Statement;
        let compact = split(text).unwrap()[0].parse_compact(|_| Ok(())).unwrap();
        let Statement::Statement(statement) = compact.statement else {
            panic!("{text}");
        };
        match *statement {
            ast::Statement::CreateTable(create) => ddl::table_spec(&create).unwrap().0,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_table_comes_back_from_its_text() {
        let types = [
            LogicalType::Boolean,
            LogicalType::Integer,
            LogicalType::BigInt,
            LogicalType::Decimal {
                precision: 38,
                scale: 7,
            },
            LogicalType::Double,
            LogicalType::Date,
            LogicalType::Timestamp,
            LogicalType::Varchar,
        ];
        let names = [
            "plain",
            "Upper",
            "with space",
            "quo\"te",
            "it's",
            "a.b",
            "select",
            "ünï;--",
        ];
        let columns = types.iter().zip(names).enumerate();
        let columns = columns.map(|(at, (ty, name))| ColumnSpec {
            nullable: at % 2 == 0 && at != 4,
            encoding: [None, Some(Encoding::Plain)][at % 2],
            near: [None, Some(true), Some(false)][at % 3],
            near_encoding: (at == 2).then_some(Encoding::Static),
            ..ColumnSpec::new(name, *ty)
        });
        let mut spec = TableSpec {
            name: "My \"odd\" table, it's; --".to_owned(),
            columns: columns.collect(),
            primary_key: vec![4, 1],
        };
        spec.columns[7].encoding = Some(Encoding::Dictionary);
        spec.columns[7].index = Some(IndexKind::Inverted);
        assert_eq!(parsed(&create_table_text(&spec)), spec);
        let plain = TableSpec {
            name: "t".to_owned(),
            columns: vec![ColumnSpec::new("a", LogicalType::Integer)],
            primary_key: vec![],
        };
        let text = create_table_text(&plain);
        assert_eq!(text, "CREATE TABLE \"t\" (\n  \"a\" INTEGER\n);\n");
        assert_eq!(parsed(&text), plain);
    }

    #[test]
    fn copies_are_placed_if_they_lie_elsewhere() {
        let spec = TableSpec {
            name: "t".to_owned(),
            columns: vec![ColumnSpec::new("a", LogicalType::Integer)],
            primary_key: vec![],
        };
        assert_eq!(replicas_text(&spec, &Replicas::of_table(["far"])), None);
        let mut both = Replicas::of_table(["far", "b"]);
        both.columns.insert("a".to_owned(), vec!["b".to_owned()]);
        let text = "ALTER TABLE \"t\" SET ('replicas' = 'far, b', 'a.replicas' = 'b');";
        assert_eq!(replicas_text(&spec, &both).as_deref(), Some(text));
    }
}
