//! How deeply a statement nests, computed from its tokens.
//!
//! The parser follows brackets by recursion and makes a chain of operators a tree as deep as the chain is long.
//! Everything after it walks, clones and drops that tree by recursion. So the depth is bounded before there is a tree.
//! Each open bracket may be a level, and so may each unfinished operator before the innermost open one. Commas and the
//! keywords between clauses end a chain. AND and OR end it too, because their own chains are balanced
//! ([`super::balance`]). The count is never less than the depth of the tree.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::LimitError;

/// Levels of operators and brackets together.
const LEVELS_MOST: usize = 1_200;
/// Nested brackets, CASEs and subqueries.
const BRACKETS_MOST: usize = 1_000;
/// Nested function calls: the planner names each call, with its arguments, at every level.
const CALLS_MOST: usize = 250;
/// Nested queries, including those in FROM.
const QUERIES_MOST: usize = 300;
/// Nested subqueries of expressions: the planner's work doubles with each.
const SUBQUERIES_MOST: usize = 14;
/// Branches of CASE in one statement.
const BRANCHES_MOST: usize = 20_000;
/// Conditions joined by AND and OR in one statement.
const CONDITIONS_MOST: usize = 20_000;
/// Queries joined by UNION, EXCEPT and INTERSECT in one statement.
const SETS_MOST: usize = 1_000;
/// Words that begin a statement within a statement.
const PREFIXES_MOST: usize = 100;

/// How deeply a statement may nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth(usize);

/// Conditions that count as one level: the optimizer makes a chain of them again.
const CONDITIONS_A_LEVEL: usize = 10;

/// Up to this depth all recursion fits the stack of any thread.
pub(super) const SHALLOW: usize = 100;

/// An open bracket and the tokens in it so far.
#[derive(Default)]
struct Frame {
    closing: Option<Token>,
    /// Whether it belongs to a call.
    is_call: bool,
    /// What a query that begins in it is.
    begins: Option<Subquery>,
    /// The query that begins in it.
    query: Option<Subquery>,
    /// Operators since the last comma or keyword that begins a clause.
    operators: usize,
    /// Operators whose operand is everything that follows.
    open_ended: usize,
    /// BETWEENs whose AND has not come yet.
    betweens: usize,
}

/// The position of a query in brackets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subquery {
    Table,
    Operand,
    /// `.. ) IN (SELECT ..)`: what is looked for may be a row, and the subquery is written twice for it.
    InOfRow,
}

impl Subquery {
    /// How often the planner's work doubles with it.
    fn doublings(self) -> usize {
        match self {
            Self::Table => 0,
            Self::Operand => 1,
            Self::InOfRow => 2,
        }
    }
}

impl Depth {
    /// The depth of the statement in `tokens`.
    ///
    /// # Errors
    /// If it exceeds a limit of the planner.
    pub(crate) fn of(tokens: &[TokenWithSpan]) -> Result<Self, LimitError> {
        let mut counter = Counter::default();
        for TokenWithSpan { token, .. } in tokens {
            if !matches!(token, Token::Whitespace(_)) {
                counter.see(token)?;
            }
        }
        // A plan nests with the number of queries and joins. Conditions stay a balanced tree up to a large number.
        let plan = counter.sets + counter.joins + counter.conditions / CONDITIONS_A_LEVEL;
        Ok(Self(counter.deepest.max(plan)))
    }

    /// Whether any thread's stack is large enough for the recursion over the statement.
    pub(crate) fn is_shallow(self) -> bool {
        self.0 <= SHALLOW
    }
}

#[derive(Default)]
struct Counter {
    /// The frames around the innermost one, `inner`.
    outer: Vec<Frame>,
    inner: Frame,
    /// Levels of the frames in `outer`.
    outer_levels: usize,
    deepest: usize,
    /// Calls among the open brackets.
    calls: usize,
    /// Queries among the open brackets.
    queries: usize,
    /// Queries among them that belong to expressions.
    subqueries: usize,
    branches: usize,
    /// Consecutive signs.
    signs: usize,
    conditions: usize,
    sets: usize,
    joins: usize,
    prefixes: usize,
    before: Before,
}

/// How the previous token determines the next one.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Nothing,
    /// A word that follows is a name.
    Period,
    /// `<` that follows begins a nested type.
    TypeName,
    /// A bracket that follows holds arguments.
    Function,
    /// A bracket that follows holds a table.
    From,
    /// A bracket has opened: a query may begin here.
    Bracket,
    /// A sign that follows belongs to an operand that already has a sign.
    Sign,
    /// A bracket was closed: what it held may be a row.
    Row,
    /// A bracket that follows holds what a row is looked for in.
    InOfRow,
}

impl Counter {
    fn see(&mut self, token: &Token) -> Result<(), LimitError> {
        let before = std::mem::take(&mut self.before);
        match token {
            Token::Lt if before == Before::TypeName => {
                self.inner.open_ended += 1;
                self.check()
            }
            Token::Period => {
                self.before = Before::Period;
                self.operator()
            }
            Token::LParen => {
                match before == Before::Function {
                    true => self.open_call(Token::RParen)?,
                    false => self.open(Some(Token::RParen))?,
                }
                self.inner.begins = Some(match before {
                    Before::From => Subquery::Table,
                    Before::InOfRow => Subquery::InOfRow,
                    _ => Subquery::Operand,
                });
                self.before = Before::Bracket;
                Ok(())
            }
            Token::Minus | Token::Plus => {
                self.signs = match before {
                    Before::Sign => self.signs + 1,
                    _ => 1,
                };
                self.before = Before::Sign;
                nests(self.signs, CALLS_MOST, "signs")?;
                self.operator()
            }
            // An array's elements are planned as a call's arguments are.
            Token::LBracket => self.open_call(Token::RBracket),
            Token::LBrace => self.open_call(Token::RBrace),
            Token::RParen | Token::RBracket | Token::RBrace => {
                self.close(token);
                self.before = Before::Row;
                Ok(())
            }
            Token::Comma => {
                self.inner.operators = 0;
                Ok(())
            }
            Token::Word(word) if word.quote_style.is_some() || before == Before::Period => {
                self.before = Before::Function;
                Ok(())
            }
            Token::Word(word) => {
                if matches!(word.keyword, Keyword::FROM | Keyword::JOIN | Keyword::AS) {
                    self.before = Before::From;
                } else if before == Before::Row && word.keyword == Keyword::NOT {
                    self.before = Before::Row;
                } else if before == Before::Row && word.keyword == Keyword::IN {
                    self.before = Before::InOfRow;
                } else if !precedes_brackets(word.keyword) {
                    self.before = Before::Function;
                }
                if before == Before::Bracket
                    && matches!(word.keyword, Keyword::SELECT | Keyword::WITH)
                {
                    self.begin_query()?;
                }
                self.see_word(word)
            }
            // Their operand is everything that follows, including conditions.
            Token::Arrow | Token::Assignment | Token::RArrow | Token::Colon => {
                self.inner.open_ended += 1;
                self.check()
            }
            token if is_operand(token) => Ok(()),
            _ => self.operator(),
        }
    }

    fn begin_query(&mut self) -> Result<(), LimitError> {
        let query = self.inner.begins.unwrap_or(Subquery::Table);
        self.inner.query = Some(query);
        self.queries += 1;
        self.subqueries += query.doublings();
        nests(self.queries, QUERIES_MOST, "queries")?;
        nests(
            self.subqueries,
            SUBQUERIES_MOST,
            "subqueries of expressions",
        )
    }

    fn see_word(&mut self, word: &Word) -> Result<(), LimitError> {
        match word.keyword {
            Keyword::CASE => self.open(None),
            Keyword::END => {
                if !self.outer.is_empty() && self.inner.closing.is_none() {
                    self.pop();
                }
                Ok(())
            }
            Keyword::AND if self.inner.betweens > 0 => {
                self.inner.betweens -= 1;
                Ok(())
            }
            Keyword::AND | Keyword::OR => {
                self.inner.operators = 0;
                self.conditions += 1;
                at_most(
                    self.conditions,
                    CONDITIONS_MOST,
                    "conditions joined by AND and OR",
                )
            }
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                self.inner.operators = 0;
                self.sets += 1;
                at_most(
                    self.sets,
                    SETS_MOST,
                    "queries joined by UNION, EXCEPT and INTERSECT",
                )
            }
            Keyword::WHEN => {
                self.inner.operators = 0;
                self.branches += 1;
                at_most(self.branches, BRANCHES_MOST, "branches of CASE")
            }
            Keyword::JOIN => {
                self.inner.operators = 0;
                self.joins += 1;
                Ok(())
            }
            Keyword::EXPLAIN | Keyword::DESCRIBE | Keyword::PREPARE => {
                self.prefixes += 1;
                match self.prefixes > PREFIXES_MOST {
                    true => Err(LimitError::TooDeep {
                        what: "statements",
                        most: PREFIXES_MOST,
                    }),
                    false => Ok(()),
                }
            }
            Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP => {
                self.before = Before::TypeName;
                Ok(())
            }
            Keyword::BETWEEN => {
                self.inner.betweens += 1;
                self.operator()
            }
            Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::ORDER
            | Keyword::LIMIT
            | Keyword::ON
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::VALUES => {
                self.inner.operators = 0;
                Ok(())
            }
            Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::NOTNULL
            | Keyword::XOR
            | Keyword::DIV
            | Keyword::MOD
            | Keyword::OPERATOR
            | Keyword::OVERLAPS
            | Keyword::MEMBER
            | Keyword::PRIOR
            | Keyword::INTERVAL
            | Keyword::EXISTS
            | Keyword::INSERT
            | Keyword::WITH => self.operator(),
            _ => Ok(()),
        }
    }

    fn operator(&mut self) -> Result<(), LimitError> {
        self.inner.operators += 1;
        self.check()
    }

    /// Opens a bracket that holds arguments, or elements.
    fn open_call(&mut self, closing: Token) -> Result<(), LimitError> {
        self.calls += 1;
        nests(self.calls, CALLS_MOST, "calls and arrays")?;
        self.open(Some(closing))?;
        self.inner.is_call = true;
        Ok(())
    }

    /// An opening bracket is a level inside it, and an access or a call outside.
    fn open(&mut self, closing: Option<Token>) -> Result<(), LimitError> {
        self.inner.operators += 1;
        let frame = Frame {
            closing,
            ..Frame::default()
        };
        let outside = std::mem::replace(&mut self.inner, frame);
        self.outer_levels += outside.levels();
        self.outer.push(outside);
        if self.outer.len() > BRACKETS_MOST {
            return Err(LimitError::TooDeep {
                what: "brackets",
                most: BRACKETS_MOST,
            });
        }
        self.check()
    }

    /// Closes the bracket that `closing` closes, and any CASE in it that did not end.
    fn close(&mut self, closing: &Token) {
        let is_open = |frame: &Frame| frame.closing.as_ref() == Some(closing);
        if !is_open(&self.inner) && !self.outer.iter().any(is_open) {
            return;
        }
        while !is_open(&self.inner) {
            self.pop();
        }
        self.pop();
    }

    fn pop(&mut self) {
        if let Some(outside) = self.outer.pop() {
            self.calls -= usize::from(self.inner.is_call);
            self.queries -= usize::from(self.inner.query.is_some());
            self.subqueries -= self.inner.query.map_or(0, Subquery::doublings);
            self.outer_levels -= outside.levels();
            self.inner = outside;
        }
    }

    fn check(&mut self) -> Result<(), LimitError> {
        let levels = self.outer_levels + self.inner.levels();
        self.deepest = self.deepest.max(levels);
        match levels > LEVELS_MOST {
            true => Err(LimitError::TooDeep {
                what: "operators",
                most: LEVELS_MOST,
            }),
            false => Ok(()),
        }
    }
}

impl Frame {
    fn levels(&self) -> usize {
        self.operators + self.open_ended
    }
}

fn nests(levels: usize, most: usize, what: &'static str) -> Result<(), LimitError> {
    match levels > most {
        true => Err(LimitError::TooDeep { what, most }),
        false => Ok(()),
    }
}

fn at_most(count: usize, most: usize, what: &'static str) -> Result<(), LimitError> {
    match count >= most {
        true => Err(LimitError::TooMany { what, most }),
        false => Ok(()),
    }
}

/// Whether a bracket after the word belongs to the keyword and is not a call.
fn precedes_brackets(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::SELECT
            | Keyword::DISTINCT
            | Keyword::ALL
            | Keyword::ANY
            | Keyword::SOME
            | Keyword::FROM
            | Keyword::JOIN
            | Keyword::WHERE
            | Keyword::BY
            | Keyword::HAVING
            | Keyword::ON
            | Keyword::USING
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::CASE
            | Keyword::AND
            | Keyword::OR
            | Keyword::NOT
            | Keyword::IN
            | Keyword::IS
            | Keyword::LIKE
            | Keyword::BETWEEN
            | Keyword::EXISTS
            | Keyword::AS
            | Keyword::UNION
            | Keyword::EXCEPT
            | Keyword::INTERSECT
            | Keyword::VALUES
            | Keyword::OVER
            | Keyword::FILTER
            | Keyword::LATERAL
    )
}

/// Whether a token is a value, or is not part of an expression.
fn is_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(_, _)
            | Token::Char(_)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::EOF
            | Token::SemiColon
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn depth(sql: &str) -> Result<usize, String> {
        let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
        let depth = Depth::of(&tokens.unwrap());
        depth
            .map(|depth| depth.0)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn chains_end_at_commas_clauses_and_conditions() {
        let one = depth("SELECT a + b").unwrap();
        let sums = |separator: &str| vec!["a + b"; 5_000].join(separator);
        for flat in [
            format!("SELECT {}", sums(", ")),
            format!("SELECT {}", sums(" AND ")),
            format!("SELECT CASE {} END", "WHEN a + b THEN c + d ".repeat(5_000)),
            format!("SELECT {}", vec!["a BETWEEN b AND c"; 5_000].join(" OR ")),
            format!("INSERT INTO t VALUES {}", vec!["(1, -2)"; 5_000].join(", ")),
        ] {
            assert!(
                depth(&flat).unwrap() <= one + 5_000 / CONDITIONS_A_LEVEL,
                "{}",
                &flat[..40]
            );
        }
        assert_eq!(depth(&format!("SELECT {}", sums(" + "))).ok(), None);
        // Calls next to each other, and brackets that are not calls.
        assert!(depth(&format!("SELECT {}", vec!["f(a)"; 5_000].join(", "))).is_ok());
        let conditions = format!("{}a{}", "a IN (".repeat(500), ")".repeat(500));
        assert!(depth(&format!("SELECT {conditions}")).is_ok());
        let ins = |n: usize| {
            depth(&format!(
                "SELECT {}(1)",
                "a IN (SELECT a FROM t WHERE ".repeat(n)
            ))
        };
        assert!(ins(SUBQUERIES_MOST).is_ok() && ins(SUBQUERIES_MOST + 1).is_err());
        let rows = |n: usize| {
            depth(&format!(
                "SELECT {}(1)",
                "(a, b) NOT IN (SELECT a, b FROM t WHERE ".repeat(n)
            ))
        };
        assert!(rows(SUBQUERIES_MOST / 2).is_ok() && rows(SUBQUERIES_MOST / 2 + 1).is_err());
        let tables = |n: usize| depth(&format!("SELECT a FROM {}t", "(SELECT a FROM ".repeat(n)));
        assert!(tables(QUERIES_MOST).is_ok() && tables(QUERIES_MOST + 1).is_err());
        let minus = |n: usize| depth(&format!("SELECT {}1", "- ".repeat(n)));
        assert!(minus(CALLS_MOST).is_ok() && minus(CALLS_MOST + 1).is_err());
        let calls = |n: usize| depth(&format!("SELECT {}a{}", "f(".repeat(n), ")".repeat(n)));
        assert!(calls(CALLS_MOST).is_ok() && calls(CALLS_MOST + 1).is_err());
    }

    #[test]
    fn whatever_may_nest_counts() {
        let n = 1_000;
        let nested = |open: &str, inner: &str, close: &str| {
            let sql = format!("SELECT {}{inner}{}", open.repeat(n), close.repeat(n));
            let found = depth(&sql);
            assert!(
                found.as_ref().map_or(true, |depth| *depth >= n),
                "{open}: {found:?}"
            );
        };
        nested("(", "1", ")");
        nested("NOT ", "1", "");
        nested("- ", "1", "");
        nested("CASE WHEN a THEN ", "1", " END");
        nested("f(1, ", "1", ")");
        nested("a = 1 AND (", "1", ")");
        nested("", "1", "::INT");
        nested("", "a", "[1]");
        nested("", "a", " IS NULL");
        nested("", "a", " BETWEEN 1 AND 2");
        nested("x -> a AND ", "1", "");
        nested("ARRAY<", "INT", ">");
        nested("INTERVAL ", "'1'", "");
        nested("EXPLAIN ", "1", "");
    }

    #[test]
    fn brackets_that_do_not_match_are_no_harm() {
        for sql in [
            "SELECT )))",
            "SELECT (]",
            "SELECT END END",
            "SELECT (CASE )",
            "SELECT a.case",
        ] {
            assert!(depth(sql).unwrap() < 5, "{sql}");
        }
    }
}
