//! What there is to tell: the caller's description, and the things that PostgreSQL would have for it, each with its number.
//!
//! A table's number is made of its name, so that it is the same in each query and in each connection.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::types::Type;

/// What the catalog describes.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// The name of the database.
    pub database: String,
    /// Who asks. Everything belongs to them.
    pub user: String,
    /// Whether they may only read.
    pub reads_only: bool,
    /// The number of their connection, and what its client calls itself.
    pub process: i32,
    /// The name that the client has given itself.
    pub application: String,
    /// What `version()` answers.
    pub version: String,
    /// Settings and their values.
    pub settings: Vec<(String, String)>,
    /// The tables of the schema `public`.
    pub tables: Vec<Table>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// The places of the columns of its key, in the key's order.
    pub primary_key: Vec<usize>,
    /// How many rows it has.
    pub rows: u64,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The number of its type.
    pub ty: Type,
    /// As in `atttypmod`: precision and scale; -1 without.
    pub modifier: i32,
    /// Whether it may be NULL.
    pub is_nullable: bool,
}

/// The owner of everything, and the numbers of what there is one of.
pub(crate) const OWNER: u32 = 10;
pub(crate) const DATABASE: u32 = 5;
pub(crate) const PG_CATALOG: u32 = 11;
pub(crate) const PUBLIC: u32 = 2200;
pub(crate) const INFORMATION_SCHEMA: u32 = 13207;
/// The methods by which tables and their keys are reached.
pub(crate) const TABLE_METHOD: u32 = 2;
pub(crate) const INDEX_METHOD: u32 = 403;
pub(crate) const TABLE_METHOD_NAME: &str = "tierra";
pub(crate) const INDEX_METHOD_NAME: &str = "tierra_key";
pub(crate) const SCHEMAS: [(u32, &str); 3] = [
    (PG_CATALOG, "pg_catalog"),
    (PUBLIC, "public"),
    (INFORMATION_SCHEMA, "information_schema"),
];
/// The only tablespace.
pub(crate) const TABLESPACE: (u32, &str) = (1663, "pg_default");
/// Settings with fixed values, for which tools ask.
pub(crate) const FACTS: [(&str, &str); 3] = [
    ("default_table_access_method", TABLE_METHOD_NAME),
    ("jit", "off"),
    ("max_index_keys", "32"),
];
/// The least number that PostgreSQL gives to a thing of a user.
const OID_LEAST: u32 = 16_384;

/// The name of the schema with this number.
pub(crate) fn schema_name(oid: i64) -> Option<&'static str> {
    let found = SCHEMAS.iter().find(|(known, _)| i64::from(*known) == oid);
    found.map(|(_, name)| *name)
}

/// A table or view of the system catalog, as PostgreSQL declares it.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) schema: &'static str,
    pub(crate) name: &'static str,
    pub(crate) oid: u32,
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<DeclaredColumn>,
}

#[derive(Debug)]
pub(crate) struct DeclaredColumn {
    pub(crate) name: &'static str,
    pub(crate) ty: Type,
    pub(crate) is_nullable: bool,
}

pub(crate) static DECLARED: LazyLock<Vec<Declared>> = LazyLock::new(|| {
    let lines = include_str!("data/declared.txt").lines().skip(1);
    lines.map(declared).collect()
});

fn declared(line: &'static str) -> Declared {
    let mut parts = line.split(' ');
    let mut next = || parts.next().expect("the file has all parts");
    let (schema, name, oid, kind) = (next(), next(), next(), next());
    let columns = parts.map(|column| {
        let (name, ty) = column.split_once(':').expect("a column has a type");
        let (ty, is_nullable) = match ty.strip_suffix('!') {
            Some(ty) => (ty, false),
            None => (ty, true),
        };
        DeclaredColumn {
            name,
            ty: declared_type(ty),
            is_nullable,
        }
    });
    Declared {
        schema,
        name,
        oid: oid.parse().expect("the file has numbers"),
        kind,
        columns: columns.collect(),
    }
}

/// The domains of the information schema are sent as the types below them.
fn declared_type(name: &str) -> Type {
    match name {
        "sql_identifier" => Type::NAME,
        "character_data" | "yes_or_no" => Type::VARCHAR,
        "cardinal_number" => Type::INT4,
        "time_stamp" => Type::TIMESTAMPTZ,
        "char" => Type::CHAR,
        // An array is named as its elements with a line before.
        _ => match name.strip_prefix('_') {
            Some(element) => declared_type(element).array().unwrap_or(Type::TEXT_ARRAY),
            None => Type::named(name).unwrap_or(Type::TEXT),
        },
    }
}

impl Declared {
    /// The table of that name in this schema, or in those that are searched.
    pub(crate) fn named(schema: Option<&str>, name: &str) -> Option<&'static Self> {
        let schema = schema.unwrap_or("pg_catalog");
        DECLARED
            .iter()
            .find(|table| table.schema == schema && table.name == name)
    }
}

/// What has a row in `pg_class`.
pub(crate) struct Relation {
    pub(crate) oid: u32,
    pub(crate) name: String,
    pub(crate) schema: u32,
    pub(crate) kind: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Option<u64>,
    /// The places of the key's columns; of an index, in its table.
    pub(crate) key: Vec<usize>,
    /// Of an index, the number of its table; of a table, that of its index.
    pub(crate) other: Option<u32>,
    /// Of an index, the number of its constraint.
    pub(crate) constraint: u32,
}

impl Relation {
    pub(crate) fn is_index(&self) -> bool {
        self.kind == "i"
    }

    pub(crate) fn schema_name(&self) -> &'static str {
        schema_name(self.schema.into()).unwrap_or_default()
    }
}

/// All relations of the database.
pub(crate) struct Objects<'a> {
    pub(crate) contents: &'a Contents,
    pub(crate) relations: Vec<Relation>,
}

/// Numbers and names that are taken.
struct Taken {
    oids: HashSet<u32>,
    names: HashSet<String>,
}

impl Taken {
    /// The number of a thing: made of its name, and the next free one if another has that.
    fn oid_of(&mut self, name: &str) -> u32 {
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let span = i32::MAX as u32 - OID_LEAST;
        let mut oid = OID_LEAST + hash % span;
        while !self.oids.insert(oid) {
            oid = OID_LEAST + (oid - OID_LEAST + 1) % span;
        }
        oid
    }

    fn index_name(&mut self, table: &str) -> String {
        let name = format!("{table}_pkey");
        let mut names = std::iter::once(name.clone()).chain((1..).map(|n| format!("{name}{n}")));
        let free = names.find(|name| self.names.insert(name.clone()));
        free.unwrap_or(name)
    }
}

impl<'a> Objects<'a> {
    pub(crate) fn of(contents: &'a Contents) -> Self {
        let mut relations: Vec<Relation> = DECLARED.iter().map(system_relation).collect();
        let mut tables: Vec<&Table> = contents.tables.iter().collect();
        tables.sort_unstable_by(|left, right| left.name.cmp(&right.name));
        let mut taken = Taken {
            oids: HashSet::new(),
            names: tables.iter().map(|table| table.name.clone()).collect(),
        };
        // Tables first: the number of one does not depend on another's key.
        let oids: Vec<u32> = tables
            .iter()
            .map(|table| taken.oid_of(&table.name))
            .collect();
        for (table, oid) in tables.iter().zip(oids) {
            let mut relation = Relation {
                oid,
                name: table.name.clone(),
                schema: PUBLIC,
                kind: "r",
                columns: table.columns.clone(),
                rows: Some(table.rows),
                key: table.primary_key.clone(),
                other: None,
                constraint: 0,
            };
            if !table.primary_key.is_empty() {
                let name = taken.index_name(&table.name);
                let index = Relation {
                    oid: taken.oid_of(&name),
                    constraint: taken.oid_of(&format!("{name} constraint")),
                    kind: "i",
                    columns: table
                        .primary_key
                        .iter()
                        .map(|place| table.columns[*place].clone())
                        .collect(),
                    rows: Some(table.rows),
                    key: table.primary_key.clone(),
                    other: Some(oid),
                    name,
                    schema: PUBLIC,
                };
                relation.other = Some(index.oid);
                relations.push(index);
            }
            relations.push(relation);
        }
        Self {
            contents,
            relations,
        }
    }

    pub(crate) fn relation(&self, oid: i64) -> Option<&Relation> {
        self.relations
            .iter()
            .find(|relation| i64::from(relation.oid) == oid)
    }

    /// The relation of that name; without a schema, where the search path finds it.
    pub(crate) fn relation_named(&self, schema: Option<&str>, name: &str) -> Option<&Relation> {
        let mut searched: Vec<&str> = vec!["pg_catalog", "public"];
        if let Some(schema) = schema {
            searched = vec![schema];
        }
        searched.iter().find_map(|schema| {
            let mut all = self.relations.iter();
            all.find(|relation| relation.name == name && relation.schema_name() == *schema)
        })
    }

    /// Whether the search path finds it by its name.
    pub(crate) fn is_visible(&self, relation: &Relation) -> bool {
        self.relation_named(None, &relation.name)
            .is_some_and(|found| found.oid == relation.oid)
    }

    /// The indexes of tables that have a key, each with its table.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&Relation, &Relation)> {
        let indexes = self.relations.iter().filter(|relation| relation.is_index());
        indexes.filter_map(|index| Some((index, self.relation(index.other?.into())?)))
    }

    pub(crate) fn index(&self, oid: i64) -> Option<(&Relation, &Relation)> {
        self.keys().find(|(index, _)| i64::from(index.oid) == oid)
    }
}

fn system_relation(declared: &Declared) -> Relation {
    let columns = declared.columns.iter().map(|column| Column {
        name: column.name.to_owned(),
        ty: column.ty,
        modifier: -1,
        is_nullable: column.is_nullable,
    });
    let schema = SCHEMAS.iter().find(|(_, name)| *name == declared.schema);
    Relation {
        oid: declared.oid,
        name: declared.name.to_owned(),
        schema: schema.map_or(PG_CATALOG, |(oid, _)| *oid),
        kind: declared.kind,
        columns: columns.collect(),
        rows: None,
        key: Vec::new(),
        other: None,
        constraint: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let column = Column {
            name: "n".into(),
            ty: Type::INT8,
            modifier: -1,
            is_nullable: false,
        };
        let table = |name: &str| Table {
            name: name.into(),
            columns: vec![column.clone()],
            primary_key: vec![0],
            rows: 0,
        };
        let contents = Contents {
            tables: vec![table("t"), table("t_pkey"), table("u")],
            ..Contents::default()
        };
        let objects = Objects::of(&contents);
        let oids: HashSet<u32> = objects
            .relations
            .iter()
            .map(|relation| relation.oid)
            .collect();
        assert_eq!(oids.len(), objects.relations.len());
        let names = |kind: &str| -> Vec<&str> {
            let all = objects
                .relations
                .iter()
                .filter(|relation| relation.kind == kind);
            all.map(|relation| relation.name.as_str()).collect()
        };
        assert_eq!(names("i"), ["t_pkey1", "t_pkey_pkey", "u_pkey"]);
        assert!(
            DECLARED
                .iter()
                .all(|table| table.columns.iter().all(|column| column.ty.row().is_some()))
        );
    }
}
