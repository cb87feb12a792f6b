//! The promise of `CREATE TABLE .. WITH (..)`: an option is honoured or refused by name, whatever it
//! is, and a table that is refused is not there.

use proptest::prelude::*;
use tierra::{Database, engine::ColumnSpec};

/// Columns of the table: a name that needs quotes and one with a dot among them.
const COLUMNS: [&str; 4] = ["a", "b", "Odd one", "a.b"];
const ENCODINGS: [&str; 6] = ["plain", "static", "dynamic", "for", "delta", "dictionary"];

/// One option as it is written.
#[derive(Clone, Debug)]
struct Written {
    key: String,
    value: String,
}

fn written() -> impl Strategy<Value = Written> {
    let column = prop_oneof![
        6 => proptest::sample::select(&COLUMNS[..]).prop_map(str::to_owned),
        1 => "[aAé. '\"]{0,3}",
    ];
    let property = prop_oneof![
        4 => Just(".encoding".to_owned()),
        3 => Just(".tier".to_owned()),
        2 => Just(".index".to_owned()),
        1 => "[.a-zA-Z']{0,9}",
    ];
    let value = prop_oneof![
        4 => proptest::sample::select(&ENCODINGS[..]).prop_map(str::to_owned),
        3 => proptest::sample::select(&["near", "far", "NEAR", "Plain"][..]).prop_map(str::to_owned),
        2 => proptest::sample::select(&["inverted", "Inverted"][..]).prop_map(str::to_owned),
        1 => "\\PC{0,6}",
    ];
    (column, property, value).prop_map(|(column, property, value)| Written {
        key: column + &property,
        value,
    })
}

/// What an option means: a column, a property of it, and that property's value.
type Meaning = (usize, fn(&ColumnSpec) -> Option<String>, String);

impl Written {
    /// What it means, if anything.
    fn meaning(&self) -> Option<Meaning> {
        let (column, property) = self.key.rsplit_once('.')?;
        let column = COLUMNS.iter().position(|name| *name == column)?;
        let value = self.value.to_lowercase();
        let encoding = |column: &ColumnSpec| column.encoding.map(|of| of.to_string());
        let tier = |column: &ColumnSpec| {
            let name = |near| if near { "near" } else { "far" };
            column.near.map(|near| name(near).to_owned())
        };
        let index = |column: &ColumnSpec| column.index.map(|of| of.to_string());
        match property {
            "index" if value == "inverted" => Some((column, index, value)),
            "encoding" if ENCODINGS.contains(&value.as_str()) => Some((column, encoding, value)),
            "tier" if ["near", "far"].contains(&value.as_str()) => Some((column, tier, value)),
            _ => None,
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[test]
fn an_option_is_honoured_or_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::create(scratch.path().join("db")).unwrap();
    let options = proptest::collection::vec(written(), 0..4);
    proptest!(ProptestConfig::with_cases(256), |(options in options)| {
        let listed: Vec<String> = options
            .iter()
            .map(|option| format!("{} = {}", quoted(&option.key), quoted(&option.value)))
            .collect();
        let with = match listed[..] {
            [] => String::new(),
            _ => format!("WITH ({})", listed.join(", ")),
        };
        let create = format!(
            "CREATE TABLE t (a INTEGER, b VARCHAR, \"Odd one\" DOUBLE, \"a.b\" BIGINT) {with}"
        );
        let meanings: Vec<_> = options.iter().map(Written::meaning).collect();
        match db.sql(&create) {
            Ok(_) => {
                let table = db.engine().table("t").expect("it was created");
                for (at, meaning) in meanings.iter().enumerate() {
                    let Some((column, get, value)) = meaning else {
                        panic!("{} was accepted", listed[at]);
                    };
                    // The last of two that contradict each other counts.
                    let same = |later: &Written| later.key == options[at].key;
                    if !options[at + 1..].iter().any(same) {
                        let found = get(&table.spec().columns[*column]);
                        prop_assert_eq!(found.as_ref(), Some(value));
                    }
                }
                db.sql("INSERT INTO t VALUES (1, 'x', 0.5, NULL), (NULL, '', -1, 2)").unwrap();
                table.seal().unwrap();
                let found = db.sql("SELECT * FROM t WHERE a = 1 OR \"a.b\" = 2").unwrap();
                prop_assert_eq!(found.row_count(), 2);
                db.sql("DROP TABLE t").unwrap();
            }
            Err(error) => {
                let error = error.to_string();
                prop_assert!(db.engine().table("t").is_none(), "{}", error);
                // Those that mean nothing are named; others only clash with their column's type.
                let refused = options.iter().zip(&meanings).find(|(_, meaning)| meaning.is_none());
                if let Some((option, _)) = refused {
                    let column = option.key.rsplit_once('.').map_or("", |(column, _)| column);
                    let named = error.contains(&option.key) || error.contains(column);
                    prop_assert!(named, "{} for {:?}", error, option);
                } else {
                    let clashes = ["VARCHAR cannot be stored with encoding", "an inverted index needs"];
                    let is_clash = clashes.iter().any(|clash| error.contains(clash));
                    prop_assert!(is_clash, "{} for {:?}", error, options);
                }
            }
        }
    });
}
