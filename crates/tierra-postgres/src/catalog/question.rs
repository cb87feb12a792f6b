//! A query of the catalog, taken apart: what it is about, which of it, and what of each.

use tierra_sql::{Lexeme, Statement};

use super::pattern::Pattern;
use crate::words::Words;

/// A query that is understood.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Question {
    /// The names of the columns, and what they are.
    pub(super) columns: Vec<(String, String)>,
    pub(super) subject: Subject,
    pub(super) conditions: Vec<Condition>,
}

/// What rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Tables,
    Columns,
    /// Primary keys, as indexes.
    Keys,
    Schemas,
    Databases,
    Users,
    /// Something that Tierra does not have: there are none.
    Nothing,
}

/// A condition that is more than what holds for all rows.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The name is one of these.
    Name(Pattern),
    /// So is the schema's.
    Schema(Pattern),
    /// It is, or belongs to, the table with this number.
    Table(u32),
    /// No table, but something else.
    NoTable,
}

/// Tables of the catalog in which Tierra would have no rows.
const EMPTY: &[&str] = &[
    "pg_attrdef",
    "pg_enum",
    "pg_event_trigger",
    "pg_extension",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_policy",
    "pg_proc",
    "pg_publication",
    "pg_publication_namespace",
    "pg_publication_rel",
    "pg_rewrite",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_trigger",
];

/// Constraints that no table has: psql asks for each kind of them alone. Primary keys are constraints, too.
const NO_CONSTRAINTS: &[&str] = &["contype='c'", "contype='f'", "contype='n'"];
/// Functions that make one row of many, or of none.
const AGGREGATES: &[&str] = &[
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "json_agg",
    "jsonb_agg",
    "max",
    "min",
    "string_agg",
    "sum",
];
/// What rows come sorted by.
const SORTED: &[&str] = &[
    "n.nspname",
    "c.relname",
    "a.attnum",
    "d.datname",
    "r.rolname",
    "i.indisprimarydesc",
    "c2.relname",
];

/// Words that begin a clause, or join queries, which are not understood.
const NOT_UNDERSTOOD: &[&str] = &[
    "except",
    "fetch",
    "for",
    "having",
    "intersect",
    "into",
    "offset",
    "window",
];

/// Conditions that hold for everything that there is.
const ALWAYS: &[&str] = &[
    "n.nspname<>'pg_catalog'",
    "n.nspname<>'information_schema'",
    "n.nspname!~'^pg_toast'",
    "n.nspname!~'^pg_'",
    "r.rolname!~'^pg_'",
    "pg_catalog.pg_table_is_visible(c.oid)",
    "a.attnum>0",
    "nota.attisdropped",
    "c.oid=i.indrelid",
    "i.indexrelid=c2.oid",
];

impl Question {
    /// The query, if it is one of these.
    pub(crate) fn of(statement: &Statement) -> Option<Self> {
        let lexemes = statement.lexemes();
        let mentions = lexemes.iter().filter_map(Lexeme::name);
        if !mentions
            .clone()
            .any(|name| name.starts_with("pg_") && name != "pg_catalog")
        {
            return None;
        }
        let mut parts = split(lexemes, |lexeme| lexeme.is("union")).into_iter();
        let first = Self::of_select(parts.next()?)?;
        for part in parts {
            let other = Self::of_select(part)?;
            // Of several queries only those without rows are understood.
            if (first.subject, other.subject) != (Subject::Nothing, Subject::Nothing) {
                return None;
            }
        }
        Some(first)
    }

    fn of_select(lexemes: &[Lexeme]) -> Option<Self> {
        let (first, rest) = lexemes.split_first()?;
        if !first.is("select") || cut(rest, NOT_UNDERSTOOD).is_some() {
            return None;
        }
        let is_distinct = rest.first()?.is("distinct");
        let rest = &rest[usize::from(is_distinct)..];
        if rest.first()?.is("on") {
            return None;
        }
        let (items, rest) = cut(rest, &["from"])?;
        let (from, rest) =
            cut(&rest[1..], &["where", "order", "group", "limit"]).unwrap_or((&rest[1..], &[]));
        let (conditions, rest) = match rest.first().is_some_and(|lexeme| lexeme.is("where")) {
            true => cut(&rest[1..], &["order", "group", "limit"]).unwrap_or((&rest[1..], &[])),
            false => (&[][..], rest),
        };
        if rest.first().is_some_and(|lexeme| !lexeme.is("order")) {
            return None;
        }
        let columns: Vec<_> = split(items, |lexeme| lexeme.is_mark(","))
            .into_iter()
            .map(column)
            .collect::<Option<_>>()?;
        if columns.iter().any(|(_, what)| is_aggregate(what)) {
            return None;
        }
        let all = split(conditions, |lexeme| lexeme.is("and"));
        let all: Vec<_> = all.into_iter().filter(|part| !part.is_empty()).collect();
        let subject = subject(from, &columns, &all)?;
        let conditions = match subject {
            Subject::Nothing => Vec::new(),
            _ => {
                let known: Vec<_> = all.into_iter().map(condition).collect::<Option<_>>()?;
                known.into_iter().flatten().collect()
            }
        };
        if subject != Subject::Nothing && (is_distinct || !is_sorted(rest, &columns)) {
            return None;
        }
        Some(Self {
            columns,
            subject,
            conditions,
        })
    }
}

/// The tokens before the first of these keywords outside of brackets, and those from it on.
fn cut<'a>(lexemes: &'a [Lexeme], keywords: &[&str]) -> Option<(&'a [Lexeme], &'a [Lexeme])> {
    let mut depth = 0;
    for (place, lexeme) in lexemes.iter().enumerate() {
        depth += depth_of(lexeme);
        if depth == 0 && keywords.iter().any(|keyword| lexeme.is(keyword)) {
            return Some(lexemes.split_at(place));
        }
    }
    None
}

fn depth_of(lexeme: &Lexeme) -> i32 {
    i32::from(lexeme.is_mark("(") || lexeme.is_mark("["))
        - i32::from(lexeme.is_mark(")") || lexeme.is_mark("]"))
}

/// The parts between marks outside of brackets.
fn split(lexemes: &[Lexeme], is_mark: impl Fn(&Lexeme) -> bool) -> Vec<&[Lexeme]> {
    let mut depth = 0;
    let parts = lexemes.split(|lexeme| {
        depth += depth_of(lexeme);
        depth == 0 && is_mark(lexeme)
    });
    parts.collect()
}

/// Tokens as one text, without blanks.
fn text(lexemes: &[Lexeme]) -> String {
    let mut text = String::new();
    for lexeme in lexemes {
        match lexeme {
            Lexeme::Word { text: word, .. } | Lexeme::Number(word) | Lexeme::Other(word) => {
                text += word
            }
            Lexeme::Text(quoted) => text += &format!("'{quoted}'"),
        }
    }
    text
}

/// The name of a column, and what it is.
fn column(lexemes: &[Lexeme]) -> Option<(String, String)> {
    let (last, before) = lexemes.split_last()?;
    if let (Some(name), Some((as_, item))) = (last.name(), before.split_last())
        && as_.is("as")
    {
        return Some((name.to_owned(), text(item)));
    }
    let name = last.name().unwrap_or("?column?");
    Some((name.to_owned(), text(lexemes)))
}

/// Whether a column is computed of all rows. Those of a query within it are not of this one.
fn is_aggregate(what: &str) -> bool {
    let own = what.split("(select").next().unwrap_or_default();
    AGGREGATES.iter().any(|name| {
        own.match_indices(&format!("{name}(")).any(|(at, _)| {
            // `pg_catalog.max(`, and no longer name that ends so.
            !own[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_')
        })
    })
}

/// Whether rows come as `ORDER BY ..` asks for them, and all of them.
fn is_sorted(order: &[Lexeme], columns: &[(String, String)]) -> bool {
    let Some((_, order)) = order.split_first() else {
        return true;
    };
    let Some((by, keys)) = order.split_first() else {
        return false;
    };
    let keys = split(keys, |lexeme| lexeme.is_mark(","));
    let is_known = |key: &[Lexeme]| {
        let written = text(key);
        let column = written.parse::<usize>().ok();
        let what = column.and_then(|place| columns.get(place.checked_sub(1)?));
        SORTED.contains(&what.map_or(written.as_str(), |(_, what)| what))
    };
    by.is("by") && keys.into_iter().all(is_known)
}

/// What the query is about, by the tables that it reads and its conditions.
fn subject(
    from: &[Lexeme],
    columns: &[(String, String)],
    conditions: &[&[Lexeme]],
) -> Option<Subject> {
    let needed = needed(from)?;
    if needed.contains(&"pg_index") && columns.iter().any(|(_, what)| what == "i.indisprimary") {
        let is_known = needed
            .iter()
            .all(|name| ["pg_index", "pg_class"].contains(name));
        return is_known.then_some(Subject::Keys);
    }
    let has_none = || {
        conditions.iter().any(|condition| {
            let written = text(condition);
            let unqualified = written
                .rsplit_once('.')
                .map_or(written.as_str(), |(_, name)| name);
            NO_CONSTRAINTS.contains(&unqualified)
        })
    };
    if needed.contains(&"pg_constraint") {
        return has_none().then_some(Subject::Nothing);
    }
    if needed.iter().any(|name| EMPTY.contains(name)) {
        return Some(Subject::Nothing);
    }
    match needed.as_slice() {
        ["pg_class"] => Some(Subject::Tables),
        ["pg_attribute"] => Some(Subject::Columns),
        ["pg_namespace"] => Some(Subject::Schemas),
        // The second is where its files are.
        ["pg_database"] | ["pg_database", "pg_tablespace"] => Some(Subject::Databases),
        ["pg_roles"] => Some(Subject::Users),
        _ => None,
    }
}

/// The tables of FROM that a row must have, in order; those of a LEFT JOIN it need not. `None` if there is anything else than tables,
/// their other names, and joins ON columns.
fn needed(from: &[Lexeme]) -> Option<Vec<&str>> {
    let mut words = Words::new(from, 0);
    let mut needed = vec![table(&mut words)?];
    while words.peek().is_some() {
        let is_listed = words.next_is_mark(",");
        let is_left = !is_listed && words.next_is("left");
        if is_left {
            words.next_is("outer");
        } else if !is_listed {
            words.next_is("inner");
        }
        if !is_listed && !words.next_is("join") {
            return None;
        }
        let name = table(&mut words)?;
        if !is_left {
            needed.push(name);
        }
        if !is_listed {
            joined_on(&mut words)?;
        }
    }
    Some(needed)
}

/// A table of the catalog, and what else it is called.
fn table<'a>(words: &mut Words<'a>) -> Option<&'a str> {
    if words.next_is("pg_catalog") && !words.next_is_mark(".") {
        return None;
    }
    let name = words.next()?.name()?;
    let is_named = words.next_is("as");
    let joins = [
        "cross", "full", "inner", "join", "left", "natural", "on", "right",
    ];
    match words.peek() {
        Some(Lexeme::Word { text, quoted }) if *quoted || !joins.contains(&text.as_str()) => {
            words.next();
        }
        _ if is_named => return None,
        _ => {}
    }
    Some(name)
}

/// `ON (..)`, or ON and conditions of qualified columns, up to the next join.
fn joined_on(words: &mut Words<'_>) -> Option<()> {
    if !words.next_is("on") {
        return None;
    }
    let mut depth = 0;
    let mut is_qualified = false;
    while let Some(lexeme) = words.peek() {
        let is_end =
            lexeme.is_mark(",") || ["inner", "join", "left"].iter().any(|word| lexeme.is(word));
        if depth == 0 && is_end {
            break;
        }
        words.next();
        depth += depth_of(lexeme);
        let is_behind = std::mem::replace(&mut is_qualified, lexeme.is_mark("."));
        let is_known = match lexeme {
            Lexeme::Word { .. } => {
                let is_before = words.peek().is_some_and(|next| next.is_mark("."));
                is_behind || is_before || lexeme.is("and") || lexeme.is("true")
            }
            Lexeme::Text(_) | Lexeme::Number(_) | Lexeme::Other(_) => true,
        };
        if depth == 0 && !is_known {
            return None;
        }
    }
    (depth == 0).then_some(())
}

/// A condition; `Some(None)` if it always holds.
fn condition(lexemes: &[Lexeme]) -> Option<Option<Condition>> {
    let written = text(lexemes);
    if ALWAYS.contains(&written.as_str()) {
        return Some(None);
    }
    if written.starts_with("c.relkindin(") {
        let kinds = lexemes.get(5..)?;
        let (close, kinds) = kinds.split_last()?;
        let kinds = split(kinds, |lexeme| lexeme.is_mark(","));
        let kinds = kinds.into_iter().map(|kind| match kind {
            [Lexeme::Text(kind)] => Some(kind.as_str()),
            _ => None,
        });
        let kinds: Vec<_> = kinds.collect::<Option<_>>()?;
        let has_tables = kinds.contains(&"r");
        return close
            .is_mark(")")
            .then_some((!has_tables).then_some(Condition::NoTable));
    }
    let literal = lexemes.iter().find_map(|lexeme| match lexeme {
        Lexeme::Text(text) => Some(text),
        _ => None,
    })?;
    let plain = written.trim_end_matches("collatepg_catalog.default");
    for (name, is_schema) in [
        ("c.relname", false),
        ("d.datname", false),
        ("r.rolname", false),
        ("n.nspname", true),
    ] {
        if plain == format!("{name}operator(pg_catalog.~)'{literal}'") {
            let pattern = Pattern::of(literal)?;
            return Some(Some(match is_schema {
                true => Condition::Schema(pattern),
                false => Condition::Name(pattern),
            }));
        }
    }
    for name in ["c.oid", "a.attrelid"] {
        if written == format!("{name}='{literal}'") {
            return Some(Some(Condition::Table(literal.parse().ok()?)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(sql: &str) -> Option<Question> {
        Question::of(&tierra_sql::statements(sql).unwrap()[0])
    }

    const TABLES: &str = r#"SELECT n.nspname as "Schema", c.relname as "Name",
        CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END as "Type",
        pg_catalog.pg_get_userbyid(c.relowner) as "Owner"
        FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam
        WHERE c.relkind IN ('r','p','') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast'
        AND n.nspname <> 'information_schema' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2;"#;

    #[test]
    fn the_parts_of_a_query_are_told_apart() {
        let found = question(TABLES).unwrap();
        let names: Vec<&str> = found
            .columns
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["Schema", "Name", "Type", "Owner"]);
        assert_eq!(found.columns[3].1, "pg_catalog.pg_get_userbyid(c.relowner)");
        assert_eq!((found.subject, found.conditions), (Subject::Tables, vec![]));
        let views = question(&TABLES.replace("'r','p',''", "'v',''")).unwrap();
        assert_eq!(views.conditions, [Condition::NoTable]);
        let one = question(
            "SELECT c.oid, n.nspname, c.relname FROM pg_catalog.pg_class c
             LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.relname OPERATOR(pg_catalog.~) '^(items)$' COLLATE pg_catalog.default
             AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 2, 3;",
        )
        .unwrap();
        assert_eq!(
            one.conditions,
            [Condition::Name(Pattern::of("^(items)$").unwrap())]
        );
        let none = question(
            "SELECT pubname, NULL FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_class pc ON true
             UNION SELECT pubname, NULL FROM pg_catalog.pg_publication p ORDER BY 1",
        );
        assert_eq!(none.unwrap().subject, Subject::Nothing);
    }

    #[test]
    fn what_is_not_known_is_not_answered() {
        for sql in [
            "SELECT 1",
            "SELECT * FROM pg_notes",
            "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relname = 'x'",
            "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relname OPERATOR(pg_catalog.~) '^(a|b)$'",
            "SELECT count(*) FROM pg_catalog.pg_proc p",
            "SELECT c.relname FROM pg_catalog.pg_class c, pg_catalog.pg_namespace n",
            "SELECT c.relname FROM pg_catalog.pg_class c LIMIT 1",
            "SELECT c.relname FROM pg_catalog.pg_class c ORDER BY c.relname DESC LIMIT 1",
            "SELECT c.relname FROM pg_catalog.pg_class c ORDER BY 1 LIMIT 1",
            "SELECT c.oid FROM pg_catalog.pg_class c ORDER BY 1",
            "SELECT conname FROM pg_catalog.pg_constraint WHERE contype = 'p'",
            "SELECT indexrelid FROM pg_catalog.pg_index",
            "SELECT array_agg(proname) FROM pg_catalog.pg_proc",
            "SELECT pg_catalog.max(oid) FROM pg_catalog.pg_proc",
            "SELECT c.relname FROM pg_catalog.pg_class c UNION SELECT pubname FROM pg_catalog.pg_publication p",
            "SELECT c.relname FROM pg_catalog.pg_class c EXCEPT SELECT 'x'",
            "SELECT c.relname FROM pg_catalog.pg_class c WHERE a.attnum > 0 INTERSECT SELECT 'x'",
            "SELECT c.relname FROM pg_catalog.pg_class c OFFSET 1",
            "SELECT c.relname FROM pg_catalog.pg_class c ORDER BY 1 OFFSET 1",
            "SELECT c.relname FROM pg_catalog.pg_class c FETCH FIRST 1 ROW ONLY",
            "SELECT c.relname FROM pg_catalog.pg_class c TABLESAMPLE SYSTEM (1)",
            "SELECT c.relname FROM pg_catalog.pg_class c NATURAL JOIN pg_catalog.pg_proc p",
            "SELECT c.relname FROM pg_catalog.pg_class c CROSS JOIN pg_catalog.pg_namespace n",
            "SELECT c.relname FROM pg_catalog.pg_class c RIGHT JOIN pg_catalog.pg_namespace n ON (true)",
            "SELECT c.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON true OFFSET 1",
            "SELECT c.relname FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n USING (oid)",
            "SELECT 1 FROM pg_catalog.pg_proc RIGHT JOIN pg_catalog.pg_class c ON (true)",
            "SELECT 1 FROM pg_catalog.pg_proc FULL JOIN pg_catalog.pg_class c ON (true)",
            "SELECT c.relname FROM (SELECT 1) pg_class",
            "SELECT c.relname FROM ONLY pg_catalog.pg_class c",
            "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relkind IN ('v') OR c.relkind IN ('r')",
            "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relkind IN ('v', lower('r'))",
            "SELECT c.relname FROM pg_catalog.pg_class c WHERE c.relkind IN ('v') IS NULL",
            "SELECT DISTINCT c.relname FROM pg_catalog.pg_class c",
            "SELECT DISTINCT ON (1) proname FROM pg_catalog.pg_proc",
            "SELECT 1 FROM pg_catalog.pg_proc HAVING true",
        ] {
            assert_eq!(question(sql), None, "{sql}");
        }
    }
}
