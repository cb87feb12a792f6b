//! Compares answers row by row: the time of a wrong answer is worthless.
//!
//! Two answers agree if the columns of ORDER BY hold the same values in the same sequence, and if they have the same rows, each
//! as often. Tied rows may come in any order, because SQL leaves it open. Integers, decimals, dates and texts must agree
//! exactly, floating-point columns up to the rounding of a sum in another order.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::error::LabError;

/// The largest difference of two numbers, relative to the larger one.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// For columns of floating-point numbers.
    pub floats: f64,
    /// For other columns with numbers; 0 if they must be exact.
    pub others: f64,
}

impl Tolerance {
    /// Between two engines that share SQL's types.
    pub const EXACT_DECIMALS: Tolerance = Tolerance {
        floats: 1e-9,
        others: 0.0,
    };
    /// For an engine that averages decimals in floating point, while ours rounds to the digits of the result's type.
    pub const ROUNDED: Tolerance = Tolerance {
        floats: 1e-9,
        others: 1e-4,
    };
}

/// A query's result as texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Which columns hold floating-point numbers.
    floats: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Answer {
    /// The texts of all cells of some batches.
    pub fn of(batches: &[RecordBatch]) -> Result<Answer, ArrowError> {
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in batches {
            let columns = batch
                .columns()
                .iter()
                .map(|column| ArrayFormatter::try_new(column, &options))
                .collect::<Result<Vec<_>, _>>()?;
            for row in 0..batch.num_rows() {
                let cells = columns
                    .iter()
                    .map(|column| column.value(row).try_to_string());
                rows.push(cells.collect::<Result<Vec<_>, _>>()?);
            }
        }
        let is_float = |ty: &DataType| matches!(ty, DataType::Float32 | DataType::Float64);
        let floats = batches.first().map_or_else(Vec::new, |batch| {
            batch
                .schema()
                .fields()
                .iter()
                .map(|field| is_float(field.data_type()))
                .collect()
        });
        Ok(Answer { floats, rows })
    }

    /// An answer that arrived as texts.
    pub fn from_texts(rows: Vec<Vec<String>>) -> Answer {
        Answer {
            floats: Vec::new(),
            rows,
        }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The first difference from another answer; `None` if they agree.
    pub fn difference(
        &self,
        other: &Answer,
        order: &[usize],
        tolerance: Tolerance,
    ) -> Option<String> {
        if self.rows.len() != other.rows.len() {
            return Some(format!(
                "{} rows against {}",
                self.rows.len(),
                other.rows.len()
            ));
        }
        let same = |column: usize, left: &str, right: &str| {
            let is_float = [&self.floats, &other.floats]
                .iter()
                .any(|floats| floats.get(column) == Some(&true));
            let allowed = if is_float {
                tolerance.floats
            } else {
                tolerance.others
            };
            left == right || (allowed > 0.0 && are_near(left, right, allowed))
        };
        let same_rows = |left: &[String], right: &[String]| {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .enumerate()
                    .all(|(column, (left, right))| same(column, left, right))
        };
        for (place, (left, right)) in self.rows.iter().zip(&other.rows).enumerate() {
            let keys_agree = order
                .iter()
                .all(|&key| match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => same(key, left, right),
                    _ => false,
                });
            if !keys_agree {
                return Some(format!(
                    "row {place} is out of order: {left:?} against {right:?}"
                ));
            }
        }
        if self
            .rows
            .iter()
            .zip(&other.rows)
            .all(|(left, right)| same_rows(left, right))
        {
            return None;
        }
        let sorted = |rows: &[Vec<String>]| {
            let mut rows = rows.to_vec();
            rows.sort_unstable();
            rows
        };
        let (left, right) = (sorted(&self.rows), sorted(&other.rows));
        let differing = left
            .iter()
            .zip(&right)
            .find(|(left, right)| !same_rows(left, right));
        differing.map(|(left, right)| format!("{left:?} against {right:?}"))
    }

    /// Fails if this answer to `what`, from contender `who`, differs from `reference`.
    pub fn check(
        &self,
        what: &str,
        who: &str,
        reference: &Reference,
        tolerance: Tolerance,
    ) -> Result<(), LabError> {
        match self.difference(&reference.answer, &reference.order, tolerance) {
            None => Ok(()),
            Some(detail) => Err(LabError::AnswersDiffer {
                what: what.to_owned(),
                left: who.to_owned(),
                right: reference.who.clone(),
                detail,
            }),
        }
    }
}

/// The answer with which others are compared.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The contender that gave it.
    pub who: String,
    /// The answer.
    pub answer: Answer,
    /// The columns of ORDER BY.
    pub order: Vec<usize>,
}

/// The result columns by which a query is ordered: those of the outermost Sort that are in the result.
pub fn order_of(plan: &LogicalPlan) -> Vec<usize> {
    let mut below = plan;
    let sort = loop {
        match below {
            LogicalPlan::Sort(sort) => break sort,
            LogicalPlan::Limit(limit) => below = &limit.input,
            LogicalPlan::Projection(projection) => below = &projection.input,
            LogicalPlan::SubqueryAlias(alias) => below = &alias.input,
            _ => return Vec::new(),
        }
    };
    let shown = plan.schema();
    let place = |expression: &Expr| match expression {
        Expr::Column(column) => shown
            .fields()
            .iter()
            .position(|field| *field.name() == column.name),
        _ => None,
    };
    sort.expr
        .iter()
        .filter_map(|key| place(&key.expr))
        .collect()
}

fn are_near(left: &str, right: &str, allowed: f64) -> bool {
    let (Ok(left), Ok(right)) = (left.parse::<f64>(), right.parse::<f64>()) else {
        return false;
    };
    left == right || (left - right).abs() <= allowed * left.abs().max(right.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    fn answer(rows: &[[&str; 2]]) -> Answer {
        Answer::from_texts(
            rows.iter()
                .map(|row| row.map(str::to_owned).to_vec())
                .collect(),
        )
    }

    #[test]
    fn ties_may_swap_but_keys_may_not() {
        let first = answer(&[["1", "a"], ["1", "b"], ["2", "c"]]);
        let tied = answer(&[["1", "b"], ["1", "a"], ["2", "c"]]);
        let unordered = answer(&[["2", "c"], ["1", "a"], ["1", "b"]]);
        let exact = Tolerance::EXACT_DECIMALS;
        assert_eq!(first.difference(&tied, &[0], exact), None);
        assert!(
            first
                .difference(&unordered, &[0], exact)
                .unwrap()
                .contains("out of order")
        );
        assert_eq!(first.difference(&unordered, &[], exact), None);
    }

    #[test]
    fn one_wrong_cell_or_a_row_too_few_is_a_difference() {
        let right = answer(&[["1", "a"], ["2", "b"]]);
        for wrong in [
            answer(&[["1", "a"], ["2", "x"]]),
            answer(&[["1", "a"]]),
            answer(&[["1", "a"], ["1", "a"]]),
        ] {
            assert!(right.difference(&wrong, &[], Tolerance::ROUNDED).is_some());
        }
    }

    #[test]
    fn decimals_are_exact_unless_told_otherwise() {
        let (ours, theirs) = (answer(&[["q", "0.050000"]]), answer(&[["q", "0.0499997"]]));
        assert!(
            ours.difference(&theirs, &[], Tolerance::EXACT_DECIMALS)
                .is_some()
        );
        assert!(ours.difference(&theirs, &[], Tolerance::ROUNDED).is_none());
        let off = answer(&[["q", "0.0510"]]);
        assert!(ours.difference(&off, &[], Tolerance::ROUNDED).is_some());
    }

    #[tokio::test]
    async fn order_is_read_off_the_plan() {
        let context = SessionContext::new();
        let order = async |sql: &str| order_of(context.sql(sql).await.unwrap().logical_plan());
        assert_eq!(
            order("SELECT 1 AS a, 2 AS b ORDER BY b DESC, a LIMIT 3").await,
            [1, 0]
        );
        assert_eq!(order("SELECT 1 AS a").await, Vec::<usize>::new());
        let grouped = "SELECT x % 2 AS k, sum(x) AS s FROM (VALUES (1), (2)) AS t(x) GROUP BY k ORDER BY s DESC";
        assert_eq!(order(grouped).await, [1]);
    }
}
