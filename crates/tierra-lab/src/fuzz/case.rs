//! One query, and what its answer is compared with: a peer's answer, or Tierra's own to equivalent queries.
//!
//! A condition is true, false or unknown for every row. So the rows of a query are the union of the rows with the condition,
//! with its negation, and with an unknown one (Rigger and Su, Finding Bugs in Database Systems via Query Partitioning, 2020).
//! And the rows that a filter passes are those for which the condition in the select list is true.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::choices::Choices;
use super::construct::Construct;
use super::grammar::{Grammar, Limits};
use super::sql::{Dialect, Sql, sql};
use super::table::Table;
use super::value::Type;

/// The most pairs of rows in a join, for small and for large tables.
const PRODUCTS: [u128; 2] = [20_000, 700_000];

/// One query and its comparison.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// What is compared.
    pub(crate) kind: Kind,
    /// Tierra's statements; the last one gives the answer.
    pub(crate) left: Vec<String>,
    /// The other side of the comparison.
    pub(crate) right: Right,
    /// The types of the answer's columns.
    pub(crate) types: Vec<Type>,
    /// Whether the rows have a defined order.
    pub(crate) ordered: bool,
    /// What it is made of.
    pub(crate) constructs: BTreeSet<Construct>,
}

/// The other side of a comparison.
#[derive(Clone, Debug)]
pub(crate) enum Right {
    /// The peer's answer.
    Peer(String),
    /// The union of the rows of these answers of Tierra, without duplicates if the flag is set.
    Parts(Vec<String>, bool),
}

/// The kind of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// A query with the peer's answer.
    Peer,
    /// A prepared statement with the peer's answer to the statement with literals.
    Prepared,
    /// A query with its three parts.
    Partition,
    /// A filter with the count of the rows that pass it.
    Filter,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Peer, Kind::Prepared, Kind::Partition, Kind::Filter];

    /// The name in results and reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Peer => "against the peer",
            Kind::Prepared => "prepared, against the peer",
            Kind::Partition => "by partitioning",
            Kind::Filter => "filter against select list",
        }
    }
}

impl Case {
    /// The case that these choices make over these tables.
    pub(crate) fn new(choices: &mut Choices, tables: &[Table], sqlite: bool) -> Case {
        let large = tables.iter().any(|table| table.rows() > 100_000);
        let limits = Limits {
            sqlite,
            prepared: false,
            rows: PRODUCTS[usize::from(large)],
        };
        let dialect = if sqlite {
            Dialect::Sqlite
        } else {
            Dialect::DuckDb
        };
        match choices.weighted(&[75, 8, 12, 5]) {
            0 => {
                let query = Grammar::new(choices, tables, limits).query();
                Case {
                    kind: Kind::Peer,
                    left: vec![query.sql.text(Dialect::Tierra)],
                    right: Right::Peer(query.sql.text(dialect)),
                    types: query.types(),
                    ordered: query.ordered,
                    constructs: query.sql.constructs(),
                }
            }
            1 => {
                let query = Grammar::new(
                    choices,
                    tables,
                    Limits {
                        prepared: true,
                        ..limits
                    },
                )
                .query();
                Case {
                    kind: Kind::Prepared,
                    left: prepared(&query.sql),
                    right: Right::Peer(query.sql.text(dialect)),
                    types: query.types(),
                    ordered: query.ordered,
                    constructs: query.sql.constructs(),
                }
            }
            2 => partition(choices, tables, limits),
            _ => filter(choices, tables, limits),
        }
    }

    /// All of Tierra's statements.
    pub(crate) fn statements(&self) -> Vec<&str> {
        let parts = match &self.right {
            Right::Peer(_) => &[][..],
            Right::Parts(parts, _) => parts,
        };
        self.left.iter().chain(parts).map(String::as_str).collect()
    }
}

fn prepared(query: &Sql) -> Vec<String> {
    let (text, values) = query.prepared();
    let types: Vec<String> = values
        .iter()
        .map(|(ty, _)| ty.name(Dialect::Tierra))
        .collect();
    let literals: Vec<String> = values
        .iter()
        .map(|(ty, value)| value.literal(*ty, Dialect::Tierra))
        .collect();
    let list = |list: &[String]| match list {
        [] => String::new(),
        list => format!("({})", list.join(", ")),
    };
    vec![
        format!("PREPARE q{} AS {text}", list(&types)),
        format!("EXECUTE q{}", list(&literals)),
    ]
}

/// Three conditions, exactly one of which is true for each row.
fn thirds(condition: &Sql) -> [Sql; 3] {
    [
        sql!["(", condition, ")"],
        sql!["NOT (", condition, ")"],
        sql!["((", condition, ") IS NULL)"],
    ]
}

fn partition(choices: &mut Choices, tables: &[Table], limits: Limits) -> Case {
    let mut grammar = Grammar::new(choices, tables, limits);
    let whole = grammar.partitioned();
    let first = whole.all.text(Dialect::Tierra);
    let parts: Vec<Sql> = thirds(&whole.condition)
        .iter()
        .map(|third| whole.part.clone().and(third).and(whole.behind.clone()))
        .collect();
    let right = match whole.combined {
        // One query over all three parts.
        Some((before, after)) => {
            vec![sql![before, Sql::joined(parts, " UNION ALL "), after].text(Dialect::Tierra)]
        }
        None => parts
            .iter()
            .map(|part| part.text(Dialect::Tierra))
            .collect(),
    };
    let constructs = whole.all.and(whole.condition).constructs();
    Case {
        kind: Kind::Partition,
        left: vec![first],
        right: Right::Parts(right, whole.distinct),
        types: whole.types,
        ordered: false,
        constructs,
    }
}

fn filter(choices: &mut Choices, tables: &[Table], limits: Limits) -> Case {
    let (from, condition) = Grammar::new(choices, tables, limits).filtered();
    let count = sql!["SELECT count(*) FROM ", &from, " WHERE ", &condition];
    let sum = sql![
        "SELECT coalesce(sum(CASE WHEN ",
        &condition,
        " THEN 1 ELSE 0 END), 0) FROM ",
        &from
    ];
    Case {
        kind: Kind::Filter,
        left: vec![count.text(Dialect::Tierra)],
        right: Right::Parts(vec![sum.text(Dialect::Tierra)], false),
        types: vec![Type::Big],
        ordered: false,
        constructs: count.constructs(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_case_follows_from_its_choices_and_the_plainest_is_a_query() {
        let tables = Table::set(&mut Choices::seeded(5), false, false);
        for seed in 0..300 {
            let mut drawn = Choices::seeded(seed);
            let first = Case::new(&mut drawn, &tables, false);
            let again = Case::new(&mut Choices::repeated(drawn.made()), &tables, false);
            assert_eq!(first.statements(), again.statements());
        }
        // Of the constructs a query of the plainest choices has none.
        let plainest = Case::new(&mut Choices::repeated(Vec::new()), &tables, false);
        assert_eq!(plainest.kind, Kind::Peer);
        assert_eq!(plainest.left, ["SELECT a1.id AS x2 FROM t0 AS a1"]);
        assert!(plainest.constructs.is_empty());
    }

    /// How many of the cases have each construct.
    fn counted(sqlite: bool, large: bool) -> BTreeMap<Construct, u64> {
        let mut counts = BTreeMap::new();
        for set in 0..60 {
            let tables = Table::set(&mut Choices::seeded(set), large, sqlite);
            for query in 0..100 {
                let seed = 1_000 * set + query;
                let case = Case::new(&mut Choices::seeded(seed), &tables, sqlite);
                for construct in case.constructs {
                    *counts.entry(construct).or_insert(0) += 1;
                }
            }
        }
        counts
    }

    #[test]
    fn every_construct_is_made_over_small_and_large_tables() {
        // Products of large tables with others are too large for these.
        let of_small = [Construct::TwoLevelsOut, Construct::UsingOfTypes];
        for large in [false, true] {
            let counts = counted(false, large);
            let rare: Vec<_> = Construct::ALL
                .iter()
                .filter(|construct| !(large && of_small.contains(construct)))
                .filter(|construct| counts.get(construct).is_none_or(|count| *count < 3))
                .collect();
            assert!(rare.is_empty(), "{rare:?} of {counts:#?}");
        }
    }

    #[test]
    fn what_sqlite_does_not_have_is_not_asked_of_it() {
        use Construct::*;
        let counts = counted(true, false);
        let lacks = [
            Unnest,
            DistinctOn,
            LateralRows,
            OrderedAggregate,
            Qualify,
            DrawnCondition,
        ];
        let lacks = lacks
            .into_iter()
            .chain([SetsOfComputed, Grouping, Months, DateTrunc]);
        for construct in lacks.chain([IgnoreNulls, SemiJoinOfNulls, DaysBetween]) {
            assert_eq!(counts.get(&construct), None, "{construct:?}");
        }
        let has = [
            GroupByFunctionOfKey,
            GroupByKeyAlone,
            GroupOfGroups,
            Window,
            WindowAboveLimit,
        ];
        let has = has
            .into_iter()
            .chain([LimitOfRenamed, LimitAboveLimit, FullJoin, RightJoin]);
        for construct in has.chain([ScalarFirst, ScalarByKey, RangeFrame, GroupsFrame, NthValue]) {
            assert!(counts.contains_key(&construct), "{construct:?}");
        }
    }
}
