//! Refuses syntax that the parser accepts and the planner would silently ignore.
//!
//! The parser knows the clauses of many databases. Clauses that neither DataFusion nor Tierra implements are refused by name
//! here: ignoring a sample, a hint or a modifier would change what a statement means. Nodes are destructured field by field, so
//! that a new field of the parser is not missed.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    self, Cte, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Join,
    JoinOperator, Query, Select, SelectFlavor, SetExpr, TableAlias, TableFactor, TableFunctionArgs,
    TableWithJoins, Visitor,
};

use crate::error::DefinitionError;
use crate::names::{identifier, last_name};
use crate::visit::visit;

/// The kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FunctionKind {
    Scalar,
    /// Scalar, and another value at each call.
    Drawing,
    Aggregate,
    /// Only in windows.
    Window,
    Unknown,
}

/// Refuses `statement` if a part of it would be ignored; `kind` gives the kind of a function's name.
pub(crate) fn refuse(
    statement: &Statement,
    kind: impl Fn(&str) -> FunctionKind,
) -> Result<(), DefinitionError> {
    let mut ignored = IgnoredSyntax {
        kind,
        optional: Vec::new(),
    };
    let found = match statement {
        Statement::Statement(statement) => visit(statement, &mut ignored),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => visit(query, &mut ignored),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::Explain(explain) => return refuse(&explain.statement, ignored.kind),
        _ => ControlFlow::Continue(()),
    };
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct IgnoredSyntax<K> {
    kind: K,
    /// For each query and each select that is visited, the tables of which outer joins make rows of NULLs.
    optional: Vec<Vec<String>>,
}

type Found = ControlFlow<DefinitionError>;

fn unsupported(what: impl Into<String>) -> Found {
    ControlFlow::Break(DefinitionError::Unsupported(what.into()))
}

fn refuse_if(is_there: bool, what: &str) -> Found {
    match is_there {
        true => unsupported(what),
        false => ControlFlow::Continue(()),
    }
}

impl<K: Fn(&str) -> FunctionKind> Visitor for IgnoredSyntax<K> {
    type Break = DefinitionError;

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> Found {
        match statement {
            ast::Statement::Drop {
                purge, temporary, ..
            } => {
                refuse_if(*purge, "DROP .. PURGE")?;
                refuse_if(*temporary, "DROP TEMPORARY TABLE")
            }
            ast::Statement::Execute {
                immediate,
                into,
                using,
                output,
                default,
                ..
            } => {
                refuse_if(*immediate, "EXECUTE IMMEDIATE")?;
                refuse_if(!into.is_empty(), "EXECUTE .. INTO")?;
                refuse_if(!using.is_empty(), "EXECUTE .. USING")?;
                refuse_if(*output || *default, "OUTPUT or DEFAULT in EXECUTE")
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_query(&mut self, query: &Query) -> Found {
        let Query {
            with,
            body: _,
            order_by: _,
            limit_clause: _,
            fetch: _,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators: _,
        } = query;
        if let Some(lock) = locks.first() {
            return unsupported(format!("'{lock}' of a query"));
        }
        if let Some(clause) = for_clause {
            return unsupported(format!("'{clause}' of a query"));
        }
        refuse_if(settings.is_some(), "SETTINGS of a query")?;
        refuse_if(format_clause.is_some(), "FORMAT of a query")?;
        for cte in with.iter().flat_map(|with| &with.cte_tables) {
            let Cte {
                alias,
                query: _,
                from,
                materialized: _,
                closing_paren_token: _,
            } = cte;
            refuse_if(from.is_some(), "FROM behind WITH name AS (query)")?;
            visit_alias(alias)?;
        }
        // ORDER BY sees the tables of the select.
        self.optional.push(match query.body.as_ref() {
            SetExpr::Select(select) => select.from.iter().flat_map(optional).collect(),
            _ => Vec::new(),
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> Found {
        self.optional.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Found {
        let Select {
            select_token: _,
            optimizer_hints,
            distinct: _,
            select_modifiers,
            top: _,
            top_before_distinct: _,
            projection: _,
            exclude,
            into: _,
            from,
            lateral_views: _,
            prewhere,
            selection: _,
            connect_by,
            group_by,
            cluster_by: _,
            distribute_by: _,
            sort_by: _,
            having: _,
            named_window: _,
            qualify: _,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        if *flavor == SelectFlavor::FromFirstNoSelect {
            return ControlFlow::Break(DefinitionError::UnsupportedFor {
                what: "FROM without SELECT",
                instead: "write SELECT * FROM ..",
            });
        }
        refuse_if(!optimizer_hints.is_empty(), "a hint /*+ .. */")?;
        if let Some(modifiers) = select_modifiers
            && modifiers.is_any_set()
        {
            return unsupported(format!("SELECT{modifiers}"));
        }
        refuse_if(exclude.is_some(), "EXCLUDE behind a select list")?;
        refuse_if(prewhere.is_some(), "PREWHERE")?;
        refuse_if(!connect_by.is_empty(), "CONNECT BY or START WITH")?;
        refuse_if(value_table_mode.is_some(), "SELECT AS VALUE or AS STRUCT")?;
        let (GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)) = group_by;
        if let Some(modifier) = modifiers.first() {
            return unsupported(format!("GROUP BY .. {modifier}"));
        }
        self.optional.push(from.iter().flat_map(optional).collect());
        from.iter().try_for_each(visit_from)
    }

    fn post_visit_select(&mut self, _select: &Select) -> Found {
        self.optional.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Found {
        match factor {
            TableFactor::Table {
                name: _,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if let Some(TableFunctionArgs { args: _, settings }) = args {
                    refuse_if(settings.is_some(), "SETTINGS of a table function")?;
                }
                refuse_if(!with_hints.is_empty(), "a hint WITH (..) behind a table")?;
                refuse_if(version.is_some(), "an earlier version of a table")?;
                refuse_if(*with_ordinality, "WITH ORDINALITY")?;
                refuse_if(!partitions.is_empty(), "PARTITION (..) behind a table")?;
                refuse_if(json_path.is_some(), "a JSON path behind a table")?;
                refuse_if(sample.is_some(), "TABLESAMPLE")?;
                refuse_if(!index_hints.is_empty(), "an index hint behind a table")?;
                alias.iter().try_for_each(visit_alias)
            }
            TableFactor::Derived {
                lateral: _,
                subquery: _,
                alias,
                sample,
            } => {
                refuse_if(sample.is_some(), "TABLESAMPLE")?;
                alias.iter().try_for_each(visit_alias)
            }
            TableFactor::Function {
                lateral: _,
                name: _,
                args,
                with_ordinality,
                alias,
            } => {
                refuse_if(*with_ordinality, "WITH ORDINALITY")?;
                let is_named = |arg: &FunctionArg| !matches!(arg, FunctionArg::Unnamed(_));
                refuse_if(
                    args.iter().any(is_named),
                    "a named argument of a table function",
                )?;
                alias.iter().try_for_each(visit_alias)
            }
            TableFactor::UNNEST { alias, .. } => alias.iter().try_for_each(visit_alias),
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                visit_from(table_with_joins)?;
                alias.iter().try_for_each(visit_alias)
            }
            // The planner knows no others.
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Found {
        match expr {
            Expr::Function(function) => self.visit_function(function),
            // The planner takes its pattern for a regular expression that matches any part.
            Expr::SimilarTo { .. } => ControlFlow::Break(DefinitionError::UnsupportedFor {
                what: "SIMILAR TO",
                instead: "use LIKE, or s ~ '^(..)$' of a regular expression",
            }),
            Expr::Trim {
                trim_characters: Some(characters),
                ..
            } => refuse_if(
                characters.len() > 1,
                "TRIM with more than one list of characters",
            ),
            _ => ControlFlow::Continue(()),
        }
    }
}

impl<K: Fn(&str) -> FunctionKind> IgnoredSyntax<K> {
    fn visit_function(&self, function: &Function) -> Found {
        let Function {
            name,
            uses_odbc_syntax: _,
            parameters,
            args,
            filter,
            null_treatment,
            over,
            within_group,
        } = function;
        let refuse_if = |is_there: bool, what: &str| match is_there {
            true => unsupported(format!("{what} with {name}")),
            false => ControlFlow::Continue(()),
        };
        refuse_if(
            *parameters != FunctionArguments::None,
            "a second list of arguments",
        )?;
        let (is_distinct, has_clauses) = match args {
            FunctionArguments::None => (false, false),
            FunctionArguments::Subquery(_) => {
                return unsupported(format!("{name} of a query without parentheses of its own"));
            }
            FunctionArguments::List(list) => {
                let is_distinct = matches!(
                    list.duplicate_treatment,
                    Some(ast::DuplicateTreatment::Distinct)
                );
                (is_distinct, !list.clauses.is_empty())
            }
        };
        if let FunctionArguments::List(list) = args
            && let [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(table))] =
                list.args.as_slice()
            && self
                .optional
                .last()
                .is_some_and(|optional| optional.contains(&last_name(table)))
        {
            return ControlFlow::Break(DefinitionError::UnsupportedFor {
                what: "count(t.*) beside an outer join",
                instead: "count a column of the table that is never NULL",
            });
        }
        let kind = (self.kind)(&last_name(name));
        let is_scalar = matches!(kind, FunctionKind::Scalar | FunctionKind::Drawing);
        if is_scalar {
            refuse_if(over.is_some(), "OVER")?;
            refuse_if(has_clauses, "ORDER BY or another clause in parentheses")?;
            refuse_if(!within_group.is_empty(), "WITHIN GROUP")?;
            refuse_if(null_treatment.is_some(), "IGNORE or RESPECT NULLS")?;
        }
        if is_scalar || kind == FunctionKind::Window {
            refuse_if(is_distinct, "DISTINCT")?;
            refuse_if(filter.is_some(), "FILTER")?;
        }
        ControlFlow::Continue(())
    }
}

/// The tables of which outer joins make rows of NULLs. The planner counts these in `count(t.*)`.
fn optional(from: &TableWithJoins) -> Vec<String> {
    let mut optional = inner_optional(&from.relation);
    let mut left = names_of(&from.relation);
    for join in &from.joins {
        let right = names_of(&join.relation);
        optional.extend(inner_optional(&join.relation));
        match join.join_operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => optional.extend(right.clone()),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => optional.extend(left.clone()),
            JoinOperator::FullOuter(_) => {
                optional.extend(left.clone());
                optional.extend(right.clone());
            }
            _ => {}
        }
        left.extend(right);
    }
    optional
}

fn inner_optional(factor: &TableFactor) -> Vec<String> {
    match factor {
        TableFactor::NestedJoin {
            table_with_joins, ..
        } => optional(table_with_joins),
        _ => Vec::new(),
    }
}

/// The names by which the tables of `factor` are known.
fn names_of(factor: &TableFactor) -> Vec<String> {
    match (alias_of(factor), factor) {
        (Some(alias), _) => vec![identifier(&alias.name)],
        (None, TableFactor::Table { name, .. }) => vec![last_name(name)],
        (
            None,
            TableFactor::NestedJoin {
                table_with_joins, ..
            },
        ) => {
            let joined = table_with_joins.joins.iter().map(|join| &join.relation);
            let all = std::iter::once(&table_with_joins.relation).chain(joined);
            all.flat_map(names_of).collect()
        }
        _ => Vec::new(),
    }
}

/// The joined tables. In `a POSITIONAL JOIN b` the parser takes the kind of join for an alias of `a`.
fn visit_from(from: &TableWithJoins) -> Found {
    let TableWithJoins { relation, joins } = from;
    let mut left = relation;
    for join in joins {
        let Join {
            relation,
            global,
            join_operator: _,
        } = join;
        refuse_if(*global, "GLOBAL JOIN")?;
        if let Some(alias) = alias_of(left)
            && !alias.explicit
            && alias.name.quote_style.is_none()
            && alias.name.value.eq_ignore_ascii_case("positional")
        {
            return ControlFlow::Break(DefinitionError::UnsupportedFor {
                what: "POSITIONAL JOIN",
                instead: "number the rows with row_number() OVER () and join on that, or write AS \"positional\" for a name",
            });
        }
        left = relation;
    }
    ControlFlow::Continue(())
}

fn alias_of(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

fn visit_alias(alias: &TableAlias) -> Found {
    let TableAlias {
        explicit: _,
        name: _,
        columns,
        at,
    } = alias;
    refuse_if(at.is_some(), "AT behind the name of a table")?;
    let has_type = columns.iter().any(|column| column.data_type.is_some());
    refuse_if(has_type, "the type of a column in a list of names")
}
