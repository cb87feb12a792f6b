//! Queries whose answer is the union of three parts.

use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Subqueries};

/// A query and its parts.
pub(crate) struct Partitioned {
    /// The query.
    pub(crate) all: Sql,
    /// A part, up to the condition, and the text after it.
    pub(crate) part: Sql,
    pub(crate) behind: Sql,
    pub(crate) condition: Sql,
    /// The text around all parts, if a query combines them.
    pub(crate) combined: Option<(Sql, Sql)>,
    /// Whether a row of several parts counts once.
    pub(crate) distinct: bool,
    pub(crate) types: Vec<Type>,
}

/// Rows that an answer may have.
const MOST_ROWS: u128 = 5_000;

impl Grammar<'_> {
    /// FROM and a condition on it.
    pub(crate) fn filtered(&mut self) -> (Sql, Sql) {
        let (from, scope) = self.relation(2);
        let all = |grammar: &mut Self| grammar.predicate(&scope, 2);
        let condition = self.allowing(Subqueries::All, all);
        (from, condition)
    }

    /// A query that a condition divides.
    pub(crate) fn partitioned(&mut self) -> Partitioned {
        let (from, scope) = self.relation(2);
        let all = |grammar: &mut Self| grammar.predicate(&scope, 2);
        let condition = self.allowing(Subqueries::All, all);
        let (outer, inner) = match self.choices.below(3) {
            0 => {
                let filter = sql!["(", self.predicate(&scope, 1), ")"];
                (sql![" WHERE ", &filter], sql![" WHERE ", filter, " AND "])
            }
            _ => (Sql::default(), " WHERE ".into()),
        };
        let few = scope.rows <= MOST_ROWS;
        match self
            .choices
            .weighted(&[if few { 3 } else { 0 }, if few { 2 } else { 0 }, 2, 3])
        {
            kind @ (0 | 1) => {
                let exprs: Vec<Expr> = (0..1 + self.choices.index(3))
                    .map(|_| {
                        let ty = self.some_type(&scope);
                        let all = |grammar: &mut Self| grammar.expr(&scope, ty, 2);
                        self.allowing(Subqueries::All, all)
                    })
                    .collect();
                let word = if kind == 1 {
                    "SELECT DISTINCT "
                } else {
                    "SELECT "
                };
                let (list, columns) = self.list(&exprs);
                let select = sql![word, list, " FROM ", from];
                Partitioned {
                    all: sql![&select, outer],
                    part: sql![select, inner],
                    behind: Sql::default(),
                    condition,
                    combined: None,
                    distinct: kind == 1,
                    types: columns.iter().map(|column| column.expr.ty).collect(),
                }
            }
            kind => {
                let keys: Vec<Expr> = match kind {
                    2 => Vec::new(),
                    _ => (0..1 + self.choices.index(2))
                        .filter_map(|_| self.field(&scope, |expr| expr.same))
                        .map(|field| field.expr)
                        .collect(),
                };
                let mut parts = keys.clone();
                let mut combining = vec![""; keys.len()];
                for _ in 0..1 + self.choices.index(3) {
                    let ty = self.some_type(&scope);
                    let all = |grammar: &mut Self| grammar.expr(&scope, ty, 1);
                    let value = self.allowing(Subqueries::All, all);
                    let function = self.choices.index(4);
                    let sum = match function {
                        0 => None,
                        1 if value.ty.is_number() => self.sum_in_parts(&value, scope.rows),
                        _ => None,
                    };
                    let (expr, how) = match (function, sum) {
                        (_, Some(sum)) => (sum, "sum"),
                        (2, _) if ty != Type::Bool => {
                            (Expr::new(sql!["min(", &value.sql, ")"], ty), "min")
                        }
                        (3, _) if ty != Type::Bool => {
                            (Expr::new(sql!["max(", &value.sql, ")"], ty), "max")
                        }
                        _ => (Expr::new(sql!["count(", &value.sql, ")"], Type::Big), "sum"),
                    };
                    parts.push(expr);
                    combining.push(how);
                }
                let (list, columns) = self.list(&parts);
                let select = sql!["SELECT ", list, " FROM ", from];
                let ordinals: Vec<String> =
                    (1..=keys.len()).map(|number| number.to_string()).collect();
                let group: Sql = match keys.is_empty() {
                    true => Sql::default(),
                    false => format!(" GROUP BY {}", ordinals.join(", ")).into(),
                };
                let outer_list = columns
                    .iter()
                    .zip(&combining)
                    .map(|(column, how)| match *how {
                        "" => column.expr.sql.clone(),
                        how => sql![how, "(", &column.expr.sql, ")"],
                    });
                let before = sql![
                    "SELECT ",
                    Sql::joined(outer_list.collect::<Vec<_>>(), ", "),
                    " FROM ("
                ];
                Partitioned {
                    all: sql![&select, outer, &group],
                    part: sql![select, inner],
                    behind: group.clone(),
                    condition,
                    combined: Some((before, sql![") AS z", group])),
                    distinct: false,
                    types: columns.iter().map(|column| column.expr.ty).collect(),
                }
            }
        }
    }

    /// A sum without DISTINCT, which can be computed from the sums of parts.
    fn sum_in_parts(&mut self, value: &Expr, rows: u128) -> Option<Expr> {
        let most = value
            .most
            .checked_mul(rows.max(1))
            .filter(|_| value.summable)?;
        let ty = match value.ty {
            Type::Int | Type::Big => Type::Big,
            Type::Dec(_, scale) => Type::Dec(38, scale),
            _ => Type::Double,
        };
        (most < ty.most() / 4).then(|| Expr::new(sql!["sum(", &value.sql, ")"], ty))
    }
}
