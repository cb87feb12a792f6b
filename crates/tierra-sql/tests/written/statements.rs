//! The tables and statements of a script, as a random number says, in the words of both sides.
//!
//! SQLite is not asked where it means something else: it sees a statement's own changes in subqueries of the same table, and
//! compares keys row by row while it changes them.

/// The tables of a script.
pub(crate) const TABLES: [&str; 2] = ["t", "u"];
/// Small keys, so that they meet.
const KEYS: usize = 30;
/// Large numbers of rows have keys from here on.
const MANY_FROM: usize = 1000;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

/// A statement in the words of both sides.
pub(crate) struct Statement {
    pub(crate) ours: String,
    pub(crate) theirs: String,
}

impl Statement {
    pub(crate) fn same(sql: impl Into<String>) -> Self {
        let ours = sql.into();
        Self {
            theirs: ours.clone(),
            ours,
        }
    }
}

/// The columns of a table's key: of `id`, `a`, `b` and `s`.
type Key = &'static [&'static str];

/// The two tables.
pub(crate) struct Tables {
    keys: [Key; 2],
    has_index: [bool; 2],
    has_many: bool,
}

impl Tables {
    pub(crate) fn random(random: &mut Random) -> Self {
        let keys: [Key; 6] = [&["id"], &["id"], &[], &["s", "id"], &["s"], &["b"]];
        Self {
            keys: TABLES.map(|_| keys[random.below(keys.len())]),
            has_index: TABLES.map(|_| random.below(2) == 0),
            has_many: random.below(4) == 0,
        }
    }

    pub(crate) fn create(&self) -> impl Iterator<Item = Statement> {
        let tables = TABLES.iter().zip(self.keys).zip(self.has_index);
        tables.map(|((name, key), has_index)| {
            let columns = |integer: &str, double: &str| {
                let columns = [
                    ("id", integer),
                    ("a", "BIGINT"),
                    ("b", double),
                    ("s", "VARCHAR"),
                ];
                let columns = columns.map(|(column, ty)| match key.contains(&column) {
                    true => format!("{column} {ty} NOT NULL"),
                    false => format!("{column} {ty}"),
                });
                let mut parts = columns.to_vec();
                if !key.is_empty() {
                    parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
                }
                format!("CREATE TABLE {name} ({})", parts.join(", "))
            };
            let options = match has_index {
                true => " WITH ('s.encoding' = 'dictionary', 's.index' = 'inverted')",
                false => "",
            };
            Statement {
                ours: columns("INTEGER", "DOUBLE") + options,
                // SQLite gives a key that is called INTEGER a number of its own where it would be NULL.
                theirs: columns("INT", "REAL"),
            }
        })
    }

    /// A statement that changes rows.
    pub(crate) fn statement(&self, random: &mut Random) -> Statement {
        let which = random.below(TABLES.len());
        let (table, other, key) = (TABLES[which], TABLES[1 - which], self.keys[which]);
        let returning = random.of(&["", "", "", " RETURNING *", " RETURNING id, a + 1, s"]);
        let condition = condition(random, table, other);
        Statement::same(match random.below(if self.has_many { 17 } else { 15 }) {
            0..=2 => format!(
                "INSERT INTO {table} VALUES {}{returning}",
                rows(random, key, 6)
            ),
            3 => format!(
                "INSERT INTO {table} VALUES {} ON CONFLICT DO NOTHING{returning}",
                rows(random, key, 6)
            ),
            4 | 5 if !key.is_empty() => {
                let set = random.of(&["a = excluded.a", "a = coalesce({t}.a, 0) + 1"]);
                let only = random.of(&["", "", " WHERE excluded.a > 10", " WHERE {t}.a < 20"]);
                format!(
                    "INSERT INTO {table} VALUES {} ON CONFLICT ({}) DO UPDATE SET {}{}{returning}",
                    rows(random, key, 1),
                    key.join(", "),
                    set.replace("{t}", table),
                    only.replace("{t}", table)
                )
            }
            6 => format!(
                "INSERT INTO {table} SELECT id + {}, a, b, s FROM {other} WHERE {}{returning}",
                random.of(&["0", "40"]),
                self::condition(random, other, table)
            ),
            7..=9 => format!("DELETE FROM {table} WHERE {condition}{returning}"),
            10 if random.below(6) == 0 => format!("DELETE FROM {table}"),
            15 => return many(random, table),
            16 => {
                let of = [2, 3, 10, 50][random.below(4)];
                let part = format!("id >= {MANY_FROM} AND id % {of} = 0");
                match random.below(2) {
                    0 => format!("DELETE FROM {table} WHERE {part}"),
                    _ => format!("UPDATE {table} SET a = a + 1 WHERE {part}"),
                }
            }
            _ => format!(
                "UPDATE {table} SET {} WHERE {condition}{returning}",
                assignment(random, other, table, key)
            ),
        })
    }

    /// Queries for all rows, and for some of them in ways of their own.
    pub(crate) fn queries(&self, random: &mut Random) -> Vec<String> {
        let mut queries =
            vec!["SELECT t.id, u.a FROM t JOIN u ON t.id = u.id WHERE t.s = 's4'".to_string()];
        for (table, other) in [(0, 1), (1, 0)].map(|(one, other)| (TABLES[one], TABLES[other])) {
            let condition = condition(random, table, other);
            queries.extend([
                format!("SELECT id, a, b, s FROM {table}"),
                format!(
                    "SELECT count(*), count(a), min(a), max(a), sum(a), min(s), max(id), min(b) FROM {table}"
                ),
                format!("SELECT id, a FROM {table} WHERE {condition}"),
                format!("SELECT count(*) FROM {table} WHERE {condition}"),
                format!("SELECT s, count(*) FROM {table} WHERE a > 10 GROUP BY s"),
                format!("SELECT id, b FROM {table} WHERE s = 's{}'", random.below(9)),
            ]);
        }
        queries
    }
}

/// Tens of thousands of rows.
fn many(random: &mut Random, table: &str) -> Statement {
    let first = MANY_FROM + random.below(90_000);
    let count = [1_500, 20_000, 70_000][random.below(3)];
    let last = first + count - 1;
    let values = format!(
        "value, value % 7, value / 2.0, 's' || (value % {})",
        random.of(&["9", "1000003"])
    );
    Statement {
        ours: format!("INSERT INTO {table} SELECT {values} FROM generate_series({first}, {last})"),
        theirs: format!(
            "INSERT INTO {table} WITH RECURSIVE g(value) AS (SELECT {first} UNION ALL SELECT value + 1 FROM g LIMIT {count}) \
             SELECT {values} FROM g"
        ),
    }
}

/// A value of a column; NULL only where it may be.
fn value(random: &mut Random, column: &str, key: Key) -> String {
    if !key.contains(&column) && random.below(8) == 0 {
        return "NULL".to_string();
    }
    let small = random.below(KEYS);
    match column {
        "id" => small.to_string(),
        "a" if random.below(4) == 0 => (small as i64 * 1_000_000_007 - 9_000_000_000).to_string(),
        "a" => small.to_string(),
        "b" => format!("{}.{}", small, 5 * random.below(2)),
        _ if random.below(20) == 0 => {
            format!("'{}{small}'", "x".repeat([13, 5000][random.below(2)]))
        }
        _ => format!("'s{}'", small % 9),
    }
}

fn rows(random: &mut Random, key: Key, most: usize) -> String {
    let rows = (0..1 + random.below(most)).map(|_| {
        let values = ["id", "a", "b", "s"].map(|column| value(random, column, key));
        format!("({})", values.join(", "))
    });
    rows.collect::<Vec<_>>().join(", ")
}

/// New values of columns that are in no key.
fn assignment(random: &mut Random, other: &str, table: &str, key: Key) -> String {
    let column = match key {
        ["b"] => random.of(&["a", "s"]),
        ["s"] | ["s", "id"] => random.of(&["a", "b"]),
        _ => random.of(&["a", "b", "s"]),
    };
    match (column, random.below(4)) {
        ("a", 0) => "a = a + 1".to_string(),
        ("a", 1) => format!("a = (SELECT count(*) FROM {other} AS o WHERE o.id < {table}.id)"),
        ("b", 0) => "b = -b, a = id".to_string(),
        ("s", 0) => "s = s || 'y'".to_string(),
        (column, _) => format!("{column} = {}", value(random, column, key)),
    }
}

/// A condition on `table`.
fn condition(random: &mut Random, table: &str, other: &str) -> String {
    let [one, two, three] = [0; 3].map(|_| random.below(KEYS));
    match random.below(12) {
        0 => "a IS NULL".to_string(),
        1 => format!("a < {one}"),
        2 => format!("s = 's{}'", one % 9),
        3 => format!("id IN ({one}, {two}, {three})"),
        4 => format!("id IN (SELECT id FROM {other} WHERE a > {one})"),
        5 => format!("a = (SELECT max(a) FROM {other})"),
        6 => format!("id % {} = 0", 2 + one % 4),
        7 => format!("EXISTS (SELECT 1 FROM {other} AS o WHERE o.id = {table}.id AND o.s = 's2')"),
        8 => format!("s IN ('s1', 's{}', 'none') AND id > {two}", one % 9),
        9 => format!("b >= {one}.5 AND NOT (a > {two})"),
        10 => format!("s = 's{}' AND id = {two}", one % 9),
        _ => format!("id = {one}"),
    }
}
