//! Types that meet: what literals become, what is compared with what.

use super::{Binder, Typed};
use crate::cast::Cast;
use crate::error::{Error, Result};
use crate::expression::{Expr, Test};
use crate::functions::{OUTPUT, OUTPUTS};
use crate::types::Type;

impl Binder {
    /// A value as one of type `to`, where only a literal or a kin of it may stand.
    pub(super) fn coerced(&mut self, typed: Typed, to: Type) -> Result<Typed> {
        if typed.ty == to {
            return Ok(typed);
        }
        if typed.ty == Type::UNKNOWN {
            if let Expr::Parameter(place) = typed.expr {
                self.parameters[place] = Some(to);
                return Ok(Typed::new(typed.expr, to));
            }
            return cast(typed, to, None);
        }
        let is_cut = to.is_whole() && !typed.ty.is_whole();
        if typed.ty.class() == to.class() && !is_cut || is_kin(typed.ty, to) {
            return match typed.ty.is_text() || to.is_reference() || typed.ty.is_reference() {
                // The number of a thing stays that number.
                true if to.is_text() && typed.ty.is_text() && typed.ty != Type::BPCHAR => {
                    Ok(Typed::new(typed.expr, to))
                }
                true if typed.ty.is_whole() && to.is_whole() => Ok(Typed::new(typed.expr, to)),
                _ => cast(typed, to, None),
            };
        }
        let message = format!(
            "a value of type {} stands where {} is expected",
            typed.ty.sql_name(),
            to.sql_name()
        );
        Err(Error::mismatch(message))
    }

    /// Whether an argument of type `from` fits a parameter of type `to`.
    pub(super) fn fits(from: Type, to: Type) -> bool {
        match to {
            Type::ANY | Type::ANYELEMENT | OUTPUT => true,
            Type::ANYARRAY | OUTPUTS => from.element().is_some() || from == Type::UNKNOWN,
            _ if to.is_whole() && from.class() == b'N' && !from.is_whole() => false,
            _ => {
                from == to
                    || from == Type::UNKNOWN
                    || from.class() == to.class()
                    || is_kin(from, to)
            }
        }
    }

    /// Two values of types that can be compared.
    pub(super) fn comparable(
        &mut self,
        left: Typed,
        right: Typed,
        operator: &str,
    ) -> Result<(Typed, Typed)> {
        let (left, right) = match (left.ty, right.ty) {
            (Type::UNKNOWN, Type::UNKNOWN) => (
                self.coerced(left, Type::TEXT)?,
                self.coerced(right, Type::TEXT)?,
            ),
            (Type::UNKNOWN, other) => (self.coerced(left, other)?, right),
            (other, Type::UNKNOWN) => (left, self.coerced(right, other)?),
            _ => (left, right),
        };
        let can = match (left.ty.element(), right.ty.element()) {
            (Some(left), Some(right)) => left.class() == right.class(),
            (None, None) => left.ty.class() == right.ty.class(),
            _ => false,
        };
        let can = can || left.ty == Type::RECORD && right.ty == Type::RECORD;
        match can {
            true => Ok((left, right)),
            false => Err(no_operator(left.ty, operator, right.ty)),
        }
    }

    /// A comparison.
    pub(super) fn compared(
        &mut self,
        test: Test,
        left: Typed,
        right: Typed,
        operator: &str,
    ) -> Result<Typed> {
        let (left, right) = self.rows_of(left, right, operator)?;
        let (left, right) = (unpadded(left)?, unpadded(right)?);
        Ok(Typed::bool(Expr::Test(
            test,
            Box::new(left.expr),
            Box::new(right.expr),
        )))
    }

    /// As [`Self::comparable`]; of records, field by field.
    pub(super) fn rows_of(
        &mut self,
        left: Typed,
        right: Typed,
        operator: &str,
    ) -> Result<(Typed, Typed)> {
        if let (Expr::Row(lefts), Expr::Row(rights)) = (&left.expr, &right.expr) {
            if lefts.len() != rights.len() {
                return Err(Error::new(
                    "42601",
                    "unequal number of entries in row expressions",
                ));
            }
            let mut both = (Vec::new(), Vec::new());
            let fields = lefts
                .iter()
                .zip(&left.fields)
                .zip(rights.iter().zip(&right.fields));
            for ((one, one_column), (two, two_column)) in fields {
                let one = Typed::new(one.clone(), one_column.ty);
                let two = Typed::new(two.clone(), two_column.ty);
                let (one, two) = self.comparable(one, two, operator)?;
                both.0.push(unpadded(one)?.expr);
                both.1.push(unpadded(two)?.expr);
            }
            let row = |fields| Typed::new(Expr::Row(fields), Type::RECORD);
            return Ok((row(both.0), row(both.1)));
        }
        self.comparable(left, right, operator)
    }

    /// Values as ones of one type.
    pub(super) fn unified(&mut self, all: Vec<Typed>, what: &str) -> Result<(Vec<Typed>, Type)> {
        let mut common = Type::UNKNOWN;
        for typed in &all {
            common = unified(common, typed.ty, what)?;
        }
        if common == Type::UNKNOWN {
            common = Type::TEXT;
        }
        let all = all.into_iter().map(|typed| self.coerced(typed, common));
        Ok((all.collect::<Result<_>>()?, common))
    }
}

/// A value as it is compared: without the blanks at the end of `character(n)`.
pub(super) fn unpadded(typed: Typed) -> Result<Typed> {
    match typed.ty {
        Type::BPCHAR => cast(typed, Type::TEXT, None),
        ty if ty.element() == Some(Type::BPCHAR) => cast(typed, Type::TEXT_ARRAY, None),
        _ => Ok(typed),
    }
}

/// Whether values of the types are stored alike, though they are of different classes.
fn is_kin(from: Type, to: Type) -> bool {
    match (from.element(), to.element()) {
        (Some(from), Some(to)) => from.class() == to.class(),
        _ => false,
    }
}

/// The type that values of both types become.
pub(super) fn unified(left: Type, right: Type, what: &str) -> Result<Type> {
    const WIDTHS: [Type; 6] = [
        Type::INT2,
        Type::INT4,
        Type::INT8,
        Type::NUMERIC,
        Type::FLOAT4,
        Type::FLOAT8,
    ];
    let width = |ty| WIDTHS.iter().position(|width| *width == ty);
    Ok(match (left, right) {
        (Type::UNKNOWN, other) | (other, Type::UNKNOWN) => other,
        (left, right) if left == right => left,
        (left, right) => match (width(left), width(right)) {
            (Some(one), Some(two)) => WIDTHS[one.max(two)],
            _ if left.class() == b'S' && right.class() == b'S' => Type::TEXT,
            _ if left.is_whole() && right.is_whole() && left.class() == right.class() => Type::OID,
            _ if is_kin(left, right) => left,
            _ => {
                let message = format!(
                    "{what} types {} and {} cannot be matched",
                    left.sql_name(),
                    right.sql_name()
                );
                return Err(Error::mismatch(message));
            }
        },
    })
}

pub(super) fn no_operator(left: Type, operator: &str, right: Type) -> Error {
    let message = format!(
        "operator does not exist: {} {operator} {}",
        left.sql_name(),
        right.sql_name()
    );
    Error::new("42883", message)
}

pub(super) fn cast(typed: Typed, to: Type, letters: Option<usize>) -> Result<Typed> {
    let cast = Cast {
        from: typed.ty,
        to,
        letters,
    };
    cast.check()?;
    Ok(Typed::new(Expr::Cast(cast, Box::new(typed.expr)), to))
}
