//! What a query is to do, with all names and types known.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::contents::Declared;
use crate::expression::{Expr, Test};
use crate::functions::RowsFunction;
use crate::types::Type;
use crate::value::Value;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: Type,
    /// Those of a record.
    pub(crate) fields: Vec<Column>,
}

/// A query.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The columns that are seen; rows may have more behind them, to be sorted by.
    pub(crate) columns: Vec<Column>,
    pub(crate) body: Body,
    pub(crate) distinct: Distinct,
    pub(crate) order: Vec<Key>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Whether it names columns of a query around it. The rows of one that does not are computed once.
    pub(crate) is_correlated: bool,
}

/// Plans are compared where a column is looked for among those of GROUP BY: only the same one is equal.
impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

#[derive(Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    Set {
        kind: SetKind,
        all: bool,
        left: Arc<Plan>,
        right: Arc<Plan>,
    },
    /// The rows of the last step of a recursive query: the one that is so far in.
    Working(usize),
    Recursive {
        number: usize,
        all: bool,
        first: Arc<Plan>,
        step: Arc<Plan>,
    },
    /// The rows of another plan.
    Same(Arc<Plan>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetKind {
    Union,
    Intersect,
    Except,
}

#[derive(Debug)]
pub(crate) enum Distinct {
    No,
    All,
    /// The first of those that are equal in these columns.
    On(Vec<usize>),
}

/// A column of the result to sort by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key<By = usize> {
    pub(crate) by: By,
    pub(crate) is_descending: bool,
    pub(crate) nulls_first: bool,
}

#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) items: Vec<Item>,
    pub(crate) from: From,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) group: Option<Group>,
    pub(crate) windows: Vec<Window>,
    /// Functions of the select list that return rows; all run side by side.
    pub(crate) row_functions: Vec<(RowsFunction, Vec<Expr>)>,
    pub(crate) outputs: Vec<Expr>,
}

/// An item of FROM.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) source: Source,
    pub(crate) width: usize,
    /// The items to the left that it names, a bit each.
    pub(crate) needs: u64,
}

#[derive(Debug)]
pub(crate) enum Source {
    Table(&'static Declared),
    /// A query, which was bound so many queries around this one: it names columns of those around that.
    Plan(Arc<Plan>, usize),
    /// Functions side by side, and whether the rows are numbered.
    Functions(Vec<(RowsFunction, Vec<Expr>)>, bool),
}

/// How the items are joined.
#[derive(Debug)]
pub(crate) enum From {
    Item(usize),
    /// All together, under these conditions.
    Inner(Vec<From>, Vec<Condition>),
    /// All rows of `left`, and with `full` all of `right` as well.
    Outer {
        full: bool,
        left: Box<From>,
        right: Box<From>,
        on: Vec<Condition>,
    },
}

impl From {
    /// Its items, a bit each.
    pub(crate) fn mask(&self) -> u64 {
        match self {
            Self::Item(item) => 1 << item,
            Self::Inner(parts, _) => parts.iter().fold(0, |mask, part| mask | part.mask()),
            Self::Outer { left, right, .. } => left.mask() | right.mask(),
        }
    }
}

/// One of the conditions that must hold together, with the items that it names.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) expr: Expr,
    pub(crate) mask: u64,
    /// The items of both sides, if it is an equality.
    pub(crate) sides: Option<(u64, u64)>,
}

impl Condition {
    /// The sides of an equality.
    pub(crate) fn equality(&self) -> Option<(&Expr, u64, &Expr, u64)> {
        match (&self.expr, self.sides) {
            (Expr::Test(Test::Equal, left, right), Some((left_mask, right_mask))) => {
                Some((left, left_mask, right, right_mask))
            }
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Group {
    /// Empty if all rows are one group.
    pub(crate) keys: Vec<Expr>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) having: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) kind: AggregateKind,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) is_distinct: bool,
    pub(crate) order: Vec<Key<Expr>>,
    pub(crate) filter: Option<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    CountAll,
    Count,
    Min,
    Max,
    Sum,
    Average,
    BoolAnd,
    BoolOr,
    ArrayAgg,
    StringAgg,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) kind: WindowKind,
    pub(crate) partition: Vec<Expr>,
    pub(crate) order: Vec<Key<Expr>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WindowKind {
    RowNumber,
    Rank,
    DenseRank,
    /// Over the whole partition.
    Aggregate(Aggregate),
}

/// The order of two rows, of which `values` takes the values of a key.
pub(crate) fn order<'v, By>(
    keys: &[Key<By>],
    values: impl Fn(&By) -> (&'v Value, &'v Value),
) -> Ordering {
    let orders = keys.iter().map(|key| {
        let (left, right) = values(&key.by);
        match (left.is_null(), right.is_null()) {
            (false, false) if key.is_descending => right.order(left),
            (false, false) => left.order(right),
            (left, right) if key.nulls_first => right.cmp(&left),
            (left, right) => left.cmp(&right),
        }
    });
    orders.fold(Ordering::Equal, Ordering::then)
}
