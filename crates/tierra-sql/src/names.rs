//! SQL names: folded to lower case unless quoted, in the database's only schema.

use datafusion::sql::sqlparser::ast;

/// The only schema.
pub(crate) const SCHEMA: &str = "public";
/// The only catalog.
pub(crate) const CATALOG: &str = "tierra";

/// The name of an identifier: folded to lower case unless quoted.
pub(crate) fn identifier(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// The last part of a name, as that of a function.
pub(crate) fn last_name(name: &ast::ObjectName) -> String {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.map(identifier).unwrap_or_default()
}

/// The table of a name without a catalog, or in the only one.
pub(crate) fn single_name(name: &ast::ObjectName) -> Option<String> {
    let parts: Option<Vec<String>> = name
        .0
        .iter()
        .map(|part| part.as_ident().map(identifier))
        .collect();
    match parts?.as_slice() {
        [table] => Some(table.clone()),
        [schema, table] if schema == SCHEMA => Some(table.clone()),
        [catalog, schema, table] if catalog == CATALOG && schema == SCHEMA => Some(table.clone()),
        _ => None,
    }
}
