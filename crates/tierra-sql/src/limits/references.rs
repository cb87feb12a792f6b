//! The number of tables that a statement joins, and that it reads when each common table expression is planned at every
//! reference.
//!
//! `WITH a AS (..), b AS (SELECT .. FROM a, a), c AS (.. FROM b, b) ..` doubles with each line: thirty lines would make
//! a plan of a billion operators.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ObjectName, Query, Select, SetExpr, TableFactor, Visit, Visitor,
};

use super::LimitError;
use crate::names::{identifier, single_name};
use crate::visit::visit;

/// Tables of a statement, counted once per reference.
const REFERENCES_MOST: usize = 2_000;
/// Common table expressions of one WITH: each is planned with all names before it.
const COMMON_MOST: usize = 1_000;
/// Joins of one statement: the optimizer's work per join grows faster than the number of joins.
const JOINS_MOST: usize = 150;

/// Refuses a statement with too many references, common table expressions or joins.
///
/// # Errors
/// [`LimitError::TooMany`].
pub(crate) fn check_references(statement: &impl Visit) -> Result<(), LimitError> {
    let mut count = Count {
        scopes: vec![Scope::default()],
        joins: 0,
    };
    match visit(statement, &mut count) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// A query that is being visited.
#[derive(Default)]
struct Scope {
    references: usize,
    /// The number of tables behind each of its own names, known once the name's query was visited.
    weights: HashMap<String, usize>,
    /// The name of the common table expression that this query defines.
    named: Option<String>,
    /// Names of the common table expressions not visited yet, the next one last.
    to_come: Vec<(*const Query, String)>,
}

struct Count {
    scopes: Vec<Scope>,
    joins: usize,
}

impl Count {
    fn add(&mut self, references: usize) -> ControlFlow<LimitError> {
        if let Some(scope) = self.scopes.last_mut() {
            scope.references = scope.references.saturating_add(references);
            if scope.references > REFERENCES_MOST {
                return ControlFlow::Break(LimitError::TooMany {
                    what: "tables to read, each common table expression counted where it is named",
                    most: REFERENCES_MOST,
                });
            }
        }
        ControlFlow::Continue(())
    }

    fn join(&mut self, tables: usize) -> ControlFlow<LimitError> {
        self.joins += tables;
        match self.joins > JOINS_MOST {
            true => ControlFlow::Break(LimitError::TooMany {
                what: "joins",
                most: JOINS_MOST,
            }),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The SELECTs of a query, including those joined by UNION and other set operations.
fn selects(query: &Query) -> Vec<&Select> {
    let mut found = Vec::new();
    let mut open = vec![query.body.as_ref()];
    while let Some(part) = open.pop() {
        match part {
            SetExpr::Select(select) => found.push(select.as_ref()),
            SetExpr::SetOperation { left, right, .. } => {
                open.extend([left.as_ref(), right.as_ref()])
            }
            _ => {}
        }
    }
    found
}

impl Visitor for Count {
    type Break = LimitError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<LimitError> {
        for select in selects(query) {
            let joins = select.from.iter().map(|table| 1 + table.joins.len());
            self.join(joins.sum::<usize>().saturating_sub(1))?;
        }
        let named = self.scopes.last_mut().and_then(|scope| {
            let is_next =
                matches!(scope.to_come.last(), Some((next, _)) if std::ptr::eq(*next, query));
            let next = is_next.then(|| scope.to_come.pop());
            next.flatten().map(|(_, name)| name)
        });
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let mut to_come: Vec<_> = tables
            .map(|cte| (&raw const *cte.query, identifier(&cte.alias.name)))
            .collect();
        if to_come.len() > COMMON_MOST {
            return ControlFlow::Break(LimitError::TooMany {
                what: "common table expressions in one WITH",
                most: COMMON_MOST,
            });
        }
        to_come.reverse();
        self.scopes.push(Scope {
            named,
            to_come,
            ..Scope::default()
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<LimitError> {
        let Some(done) = self.scopes.pop() else {
            return ControlFlow::Continue(());
        };
        match (done.named, self.scopes.last_mut()) {
            (Some(name), Some(scope)) => {
                scope.weights.insert(name, done.references);
                ControlFlow::Continue(())
            }
            _ => self.add(done.references),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<LimitError> {
        match factor {
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => self.join(table_with_joins.joins.len()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<LimitError> {
        let own = single_name(relation).and_then(|name| {
            let scopes = self.scopes.iter().rev();
            scopes.filter_map(|scope| scope.weights.get(&name)).next()
        });
        let references = own.copied().unwrap_or(1);
        self.add(references)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn is_allowed(sql: &str) -> bool {
        let parsed = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        check_references(&parsed[0]).is_ok()
    }

    #[test]
    fn expressions_that_double_are_refused() {
        let chain = |lines: usize, from: fn(usize) -> String| {
            let later = (1..lines).map(|n| format!(", c{n} AS (SELECT 1 FROM {})", from(n - 1)));
            let later: String = later.collect();
            format!(
                "WITH c0 AS (SELECT 1 FROM t){later} SELECT * FROM c{}",
                lines - 1
            )
        };
        assert!(is_allowed(&chain(1000, |n| format!("c{n}"))));
        assert!(is_allowed(&chain(10, |n| format!("c{n} a, c{n} b"))));
        assert!(!is_allowed(&chain(40, |n| format!("c{n} a, c{n} b"))));
        let cross: Vec<String> = (0..500).map(|n| format!("t t{n}")).collect();
        assert!(!is_allowed(&format!("SELECT 1 FROM {}", cross.join(", "))));
        assert!(!is_allowed(&format!(
            "SELECT 1 FROM {}",
            cross.join(" CROSS JOIN ")
        )));
        // The names of a subquery end with it.
        assert!(is_allowed(&format!(
            "WITH {} SELECT 1 FROM ({}) x, c9",
            "c9 AS (SELECT 1 FROM t)",
            chain(10, |n| format!("c{n} a, c{n} b"))
        )));
    }
}
