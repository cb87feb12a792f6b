//! Tab completion: keywords, table and column names, dot commands. It also decides when Enter ends a statement instead of
//! starting its next line.

use rustyline::{
    Context, Helper, Highlighter, Hinter,
    completion::{Completer, Pair},
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::{
    ddl::quoted,
    dot::{COMMANDS, meant},
};
use crate::cli::script::{Kind, pieces};

#[rustfmt::skip]
const KEYWORDS: [&str; 92] = [
    "ALL", "ALTER", "ANALYZE", "AND", "AS", "ASC", "AVG", "BEGIN", "BETWEEN", "BIGINT", "BOOLEAN", "BY", "CASE",
    "CAST", "COMMIT", "CONFLICT", "COUNT", "CREATE", "CROSS", "DATE", "DEALLOCATE", "DECIMAL", "DELETE", "DESC",
    "DISTINCT", "DO", "DOUBLE", "DROP", "ELSE", "END", "EXCEPT", "EXECUTE", "EXISTS", "EXPLAIN", "EXTRACT", "FALSE",
    "FROM", "FULL", "GROUP", "HAVING", "IF", "IN", "INNER", "INSERT", "INTEGER", "INTERSECT", "INTERVAL", "INTO",
    "IS", "JOIN", "KEY", "LEFT", "LIKE", "LIMIT", "MATCHED", "MAX", "MERGE", "MIN", "NOT", "NOTHING", "NULL",
    "OFFSET", "ON", "OR", "ORDER", "OUTER", "OVER", "PARTITION", "PREPARE", "PRIMARY", "RETURNING", "RIGHT",
    "ROLLBACK", "SAVEPOINT", "SELECT", "SET", "SHOW", "SUM", "TABLE", "THEN", "TIER", "TIMESTAMP", "TRUE", "TRUNCATE",
    "UNION", "UPDATE", "USING", "VALUES", "VARCHAR", "WHEN", "WHERE", "WITH",
];

/// Keywords that a table's name follows.
const BEFORE_TABLES: [&str; 6] = ["FROM", "JOIN", "INTO", "TABLE", "UPDATE", "USING"];

/// The names for completion, refreshed after every statement.
#[derive(Default, Helper, Highlighter, Hinter)]
pub(crate) struct Names {
    /// Tables with their columns.
    pub(crate) tables: Vec<(String, Vec<String>)>,
}

impl Names {
    /// The start of the word before the cursor, and its completions.
    fn candidates(&self, before: &str) -> (usize, Vec<String>) {
        if before.starts_with('.') {
            return self.dot_candidates(before);
        }
        let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let start = before.trim_end_matches(part_of_word).len();
        let (context, word) = before.split_at(start);
        if let Some(qualified) = context.strip_suffix('.') {
            let table = &qualified[qualified.trim_end_matches(part_of_word).len()..];
            let columns = self
                .tables
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(table));
            let columns = columns.flat_map(|(_, columns)| columns);
            return (start, starting_with(word, columns.map(|name| quoted(name))));
        }
        let tables = self.tables.iter().map(|(name, _)| quoted(name));
        let previous = context.split_whitespace().next_back().unwrap_or_default();
        if BEFORE_TABLES
            .iter()
            .any(|keyword| keyword.eq_ignore_ascii_case(previous))
        {
            return (start, starting_with(word, tables));
        }
        if word.is_empty() {
            // Every name would fit, which does not help.
            return (start, Vec::new());
        }
        let columns = self.tables.iter().flat_map(|(_, columns)| columns);
        let names = tables.chain(columns.map(|name| quoted(name)));
        let lower = word.starts_with(|c: char| c.is_lowercase());
        let keywords = KEYWORDS.iter().map(|keyword| match lower {
            true => keyword.to_lowercase(),
            false => (*keyword).to_owned(),
        });
        (start, starting_with(word, names.chain(keywords)))
    }

    fn dot_candidates(&self, before: &str) -> (usize, Vec<String>) {
        match before.strip_prefix(".schema ") {
            Some(word) => {
                let tables = self.tables.iter().map(|(name, _)| name.clone());
                (before.len() - word.len(), starting_with(word, tables))
            }
            None => {
                let commands = COMMANDS.iter().map(|command| command.0.to_owned());
                (0, starting_with(before, commands))
            }
        }
    }
}

/// The names that begin with `word` in any case, each once, sorted.
fn starting_with(word: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let fits = |name: &String| {
        let name = name.trim_start_matches('"').as_bytes();
        name.len() >= word.len() && name[..word.len()].eq_ignore_ascii_case(word.as_bytes())
    };
    let mut names: Vec<String> = names.filter(fits).collect();
    names.sort_unstable();
    names.dedup();
    names
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, names) = self.candidates(&line[..cursor]);
        let pair = |name: String| Pair {
            display: name.clone(),
            replacement: name,
        };
        Ok((start, names.into_iter().map(pair).collect()))
    }
}

impl Validator for Names {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let unfinished = pieces(context.input())
            .any(|piece| piece.kind == Kind::Unfinished && meant(piece.text).is_none());
        Ok(match unfinished {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(before: &str) -> (usize, Vec<String>) {
        let table = |name: &str, columns: &[&str]| {
            let columns = columns.iter().map(|column| (*column).to_owned());
            (name.to_owned(), columns.collect())
        };
        let tables = vec![
            table("orders", &["o_key", "o_date", "Odd One"]),
            table("Oddities", &["id"]),
        ];
        Names { tables }.candidates(before)
    }

    #[test]
    fn the_context_decides_what_fits() {
        let expect = |before, start, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(complete(before), (start, names), "{before}");
        };
        expect("sel", 0, &["select"]);
        expect("SEL", 0, &["SELECT"]);
        expect("select * from ", 14, &["\"Oddities\"", "orders"]);
        expect("select * from or", 14, &["orders"]);
        expect("select orders.o_", 14, &["o_date", "o_key"]);
        expect("select o_d", 7, &["o_date"]);
        expect("select odd", 7, &["\"Odd One\"", "\"Oddities\""]);
        expect("select ", 7, &[]);
        expect(".t", 0, &[".tables", ".timer"]);
        expect(".schema o", 8, &["Oddities", "orders"]);
    }

    #[test]
    fn keywords_are_sorted_so_that_none_is_listed_twice() {
        assert!(KEYWORDS.is_sorted());
    }
}
