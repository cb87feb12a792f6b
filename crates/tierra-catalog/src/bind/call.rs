//! Calls of functions, of aggregates and of window functions.

use std::cmp::Ordering;

use sqlparser::ast::{
    DuplicateTreatment, Expr as Syntax, Function as Call, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, OrderByExpr, WindowType,
};

use super::expression::one_column;
use super::from::plain;
use super::{Binder, Typed, path};
use crate::error::{Error, Result};
use crate::expression::{Expr, Test};
use crate::functions::{Function, OUTPUT, OUTPUTS, RowsFunction, named};
use crate::plan::{Aggregate, AggregateKind, Column, Key, Window, WindowKind};
use crate::types::Type;
use crate::value::Value;

impl Binder {
    /// The name of a function of the catalog.
    pub(super) fn function_name<'a>(&self, path: &'a [String]) -> Result<&'a str> {
        match path {
            [name] => Ok(name),
            [schema, name]
                if schema == "pg_catalog"
                    || schema == "information_schema" && name.starts_with('_') =>
            {
                Ok(name)
            }
            _ => Err(Error::no_function(path.join("."))),
        }
    }

    pub(super) fn function(&mut self, call: &Call) -> Result<Typed> {
        let path = path(&call.name)?;
        let name = self.function_name(&path)?;
        if call.null_treatment.is_some()
            || !call.within_group.is_empty()
            || !matches!(call.parameters, FunctionArguments::None)
        {
            return Err(Error::unsupported(format_args!("\"{call}\"")));
        }
        let (arguments, clauses, is_distinct) = match &call.args {
            FunctionArguments::None => (&[][..], &[][..], false),
            FunctionArguments::Subquery(query) if name == "array" => {
                let plan = self.subquery(query)?;
                let ty = one_column(&plan)?.ty.array()?;
                return Ok(Typed::new(Expr::ArrayOf(plan), ty));
            }
            FunctionArguments::Subquery(_) => {
                return Err(Error::unsupported(format_args!("\"{call}\"")));
            }
            FunctionArguments::List(list) => {
                let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
                (&list.args[..], &list.clauses[..], is_distinct)
            }
        };
        let windowed = call
            .over
            .as_ref()
            .map(|over| self.window(name, over))
            .transpose()?;
        if let Some((kind, is_star)) = aggregate_named(name, arguments) {
            let order = match clauses {
                [] => &[][..],
                [FunctionArgumentClause::OrderBy(order)] => order,
                _ => return Err(Error::unsupported(format_args!("\"{call}\""))),
            };
            let arguments = if is_star {
                Vec::new()
            } else {
                plain(arguments)?
            };
            let (aggregate, ty) = self.aggregate(
                name,
                kind,
                &arguments,
                is_distinct,
                order,
                call.filter.as_deref(),
            )?;
            return Ok(match windowed {
                None => self.aggregated(aggregate, ty),
                Some((partition, order)) if order.is_empty() => self.windowed(
                    Window {
                        kind: WindowKind::Aggregate(aggregate),
                        partition,
                        order,
                    },
                    ty,
                ),
                Some(_) => return Err(Error::unsupported("an aggregate OVER an order")),
            });
        }
        if is_distinct || !clauses.is_empty() || call.filter.is_some() {
            return Err(Error::new(
                "42809",
                format!("{name} is not an aggregate function"),
            ));
        }
        let arguments = plain(arguments)?;
        if let Some((partition, order)) = windowed {
            let kind = match (name, arguments.as_slice()) {
                ("row_number", []) => WindowKind::RowNumber,
                ("rank", []) => WindowKind::Rank,
                ("dense_rank", []) => WindowKind::DenseRank,
                _ => {
                    return Err(Error::unsupported(format_args!(
                        "the window function {name}"
                    )));
                }
            };
            return Ok(self.windowed(
                Window {
                    kind,
                    partition,
                    order,
                },
                Type::INT8,
            ));
        }
        self.call(name, &arguments)
    }

    /// A call of a function that is neither an aggregate nor one of a window.
    pub(super) fn call(&mut self, name: &str, arguments: &[&Syntax]) -> Result<Typed> {
        if RowsFunction::named(name, arguments.len()).is_some() {
            return self.rows_value(name, arguments);
        }
        let before = self.made;
        let mut typed = arguments
            .iter()
            .map(|argument| self.expr(argument))
            .collect::<Result<Vec<_>>>()?;
        let exprs = |all: Vec<Typed>| all.into_iter().map(|part| part.expr).collect::<Vec<_>>();
        match (name, typed.len()) {
            ("coalesce", 1..) => {
                let (parts, ty) = self.unified(typed, "COALESCE")?;
                Ok(Typed::new(Expr::Coalesce(exprs(parts)), ty))
            }
            ("nullif", 2) => {
                self.copied(before, 1)?;
                let right = typed.remove(1);
                let (left, right) = self.comparable(typed.remove(0), right, "=")?;
                let (ty, value) = (left.ty, left.expr.clone());
                let equal = self.compared(Test::Equal, left, right, "=")?.expr;
                let null = Expr::Constant(Value::Null);
                Ok(Typed::new(
                    Expr::Case(vec![(equal, null)], Box::new(value)),
                    ty,
                ))
            }
            ("greatest", 1..) => self.least(Ordering::Greater, typed),
            ("least", 1..) => self.least(Ordering::Less, typed),
            ("row", _) => Ok(super::expression::record(typed)),
            ("pg_typeof", 1) => {
                let oid = Value::from(typed[0].ty.0);
                Ok(Typed::new(Expr::Constant(oid), Type::REGTYPE))
            }
            _ => self.called(name, typed),
        }
    }

    /// A call with arguments that are bound.
    pub(super) fn called(&mut self, name: &str, typed: Vec<Typed>) -> Result<Typed> {
        let (function, arguments, result) = self.resolved(name, typed)?;
        Ok(Typed::new(Expr::Call(function, arguments), result))
    }

    /// A function that returns one value, for FROM.
    pub(super) fn scalar(
        &mut self,
        name: &str,
        arguments: &[&Syntax],
    ) -> Result<(&'static Function, Vec<Expr>)> {
        let typed = arguments
            .iter()
            .map(|argument| self.expr(argument))
            .collect::<Result<Vec<_>>>()?;
        let (function, arguments, _) = self.resolved(name, typed)?;
        Ok((function, arguments))
    }

    fn resolved(
        &mut self,
        name: &str,
        typed: Vec<Typed>,
    ) -> Result<(&'static Function, Vec<Expr>, Type)> {
        let fits = |function: &&Function, is_exact: bool| {
            typed.iter().enumerate().all(|(place, argument)| {
                let parameter = function.parameter(place);
                let is_same = argument.ty == parameter || argument.ty.class() == parameter.class();
                Self::fits(argument.ty, parameter)
                    && (!is_exact || argument.ty == Type::UNKNOWN || is_same)
            })
        };
        // A literal is a text rather than a number.
        let keeps_texts = |function: &&Function| {
            let mut places = typed.iter().enumerate();
            places.all(|(place, argument)| {
                argument.ty != Type::UNKNOWN || function.parameter(place).is_text()
            })
        };
        let mut all = named(name, typed.len());
        let found = all.find(|function| fits(function, true) && keeps_texts(function));
        let found =
            found.or_else(|| named(name, typed.len()).find(|function| fits(function, true)));
        let found =
            found.or_else(|| named(name, typed.len()).find(|function| fits(function, false)));
        let function = found.ok_or_else(|| {
            let types: Vec<&str> = typed
                .iter()
                .map(|argument| argument.ty.sql_name())
                .collect();
            Error::no_function(format_args!("{name}({})", types.join(", ")))
        })?;
        // The array that an element belongs to.
        let array = typed.iter().enumerate().find_map(|(place, argument)| {
            let is_array =
                function.parameter(place) == Type::ANYARRAY && argument.ty != Type::UNKNOWN;
            is_array.then_some(argument.ty)
        });
        let mut arguments = Vec::new();
        for (place, argument) in typed.into_iter().enumerate() {
            let argument = match function.parameter(place) {
                Type::ANYARRAY => {
                    let ty = array.unwrap_or(Type::TEXT_ARRAY);
                    self.coerced(argument, ty)?
                }
                Type::ANYELEMENT => {
                    let ty = array.and_then(Type::element).unwrap_or(Type::TEXT);
                    self.coerced(argument, ty)?
                }
                OUTPUTS if argument.ty == Type::UNKNOWN => {
                    self.coerced(argument, Type::TEXT_ARRAY)?
                }
                OUTPUT | Type::ANY if argument.ty == Type::UNKNOWN => {
                    self.coerced(argument, Type::TEXT)?
                }
                OUTPUT if argument.ty == Type::RECORD => {
                    return Err(Error::unsupported("the text of a row"));
                }
                OUTPUT | OUTPUTS => Typed::new(
                    Expr::Output(argument.ty, Box::new(argument.expr)),
                    Type::TEXT,
                ),
                Type::ANY => argument,
                ty => self.coerced(argument, ty)?,
            };
            arguments.push(argument.expr);
        }
        let result = match function.result {
            Type::ANYARRAY => array.unwrap_or(Type::TEXT_ARRAY),
            ty => ty,
        };
        Ok((function, arguments, result))
    }

    /// A function that returns rows, with its arguments and columns.
    pub(super) fn rows_function(
        &mut self,
        function: RowsFunction,
        name: &str,
        arguments: &[&Syntax],
    ) -> Result<(RowsFunction, Vec<Expr>, Vec<Column>)> {
        let mut typed = arguments
            .iter()
            .map(|argument| self.expr(argument))
            .collect::<Result<Vec<_>>>()?;
        for argument in &mut typed {
            if argument.ty == Type::UNKNOWN {
                let ty = match function {
                    RowsFunction::Series | RowsFunction::Subscripts => Type::INT4,
                    _ => Type::TEXT_ARRAY,
                };
                *argument = self.coerced(argument.clone(), ty)?;
            }
        }
        let types: Vec<Type> = typed.iter().map(|argument| argument.ty).collect();
        let are_whole = |types: &[Type]| types.iter().all(|ty| ty.is_whole());
        let is_known = match function {
            RowsFunction::Series => are_whole(&types),
            RowsFunction::Subscripts => {
                are_whole(&types[1..2]) && types.get(2).is_none_or(|ty| *ty == Type::BOOL)
            }
            _ => true,
        };
        if !is_known {
            let types: Vec<&str> = types.iter().map(|ty| ty.sql_name()).collect();
            return Err(Error::no_function(format_args!(
                "{name}({})",
                types.join(", ")
            )));
        }
        let columns = function.columns(name, &types)?;
        Ok((
            function,
            typed.into_iter().map(|argument| argument.expr).collect(),
            columns,
        ))
    }

    /// A function that returns rows, in the select list.
    fn rows_value(&mut self, name: &str, arguments: &[&Syntax]) -> Result<Typed> {
        if !self.scope().allows_rows {
            return Err(Error::new(
                "0A000",
                "set-returning functions are not allowed here",
            ));
        }
        let function =
            RowsFunction::named(name, arguments.len()).ok_or_else(|| Error::no_function(name))?;
        // One within another would have to run before it.
        self.scope().allows_rows = false;
        let bound = self.rows_function(function, name, arguments);
        self.scope().allows_rows = true;
        let (function, arguments, columns) = bound?;
        let scope = self.scope();
        let (item, first) = (scope.items.len() + 2, scope.rows_width);
        scope.rows_width += columns.len();
        scope.row_functions.push((function, arguments));
        let value = |place: usize| columns[place].at(item, first + place);
        match columns.len() {
            1 => Ok(value(0)),
            len => {
                let fields = (0..len).map(|place| value(place).expr);
                Ok(Typed {
                    expr: Expr::Row(fields.collect()),
                    ty: Type::RECORD,
                    fields: columns.clone(),
                })
            }
        }
    }

    fn aggregate(
        &mut self,
        name: &str,
        kind: AggregateKind,
        arguments: &[&Syntax],
        is_distinct: bool,
        order: &[OrderByExpr],
        filter: Option<&Syntax>,
    ) -> Result<(Aggregate, Type)> {
        let scope = self.scope();
        if !scope.allows_aggregates || scope.in_aggregate {
            return Err(Error::new(
                "42803",
                "aggregate functions are not allowed here",
            ));
        }
        scope.in_aggregate = true;
        let (touched, outer_names) = (std::mem::take(&mut scope.touched), self.outer_names);
        let bound = self.aggregate_parts(name, kind, arguments, order, filter);
        let outer_names = self.outer_names - outer_names;
        let scope = self.scope();
        scope.in_aggregate = false;
        if scope.touched == 0 && outer_names > 0 {
            return Err(Error::unsupported(
                "an aggregate of a query around this one",
            ));
        }
        scope.touched |= touched;
        let (arguments, order, filter, ty) = bound?;
        if is_distinct && order.iter().any(|key| !arguments.contains(&key.by)) {
            let message =
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(Error::new("42P10", message));
        }
        Ok((
            Aggregate {
                kind,
                arguments,
                is_distinct,
                order,
                filter,
            },
            ty,
        ))
    }

    #[expect(clippy::type_complexity, reason = "they are the parts of an aggregate")]
    fn aggregate_parts(
        &mut self,
        name: &str,
        kind: AggregateKind,
        arguments: &[&Syntax],
        order: &[OrderByExpr],
        filter: Option<&Syntax>,
    ) -> Result<(Vec<Expr>, Vec<Key<Expr>>, Option<Expr>, Type)> {
        let mut typed = arguments
            .iter()
            .map(|argument| self.expr(argument))
            .collect::<Result<Vec<_>>>()?;
        let wrong = |ty: Type| Error::no_function(format_args!("{name}({})", ty.sql_name()));
        for argument in &mut typed {
            if argument.ty == Type::UNKNOWN {
                *argument = self.coerced(argument.clone(), Type::TEXT)?;
            }
        }
        let first = typed.first().map_or(Type::ANY, |argument| argument.ty);
        let ty = match kind {
            AggregateKind::CountAll | AggregateKind::Count => Type::INT8,
            AggregateKind::Min | AggregateKind::Max if first == Type::NAME => Type::TEXT,
            AggregateKind::Min | AggregateKind::Max => first,
            AggregateKind::Sum | AggregateKind::Average
                if first.class() != b'N' || first.is_reference() || first == Type::OID =>
            {
                return Err(wrong(first));
            }
            AggregateKind::Sum if matches!(first, Type::INT2 | Type::INT4) => Type::INT8,
            AggregateKind::Sum if first == Type::INT8 => Type::NUMERIC,
            AggregateKind::Sum if first == Type::NUMERIC => {
                return Err(Error::unsupported("sum of numeric"));
            }
            AggregateKind::Sum => first,
            AggregateKind::Average if matches!(first, Type::FLOAT4 | Type::FLOAT8) => Type::FLOAT8,
            AggregateKind::Average => {
                return Err(Error::unsupported("avg of what is not float8"));
            }
            AggregateKind::BoolAnd | AggregateKind::BoolOr if first != Type::BOOL => {
                return Err(wrong(first));
            }
            AggregateKind::BoolAnd | AggregateKind::BoolOr => Type::BOOL,
            AggregateKind::ArrayAgg => first.array()?,
            AggregateKind::StringAgg if typed.iter().any(|argument| !argument.ty.is_text()) => {
                return Err(wrong(first));
            }
            AggregateKind::StringAgg => Type::TEXT,
        };
        let order = self.keys(order)?;
        let filter = filter.map(|filter| self.truth(filter)).transpose()?;
        Ok((
            typed.into_iter().map(|argument| argument.expr).collect(),
            order,
            filter,
            ty,
        ))
    }

    /// The keys of an ORDER BY within a call.
    fn keys(&mut self, order: &[OrderByExpr]) -> Result<Vec<Key<Expr>>> {
        let keys = order.iter().map(|key| {
            let by = self.expr(&key.expr)?;
            super::query::key(by.expr, key)
        });
        keys.collect()
    }

    fn aggregated(&mut self, aggregate: Aggregate, ty: Type) -> Typed {
        let scope = self.scope();
        let item = scope.items.len();
        let known = scope
            .aggregates
            .iter()
            .position(|known| *known == aggregate);
        let column = known.unwrap_or_else(|| {
            scope.aggregates.push(aggregate);
            scope.aggregates.len() - 1
        });
        Typed::new(Expr::column(item, column), ty)
    }

    fn windowed(&mut self, window: Window, ty: Type) -> Typed {
        let scope = self.scope();
        let item = scope.items.len() + 1;
        scope.windows.push(window);
        Typed::new(Expr::column(item, scope.windows.len() - 1), ty)
    }

    fn window(&mut self, name: &str, over: &WindowType) -> Result<(Vec<Expr>, Vec<Key<Expr>>)> {
        if !self.scope().allows_aggregates || self.scope().in_aggregate {
            return Err(Error::new("42P20", "window functions are not allowed here"));
        }
        match over {
            WindowType::WindowSpec(spec)
                if spec.window_name.is_none() && spec.window_frame.is_none() =>
            {
                let partition = spec
                    .partition_by
                    .iter()
                    .map(|expr| Ok(self.expr(expr)?.expr));
                let partition = partition.collect::<Result<_>>()?;
                Ok((partition, self.keys(&spec.order_by)?))
            }
            _ => Err(Error::unsupported(format_args!("the window of {name}"))),
        }
    }
}

/// The aggregate of this name, and whether it is one of rows: `count(*)`.
fn aggregate_named(name: &str, arguments: &[FunctionArg]) -> Option<(AggregateKind, bool)> {
    let is_star = matches!(arguments, [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
    let kind = match (name, arguments.len()) {
        ("count", 1) if is_star => AggregateKind::CountAll,
        _ if is_star => return None,
        ("count", 1) => AggregateKind::Count,
        ("min", 1) => AggregateKind::Min,
        ("max", 1) => AggregateKind::Max,
        ("sum", 1) => AggregateKind::Sum,
        ("avg", 1) => AggregateKind::Average,
        ("bool_and" | "every", 1) => AggregateKind::BoolAnd,
        ("bool_or", 1) => AggregateKind::BoolOr,
        ("array_agg", 1) => AggregateKind::ArrayAgg,
        ("string_agg", 2) => AggregateKind::StringAgg,
        _ => return None,
    };
    Some((kind, is_star))
}
