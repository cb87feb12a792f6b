//! The verdict on a case: agreement, a difference, or a refusal.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::case::{Case, Kind, Right};
use super::cells::{Cell, Rows, difference, without_repeats};
use super::construct::Construct;
use super::engine::{Answer, NO_ANSWER};
use super::sql::Dialect;
use super::table::Table;
use super::value::{Type, decimal};

/// Tierra's messages for unsupported queries and overflows: counted, but no difference. docs/sql.md names the overflows.
const REFUSALS: [&str; 6] = [
    // A subquery that refers to rows that change when they are computed again.
    "store the rows first",
    // What only a key determines, in a statement with groups of joined rows or of lists.
    "must be in GROUP BY",
    "not implemented",
    "not supported",
    "out of memory",
    "overflow in",
];
/// Messages that are always a difference, whether the peer answers or not.
const DEFECTS: [&str; 3] = ["panic", "Internal error", "a defect"];

/// The verdict on a case.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The answers agree.
    Agrees,
    /// Tierra does not support this.
    Refused(What),
    /// The peer does not answer: nothing was compared.
    PeerRefused(String),
    /// The answers differ.
    Differs(What),
}

/// A difference, and its sort, so that a reduced case has the same one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct What {
    pub(crate) sort: String,
    pub(crate) detail: String,
}

impl What {
    /// Whether the difference is a missing answer within the time limit.
    pub(crate) fn is_too_late(&self) -> bool {
        self.sort.contains(NO_ANSWER)
    }
}

/// A reduced case with a difference.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// Its number.
    pub case: u64,
    /// The first statement that differs.
    pub statement: String,
    /// How.
    pub detail: String,
    /// The case as SQL: tables, statements, and the difference of the answers.
    pub script: String,
}

/// Numbers of queries by verdict.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// All.
    pub queries: u64,
    /// Tierra does not support them.
    pub refused: u64,
    /// The peer has no answer.
    pub peer_refused: u64,
    /// The answers differ.
    pub differences: u64,
}

/// The verdicts on many cases.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// Sets of tables.
    pub sets: u64,
    /// The numbers, by kind of comparison.
    counts: BTreeMap<Kind, Counts>,
    /// Queries that Tierra does not support, by its reason, with an example.
    pub refused: BTreeMap<String, (u64, String)>,
    /// Queries that the peer does not answer, by its message, with an example.
    pub peer_refused: BTreeMap<String, (u64, String)>,
    /// What differs.
    pub differences: Vec<Difference>,
    /// The numbers of queries with each construct: all, and those whose answers were compared.
    constructs: BTreeMap<Construct, (u64, u64)>,
}

impl Tally {
    /// The numbers of queries with a construct: all, and those whose answers were compared.
    pub fn with(&self, construct: Construct) -> (u64, u64) {
        self.constructs.get(&construct).copied().unwrap_or_default()
    }

    /// All queries.
    pub fn total(&self) -> u64 {
        self.counts.values().map(|counts| counts.queries).sum()
    }

    /// Queries that Tierra refused.
    pub fn total_refused(&self) -> u64 {
        self.counts.values().map(|counts| counts.refused).sum()
    }

    /// Queries that the peer refused.
    pub fn total_peer_refused(&self) -> u64 {
        self.counts.values().map(|counts| counts.peer_refused).sum()
    }

    /// The numbers of a kind.
    pub fn counts(&self, kind: Kind) -> Counts {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// Adds another tally.
    pub fn add(&mut self, other: Tally) {
        self.sets += other.sets;
        for (kind, more) in other.counts {
            let counts = self.counts.entry(kind).or_default();
            counts.queries += more.queries;
            counts.refused += more.refused;
            counts.peer_refused += more.peer_refused;
            counts.differences += more.differences;
        }
        for (reason, (count, example)) in other.refused {
            self.refused.entry(reason).or_insert((0, example)).0 += count;
        }
        for (reason, (count, example)) in other.peer_refused {
            self.peer_refused.entry(reason).or_insert((0, example)).0 += count;
        }
        self.differences.extend(other.differences);
        for (construct, (all, compared)) in other.constructs {
            let counts = self.constructs.entry(construct).or_default();
            counts.0 += all;
            counts.1 += compared;
        }
    }

    pub(crate) fn count(&mut self, verdict: &Verdict, case: &Case) {
        let counts = self.counts.entry(case.kind).or_default();
        counts.queries += 1;
        let compared = matches!(verdict, Verdict::Agrees | Verdict::Differs(_));
        for construct in &case.constructs {
            let counts = self.constructs.entry(*construct).or_default();
            counts.0 += 1;
            counts.1 += u64::from(compared);
        }
        let example = || case.left.join("; ");
        match verdict {
            Verdict::Agrees => {}
            Verdict::Refused(what) => {
                counts.refused += 1;
                self.refused
                    .entry(what.sort.clone())
                    .or_insert_with(|| (0, example()))
                    .0 += 1;
            }
            Verdict::PeerRefused(message) => {
                counts.peer_refused += 1;
                let brief: String = sort_of(message);
                self.peer_refused
                    .entry(brief)
                    .or_insert_with(|| (0, example()))
                    .0 += 1;
            }
            Verdict::Differs(_) => counts.differences += 1,
        }
    }
}

/// A message without the parts that differ from query to query.
fn sort_of(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let words = first.split_whitespace().map(|word| {
        let plain = word
            .chars()
            .all(|letter| letter.is_ascii_alphabetic() || ":,.;-".contains(letter));
        if plain { word } else { "_" }
    });
    words.take(14).collect::<Vec<_>>().join(" ")
}

/// Compares the answers to all of Tierra's statements, and the peer's if there is one.
pub(crate) fn judge(
    case: &Case,
    ours: Vec<Answer>,
    theirs: Option<Answer>,
    sqlite: bool,
) -> Verdict {
    let mut left = Ok(Rows::new());
    let mut parts = Rows::new();
    for (number, answer) in ours.into_iter().enumerate() {
        match answer {
            Err(error) => {
                left = Err(error);
                break;
            }
            Ok(rows) if number < case.left.len() => left = Ok(rows),
            Ok(rows) => parts.extend(rows),
        }
    }
    let left = match left {
        Ok(rows) => rows,
        Err(error) => {
            let is_defect = DEFECTS.iter().any(|words| error.contains(words));
            if let (Some(Err(theirs)), false) = (theirs, is_defect) {
                return Verdict::PeerRefused(theirs);
            }
            let refused = REFUSALS.iter().find(|words| error.contains(**words));
            return match refused {
                Some(words) => Verdict::Refused(What {
                    sort: (*words).to_owned(),
                    detail: error,
                }),
                None => Verdict::Differs(What {
                    sort: sort_of(&error),
                    detail: format!("error: {error}"),
                }),
            };
        }
    };
    let right = match (&case.right, theirs) {
        (Right::Peer(_), Some(Ok(rows))) => match sqlite {
            true => with_points(rows, &case.types),
            false => rows,
        },
        (Right::Peer(_), Some(Err(error))) => return Verdict::PeerRefused(error),
        (Right::Peer(_), None) => return Verdict::PeerRefused("no answer".to_owned()),
        (Right::Parts(_, true), _) => without_repeats(parts),
        (Right::Parts(_, false), _) => parts,
    };
    match difference(&left, &right, case.ordered) {
        None => Verdict::Agrees,
        Some(detail) => Verdict::Differs(What {
            sort: "another answer".to_owned(),
            detail,
        }),
    }
}

/// SQLite's DECIMALs are whole numbers in units of their last digit.
fn with_points(rows: Rows, types: &[Type]) -> Rows {
    let cell = |(cell, ty): (Cell, &Type)| match (cell, ty) {
        (Cell::Exact(digits), Type::Dec(_, scale)) => match digits.parse() {
            Ok(unscaled) => Cell::exact(&decimal(unscaled, *scale)),
            Err(_) => Cell::Exact(digits),
        },
        (cell, _) => cell,
    };
    rows.into_iter()
        .map(|row| row.into_iter().zip(types).map(cell).collect())
        .collect()
}

impl Difference {
    pub(crate) fn new(
        number: u64,
        case: &Case,
        tables: &[Table],
        settings: &[String],
        what: &What,
    ) -> Difference {
        let mut script = format!(
            "-- case {number}, {}: {}\n",
            case.kind.name(),
            what.detail.replace('\n', "\n-- ")
        );
        for setting in settings {
            script.push_str(&format!("{setting};\n"));
        }
        for table in tables {
            script.push_str(&format!("{};\n", table.create(Dialect::Tierra)));
            match table.rows() {
                0..=200 => {
                    for insert in table.inserts(Dialect::Tierra) {
                        script.push_str(&format!("{insert};\n"));
                    }
                }
                rows => script.push_str(&format!("-- {rows} rows: run the case again\n")),
            }
        }
        for statement in &case.left {
            script.push_str(&format!("{statement};\n"));
        }
        match &case.right {
            Right::Peer(query) if *query != case.left[0] => {
                script.push_str(&format!("-- the peer: {query};\n"))
            }
            Right::Peer(_) => {}
            Right::Parts(parts, _) => {
                script.push_str("-- the same in other words:\n");
                parts
                    .iter()
                    .for_each(|part| script.push_str(&format!("{part};\n")));
            }
        }
        Difference {
            case: number,
            statement: case.left.join("; "),
            detail: what.detail.clone(),
            script,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(numbers: &[&str]) -> Rows {
        numbers
            .iter()
            .map(|number| vec![Cell::exact(number)])
            .collect()
    }

    fn case(kind: Kind, right: Right) -> Case {
        Case {
            kind,
            left: vec!["SELECT x FROM t".to_owned()],
            right,
            types: vec![Type::Dec(5, 2)],
            ordered: false,
            constructs: [Construct::Unnest].into(),
        }
    }

    #[test]
    fn a_part_without_its_rows_is_found_out() {
        let parts = |distinct| {
            let part = "SELECT x FROM t WHERE ..".to_owned();
            case(Kind::Partition, Right::Parts(vec![part; 3], distinct))
        };
        let judged = |whole: &[&str], unknown: &[&str], distinct| {
            let answers = vec![
                Ok(rows(whole)),
                Ok(rows(&["1", "2"])),
                Ok(rows(&["3"])),
                Ok(rows(unknown)),
            ];
            judge(&parts(distinct), answers, None, false)
        };
        assert_eq!(
            judged(&["3", "2", "1", "4"], &["4"], false),
            Verdict::Agrees
        );
        assert!(matches!(
            judged(&["3", "2", "1", "4"], &[], false),
            Verdict::Differs(_)
        ));
        assert_eq!(judged(&["3", "2", "1"], &["1"], true), Verdict::Agrees);
        assert!(matches!(
            judged(&["3", "2", "1"], &["1"], false),
            Verdict::Differs(_)
        ));
    }

    #[test]
    fn constructs_that_nobody_answers_are_not_compared() {
        let peer = case(Kind::Peer, Right::Peer("SELECT x FROM t".to_owned()));
        let mut tally = Tally::default();
        tally.count(&Verdict::PeerRefused("no such function".to_owned()), &peer);
        assert_eq!(tally.with(Construct::Unnest), (1, 0));
        let mut more = Tally::default();
        more.count(&Verdict::Agrees, &peer);
        tally.add(more);
        assert_eq!(tally.with(Construct::Unnest), (2, 1));
        assert_eq!(tally.with(Construct::Window), (0, 0));
    }

    #[test]
    fn a_wrong_digit_and_a_refusal_of_one_side_are_told_apart() {
        let peer = case(Kind::Peer, Right::Peer("SELECT x FROM t".to_owned()));
        let judged = |ours: Answer, theirs: Answer| judge(&peer, vec![ours], Some(theirs), true);
        // SQLite's 150 is 1.50 in its DECIMAL(5, 2).
        assert_eq!(
            judged(Ok(rows(&["1.5"])), Ok(rows(&["150"]))),
            Verdict::Agrees
        );
        assert!(matches!(
            judged(Ok(rows(&["1.51"])), Ok(rows(&["150"]))),
            Verdict::Differs(_)
        ));
        let error = |text: &str| Err(text.to_owned());
        assert!(matches!(
            judged(error("This feature is not implemented: x"), Ok(rows(&[]))),
            Verdict::Refused(_)
        ));
        assert!(matches!(
            judged(error("panic: index out of bounds"), Ok(rows(&[]))),
            Verdict::Differs(_)
        ));
        assert!(matches!(
            judged(error("panic: index out of bounds"), error("no such table")),
            Verdict::Differs(_)
        ));
        assert!(matches!(
            judged(Ok(rows(&[])), error("no such function")),
            Verdict::PeerRefused(_)
        ));
    }
}
