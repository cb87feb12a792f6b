//! A table as the statement that would create it.

use tierra::engine::TableSpec;

/// The CREATE TABLE statement of `spec`, with a semicolon.
pub(crate) fn create_statement(spec: &TableSpec) -> String {
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
    let options: Vec<String> = spec
        .columns
        .iter()
        .flat_map(|column| {
            let encoding = column.encoding.map(|e| ("encoding", e.to_string()));
            let tier = column.near.map(|near| if near { "near" } else { "far" });
            let tier = tier.map(|tier| ("tier", tier.to_owned()));
            let index = column.index.map(|index| ("index", index.to_string()));
            let name = column.name.replace('\'', "''");
            let option = move |(key, value)| format!("'{name}.{key}' = '{value}'");
            encoding.into_iter().chain(tier).chain(index).map(option)
        })
        .collect();
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
        let spec = TableSpec {
            name: "Items".into(),
            columns: vec![
                ColumnSpec::new("id", LogicalType::Integer).not_null(),
                price,
            ],
            primary_key: vec![0],
        };
        assert_eq!(
            create_statement(&spec),
            "CREATE TABLE \"Items\" (\n  id INTEGER NOT NULL,\n  price DECIMAL(9, 2),\n  \
             PRIMARY KEY (id)\n) WITH ('price.encoding' = 'dictionary', 'price.tier' = 'far', \
             'price.index' = 'inverted');"
        );
    }
}
