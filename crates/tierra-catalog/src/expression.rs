//! Expressions whose names and types are known, and their values.
//!
//! A condition of which nothing is known is NULL, as in SQL: what compares with NULL is NULL, and only `IS` tells.

use std::cmp::Ordering;
use std::rc::Rc;
use std::sync::Arc;

use crate::cast::{Cast, output};
use crate::error::{Error, Result};
use crate::functions::Function;
use crate::pattern::is_like;
use crate::plan::Plan;
use crate::session::Session;
use crate::types::Type;
use crate::value::{Part, Value};

/// A row of FROM: a part of each of its items; and the row of the query around it.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) parts: &'a [Part],
    pub(crate) outer: Option<&'a Row<'a>>,
}

impl<'a> Row<'a> {
    pub(crate) fn of(parts: &'a [Part], outer: Option<&'a Self>) -> Self {
        Self { parts, outer }
    }
}

/// What runs the plans of subqueries.
pub(crate) trait Runs {
    fn session(&self) -> &Session<'_>;

    /// The rows of a query, within a row of the query around it.
    fn rows(&self, plan: &Plan, outer: Option<&Row<'_>>) -> Result<Rc<Vec<Part>>>;
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Constant(Value),
    Parameter(usize),
    /// A column of an item of FROM, of the query that is so many levels `up`.
    Column {
        up: usize,
        item: usize,
        column: usize,
    },
    Field(Box<Expr>, usize),
    Call(&'static Function, Vec<Expr>),
    Cast(Cast, Box<Expr>),
    /// The text that a client would see.
    Output(Type, Box<Expr>),
    Concat(Vec<Expr>),
    Arithmetic(char, Type, Box<Expr>, Box<Expr>),
    Test(Test, Box<Expr>, Box<Expr>),
    /// Whether the test holds for any, or for all, of many.
    Many {
        test: Test,
        all: bool,
        left: Box<Expr>,
        right: Many,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// Whether it is this truth; NULL is neither.
    Is(bool, Box<Expr>),
    IsSame(Box<Expr>, Box<Expr>),
    Case(Vec<(Expr, Expr)>, Box<Expr>),
    Coalesce(Vec<Expr>),
    Least(Ordering, Vec<Expr>),
    Array(Vec<Expr>),
    Row(Vec<Expr>),
    Subscript(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Option<Box<Expr>>, Option<Box<Expr>>),
    Scalar(Arc<Plan>),
    Exists(Arc<Plan>),
    ArrayOf(Arc<Plan>),
}

/// What is looked through by ANY, ALL and IN.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Many {
    List(Vec<Expr>),
    Array(Box<Expr>),
    Plan(Arc<Plan>),
}

/// A question about two values that is NULL if one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like {
        ignores_case: bool,
        is_not: bool,
        escape: Option<char>,
    },
    Regex {
        ignores_case: bool,
        is_not: bool,
    },
    Contains,
    IsContained,
    Overlaps,
}

impl Test {
    pub(crate) fn value(self, left: &Value, right: &Value, run: &dyn Runs) -> Result<Value> {
        if left.is_null() || right.is_null() {
            return Ok(Value::Null);
        }
        if let (Self::Equal | Self::Unequal, Value::Record(left), Value::Record(right)) =
            (self, left, right)
        {
            let fields = left.iter().zip(right.iter());
            let equal = fields.map(|(left, right)| Self::Equal.value(left, right, run));
            let equal = all(equal)?;
            return Ok(if self == Self::Equal {
                equal
            } else {
                negated(&equal)
            });
        }
        let (left_bytes, right_bytes) = (left.bytes() as u64, right.bytes() as u64);
        run.session().step(match self {
            // Each part of one may be looked for at each place of the other.
            Self::Like { .. } | Self::Contains | Self::IsContained | Self::Overlaps => {
                left_bytes.saturating_mul(right_bytes) / 16
            }
            _ => left_bytes.min(right_bytes) / 16,
        })?;
        if let (Value::Record(lefts), Value::Record(rights)) = (left, right) {
            // The first fields that differ tell the order, and nothing does if one is NULL.
            let mut fields = lefts.iter().zip(rights.iter());
            let differ =
                fields.find(|(left, right)| left.is_null() || right.is_null() || left != right);
            if differ.is_some_and(|(left, right)| left.is_null() || right.is_null()) {
                return Ok(Value::Null);
            }
        }
        let order = || left.order(right);
        let truth = match self {
            Self::Equal => order().is_eq(),
            Self::Unequal => order().is_ne(),
            Self::Less => order().is_lt(),
            Self::LessOrEqual => order().is_le(),
            Self::Greater => order().is_gt(),
            Self::GreaterOrEqual => order().is_ge(),
            Self::Like {
                ignores_case,
                is_not,
                escape,
            } => {
                let is_it = match ignores_case {
                    true => is_like(
                        &left.as_text().to_lowercase(),
                        &right.as_text().to_lowercase(),
                        escape,
                    )?,
                    false => is_like(left.as_text(), right.as_text(), escape)?,
                };
                is_it != is_not
            }
            Self::Regex {
                ignores_case,
                is_not,
            } => {
                run.session().searched(left.as_text())?;
                run.session()
                    .regex(right.as_text(), ignores_case)?
                    .is_match(left.as_text())
                    != is_not
            }
            Self::Contains => right
                .items()
                .iter()
                .all(|item| !item.is_null() && left.items().contains(item)),
            Self::IsContained => left
                .items()
                .iter()
                .all(|item| !item.is_null() && right.items().contains(item)),
            Self::Overlaps => left
                .items()
                .iter()
                .any(|item| !item.is_null() && right.items().contains(item)),
        };
        Ok(truth.into())
    }
}

fn negated(truth: &Value) -> Value {
    match truth {
        Value::Bool(truth) => Value::Bool(!truth),
        _ => Value::Null,
    }
}

/// FALSE if one is, else NULL if one is.
fn all(truths: impl IntoIterator<Item = Result<Value>>) -> Result<Value> {
    let mut found = Value::Bool(true);
    for truth in truths {
        match truth? {
            Value::Bool(true) => {}
            Value::Bool(false) => return Ok(Value::Bool(false)),
            _ => found = Value::Null,
        }
    }
    Ok(found)
}

fn any(truths: impl IntoIterator<Item = Result<Value>>) -> Result<Value> {
    let none = truths.into_iter().map(|truth| Ok(negated(&truth?)));
    Ok(negated(&all(none)?))
}

impl Expr {
    /// A column of an item of the query's own FROM.
    pub(crate) fn column(item: usize, column: usize) -> Self {
        Self::Column {
            up: 0,
            item,
            column,
        }
    }

    pub(crate) fn value(&self, row: &Row<'_>, run: &dyn Runs) -> Result<Value> {
        let value = |expr: &Expr| expr.value(row, run);
        run.session().step(1)?;
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Parameter(place) => run
                .session()
                .arguments
                .get(*place)
                .cloned()
                .unwrap_or(Value::Null),
            Self::Column { up, item, column } => {
                let mut row = row;
                for _ in 0..*up {
                    row = row
                        .outer
                        .ok_or_else(|| Error::new("XX000", "a row is missing"))?;
                }
                row.parts[*item][*column].clone()
            }
            Self::Field(record, place) => match value(record)? {
                Value::Record(fields) => fields.get(*place).cloned().unwrap_or(Value::Null),
                _ => Value::Null,
            },
            Self::Call(function, arguments) => {
                let arguments = arguments.iter().map(value).collect::<Result<Vec<_>>>()?;
                let bytes = arguments.iter().map(Value::bytes).sum::<usize>();
                run.session().bytes(bytes as u64)?;
                if function.is_strict && arguments.iter().any(Value::is_null) {
                    return Ok(Value::Null);
                }
                let value = (function.run)(run.session(), &arguments)?;
                run.session().bytes(value.bytes() as u64)?;
                value
            }
            Self::Cast(cast, inner) => {
                let made = cast.apply(&value(inner)?, run.session().objects)?;
                run.session().bytes(made.bytes() as u64)?;
                made
            }
            Self::Output(ty, inner) => match (value(inner)?, ty.element()) {
                (Value::Null, _) => Value::Null,
                // The text of each item.
                (Value::Array(array), Some(element)) => {
                    let items = array.items.iter().map(|item| match item {
                        Value::Null => Value::Null,
                        item => output(item, element, run.session().objects).into(),
                    });
                    Value::array(items.collect())
                }
                (inner, _) => output(&inner, *ty, run.session().objects).into(),
            },
            Self::Concat(parts) => {
                let mut text = String::new();
                for part in parts {
                    match value(part)? {
                        Value::Null => return Ok(Value::Null),
                        part => {
                            run.session().bytes(part.bytes() as u64)?;
                            text.push_str(part.as_text());
                        }
                    }
                }
                run.session().bytes(text.len() as u64)?;
                text.into()
            }
            Self::Arithmetic(operator, ty, left, right) => {
                arithmetic(*operator, *ty, &value(left)?, &value(right)?)?
            }
            Self::Test(test, left, right) => test.value(&value(left)?, &value(right)?, run)?,
            Self::Many {
                test,
                all: is_all,
                left,
                right,
            } => {
                let left = value(left)?;
                let each = |right: Value| test.value(&left, &right, run);
                match right {
                    Many::List(list) => {
                        quantified(*is_all, list.iter().map(|item| each(value(item)?)))?
                    }
                    Many::Array(array) => match value(array)? {
                        Value::Null => Value::Null,
                        array => {
                            run.session().step(array.items().len() as u64)?;
                            quantified(
                                *is_all,
                                array.items().iter().map(|item| each(item.clone())),
                            )?
                        }
                    },
                    Many::Plan(plan) => {
                        let rows = run.rows(plan, Some(row))?;
                        run.session().step(rows.len() as u64)?;
                        let is_row = matches!(left, Value::Record(_));
                        let rights = rows.iter().map(|right| match is_row {
                            true => Value::Record(Arc::clone(right)),
                            false => right[0].clone(),
                        });
                        quantified(*is_all, rights.map(each))?
                    }
                }
            }
            Self::And(parts) => all(parts.iter().map(value))?,
            Self::Or(parts) => any(parts.iter().map(value))?,
            Self::Not(inner) => negated(&value(inner)?),
            Self::IsNull(inner) => match value(inner)? {
                Value::Record(fields) => fields.iter().all(Value::is_null),
                value => value.is_null(),
            }
            .into(),
            Self::Is(truth, inner) => {
                matches!(value(inner)?, Value::Bool(found) if found == *truth).into()
            }
            Self::IsSame(left, right) => (value(left)? == value(right)?).into(),
            Self::Case(branches, otherwise) => {
                for (condition, result) in branches {
                    if value(condition)?.is_true() {
                        return value(result);
                    }
                }
                value(otherwise)?
            }
            Self::Coalesce(parts) => {
                for part in parts {
                    let found = value(part)?;
                    if !found.is_null() {
                        return Ok(found);
                    }
                }
                Value::Null
            }
            Self::Least(wanted, parts) => {
                let mut least = Value::Null;
                for part in parts {
                    let part = value(part)?;
                    if !part.is_null() && (least.is_null() || part.order(&least) == *wanted) {
                        least = part;
                    }
                }
                least
            }
            Self::Array(items) => Value::array(items.iter().map(value).collect::<Result<_>>()?),
            Self::Row(fields) => Value::Record(fields.iter().map(value).collect::<Result<_>>()?),
            Self::Subscript(array, at) => match (value(array)?, value(at)?) {
                (Value::Array(array), Value::Int(at)) => {
                    let place = usize::try_from(at.saturating_sub(array.first)).ok();
                    place
                        .and_then(|place| array.items.get(place))
                        .cloned()
                        .unwrap_or(Value::Null)
                }
                _ => Value::Null,
            },
            Self::Slice(array, from, to) => {
                let bound = |bound: &Option<Box<Expr>>| bound.as_deref().map(value).transpose();
                match (value(array)?, bound(from)?, bound(to)?) {
                    (_, Some(Value::Null), _) | (_, _, Some(Value::Null)) => Value::Null,
                    (Value::Array(array), from, to) => {
                        let from = from.map_or(array.first, |from| from.as_int());
                        let to = to.map_or(i64::MAX, |to| to.as_int());
                        let items = (array.first..).zip(&array.items);
                        let items = items.filter(|(at, _)| (from..=to).contains(at));
                        Value::array(items.map(|(_, item)| item.clone()).collect())
                    }
                    _ => Value::Null,
                }
            }
            Self::Scalar(plan) => {
                let rows = run.rows(plan, Some(row))?;
                match rows.as_slice() {
                    [] => Value::Null,
                    [one] => one[0].clone(),
                    _ => {
                        let message =
                            "more than one row returned by a subquery used as an expression";
                        return Err(Error::new("21000", message));
                    }
                }
            }
            Self::Exists(plan) => (!run.rows(plan, Some(row))?.is_empty()).into(),
            Self::ArrayOf(plan) => {
                let rows: Rc<Vec<Part>> = run.rows(plan, Some(row))?;
                Value::array(rows.iter().map(|row| row[0].clone()).collect())
            }
        })
    }

    /// Whether it is a constant, whose value needs no row.
    pub(crate) fn constant(&self) -> Option<&Value> {
        match self {
            Self::Constant(value) => Some(value),
            _ => None,
        }
    }
}

fn quantified(is_all: bool, truths: impl Iterator<Item = Result<Value>>) -> Result<Value> {
    if is_all { all(truths) } else { any(truths) }
}

fn arithmetic(operator: char, ty: Type, left: &Value, right: &Value) -> Result<Value> {
    let by_zero = || Error::new("22012", "division by zero");
    let beyond = || Error::new("22003", format!("{} out of range", ty.sql_name()));
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    if let (Value::Int(left), Value::Int(right)) = (left, right)
        && (ty != Type::NUMERIC || operator != '/')
    {
        let (left, right) = (*left, *right);
        let result = match operator {
            '+' => left.checked_add(right),
            '-' => left.checked_sub(right),
            '*' => left.checked_mul(right),
            '/' | '%' if right == 0 => return Err(by_zero()),
            '/' => left.checked_div(right),
            '%' => left.checked_rem(right),
            '&' => Some(left & right),
            '|' => Some(left | right),
            '#' => Some(left ^ right),
            // The distance is taken modulo the bits of the type.
            '<' | '>' => {
                let by = (right & if ty == Type::INT8 { 63 } else { 31 }) as u32;
                Some(match (operator, ty) {
                    ('>', _) => left >> by,
                    (_, Type::INT8) => left << by,
                    _ => i64::from((left << by) as i32),
                })
            }
            other => return Err(Error::unsupported(format_args!("operator {other}"))),
        };
        let result = result.ok_or_else(beyond)?;
        let fits = match ty {
            Type::INT2 => i16::try_from(result).is_ok(),
            Type::INT4 => i32::try_from(result).is_ok(),
            _ => true,
        };
        return if fits {
            Ok(Value::Int(result))
        } else {
            Err(beyond())
        };
    }
    let float = |value: &Value| match value {
        Value::Float(float) => *float,
        other => other.as_int() as f64,
    };
    let (left, right) = (float(left), float(right));
    Ok(Value::Float(match operator {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        '/' | '%' if right == 0.0 => return Err(by_zero()),
        '/' => left / right,
        '%' => left % right,
        other => return Err(Error::unsupported(format_args!("operator {other}"))),
    }))
}
