//! Tables whose catalog is asked for, as `schema.sql` makes them in PostgreSQL.

use tierra_catalog::{Column, Contents, Question, Table, Type};

fn column(name: &str, ty: Type, modifier: i32, is_nullable: bool) -> Column {
    Column {
        name: name.into(),
        ty,
        modifier,
        is_nullable,
    }
}

/// The tables of `schema.sql`.
pub(crate) fn contents() -> Contents {
    let all = vec![
        column("id", Type::INT8, -1, false),
        column("b", Type::BOOL, -1, true),
        column("i", Type::INT4, -1, true),
        column("f", Type::FLOAT8, -1, true),
        column("price", Type::NUMERIC, (9 << 16 | 2) + 4, true),
        column("d", Type::DATE, -1, true),
        column("ts", Type::TIMESTAMP, -1, true),
        column("name", Type::TEXT, -1, false),
    ];
    let pair = vec![
        column("Second", Type::TEXT, -1, false),
        column("note", Type::TEXT, -1, true),
        column("first", Type::INT4, -1, false),
    ];
    let table = |name: &str, columns: &[Column], primary_key: &[usize]| Table {
        name: name.into(),
        columns: columns.to_vec(),
        primary_key: primary_key.to_vec(),
        rows: 3,
    };
    Contents {
        database: "tierra".into(),
        user: "alice".into(),
        process: 7,
        version: "PostgreSQL 16.6 (Tierra)".into(),
        settings: vec![
            ("server_version_num".into(), "150000".into()),
            (
                "default_transaction_isolation".into(),
                "read committed".into(),
            ),
            ("search_path".into(), "\"$user\", public".into()),
        ],
        tables: vec![
            table("everything", &all, &[0]),
            table("Mixed Case", &pair, &[2, 0]),
            table("keyless", &pair[1..2], &[]),
        ],
        ..Contents::default()
    }
}

/// The rows of a query, a line each with tabs between the fields; or its error.
pub(crate) fn answer(query: &str) -> String {
    let rows = || {
        let question = Question::of(query)?;
        let Some(question) = question else {
            return Ok(None);
        };
        question.plan(&[])?.answer(&contents(), &[]).map(Some)
    };
    match rows() {
        Err(error) => format!("ERROR {}: {error}", error.code),
        Ok(None) => "not a query of the catalog".into(),
        Ok(Some(answer)) => {
            let rows = answer.texts().into_iter().map(|row| {
                let fields = row
                    .into_iter()
                    .map(|field| field.unwrap_or_else(|| "\\N".into()));
                fields.collect::<Vec<_>>().join("\t").replace('\n', "\\n")
            });
            rows.collect::<Vec<_>>().join("\n")
        }
    }
}
