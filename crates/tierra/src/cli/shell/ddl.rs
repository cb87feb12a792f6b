//! Writes a table as the statement that would create it.

use tierra::engine::{Replicas, TableSpec};

/// The tier that every database is created with. It holds tables without another choice.
const FIRST_TIER: &str = "far";

/// The CREATE TABLE statement of `spec`, with copies in `replicas`, and a semicolon.
pub(crate) fn create_statement(spec: &TableSpec, replicas: &Replicas) -> String {
    let mut items: Vec<String> = spec
        .columns
        .iter()
        .map(|column| {
            let null = if column.nullable { "" } else { " NOT NULL" };
            format!("  {} {}{null}", quoted(&column.name), column.ty)
        })
        .collect();
    if !spec.primary_key.is_empty() {
        let key = spec
            .primary_key
            .iter()
            .map(|&at| quoted(&spec.columns[at].name));
        let key: Vec<String> = key.collect();
        items.push(format!("  PRIMARY KEY ({})", key.join(", ")));
    }
    let mut options: Vec<String> = spec
        .columns
        .iter()
        .flat_map(|column| {
            let encoding = column.encoding.map(|e| ("encoding", e.to_string()));
            let tier = column.near.map(|near| if near { "near" } else { "far" });
            let tier = tier.map(|tier| ("tier", tier.to_owned()));
            let index = column.index.map(|index| ("index", index.to_string()));
            let name = column.name.replace('\'', "''");
            let option = move |(key, value)| format!("'{name}.{key}' = '{value}'");
            let near = column
                .near_encoding
                .map(|e| ("near_encoding", e.to_string()));
            let copies = replicas.columns.get(&column.name);
            let copies = copies.map(|tiers| ("replicas", tiers.join(", ")));
            let placed = tier.into_iter().chain(near).chain(copies);
            encoding.into_iter().chain(placed).chain(index).map(option)
        })
        .collect();
    if replicas.table != [FIRST_TIER] {
        options.push(format!("'replicas' = '{}'", replicas.table.join(", ")));
    }
    let with = match options.is_empty() {
        true => String::new(),
        false => format!(" WITH ({})", options.join(", ")),
    };
    format!(
        "CREATE TABLE {} (\n{}\n){with};",
        quoted(&spec.name),
        items.join(",\n")
    )
}

/// A name as SQL must write it: in quotes unless it is a plain lower-case word.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match plain {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use tierra::engine::{ColumnSpec, IndexKind};
    use tierra_column::{Encoding, LogicalType};

    use super::*;

    #[test]
    fn a_table_is_shown_as_it_would_be_created() {
        let mut price = ColumnSpec::new(
            "price",
            LogicalType::Decimal {
                precision: 9,
                scale: 2,
            },
        );
        price.encoding = Some(Encoding::Dictionary);
        price.near = Some(false);
        price.index = Some(IndexKind::Inverted);
        let mut id = ColumnSpec::new("id", LogicalType::Integer).not_null();
        id.near_encoding = Some(Encoding::Static);
        let spec = TableSpec {
            name: "Items".into(),
            columns: vec![id, price],
            primary_key: vec![0],
        };
        let mut replicas = Replicas::of_table(["far"]);
        replicas.columns.insert("price".into(), vec!["b".into()]);
        assert_eq!(
            create_statement(&spec, &replicas),
            "CREATE TABLE \"Items\" (\n  id INTEGER NOT NULL,\n  price DECIMAL(9, 2),\n  \
             PRIMARY KEY (id)\n) WITH ('id.near_encoding' = 'static', 'price.encoding' = 'dictionary', 'price.tier' = 'far', \
             'price.replicas' = 'b', 'price.index' = 'inverted');"
        );
        let spec = TableSpec {
            columns: vec![ColumnSpec::new("id", LogicalType::Integer)],
            name: "t".into(),
            primary_key: vec![],
        };
        assert_eq!(
            create_statement(&spec, &Replicas::of_table(["b", "far"])),
            "CREATE TABLE t (\n  id INTEGER\n) WITH ('replicas' = 'b, far');"
        );
    }
}
