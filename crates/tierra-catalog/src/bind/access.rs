//! Parts of values: fields of records, items and slices of arrays.

use sqlparser::ast::{AccessExpr, Expr as Syntax, Subscript};

use super::{Binder, Typed, folded};
use crate::error::{Error, Result};
use crate::expression::Expr;
use crate::types::Type;

impl Binder {
    /// `(x).n`, `a[1]` and `a[1:2]`.
    pub(super) fn access(&mut self, root: &Syntax, chain: &[AccessExpr]) -> Result<Typed> {
        let mut chain = chain.iter().peekable();
        let mut names = match root {
            Syntax::Identifier(name) => vec![folded(name)],
            Syntax::CompoundIdentifier(names) => names.iter().map(folded).collect(),
            _ => Vec::new(),
        };
        let mut typed = if names.is_empty() {
            self.expr(root)?
        } else {
            while let Some(AccessExpr::Dot(Syntax::Identifier(name))) = chain.peek() {
                names.push(folded(name));
                chain.next();
            }
            self.column(&names)?
        };
        for access in chain {
            typed = match access {
                AccessExpr::Dot(Syntax::Identifier(name)) => {
                    let name = folded(name);
                    let place = typed.fields.iter().position(|field| field.name == name);
                    let missing = || {
                        Error::new(
                            "42703",
                            format!("column \"{name}\" is not in the value before it"),
                        )
                    };
                    let place = place.ok_or_else(missing)?;
                    let field = typed.fields[place].clone();
                    Typed {
                        expr: Expr::Field(Box::new(typed.expr), place),
                        ty: field.ty,
                        fields: field.fields,
                    }
                }
                AccessExpr::Dot(other) => {
                    return Err(Error::unsupported(format_args!("\".{other}\"")));
                }
                AccessExpr::Subscript(subscript) => {
                    let subscripted = || {
                        Error::mismatch(format!("cannot subscript type {}", typed.ty.sql_name()))
                    };
                    let element = typed.ty.element().ok_or_else(subscripted)?;
                    match subscript {
                        Subscript::Index { index } => {
                            let at = self.boxed(index, Type::INT4)?;
                            Typed::new(Expr::Subscript(Box::new(typed.expr), at), element)
                        }
                        Subscript::Slice {
                            lower_bound,
                            upper_bound,
                            stride: None,
                        } => {
                            let mut bound = |bound: &Option<Syntax>| {
                                let bound = bound.as_ref();
                                bound.map(|bound| self.boxed(bound, Type::INT4)).transpose()
                            };
                            let (from, to) = (bound(lower_bound)?, bound(upper_bound)?);
                            let ty = element.array()?;
                            Typed::new(Expr::Slice(Box::new(typed.expr), from, to), ty)
                        }
                        other @ Subscript::Slice { .. } => {
                            return Err(Error::unsupported(format_args!("[{other}]")));
                        }
                    }
                }
            };
        }
        Ok(typed)
    }
}
