//! Queries of queries, each with its LIMIT, in which names change their columns; and DISTINCT ON. All of them have a total order.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::relation::in_alias;
use super::select::Query;
use super::{Expr, Field, Grammar, Scope};

impl Grammar<'_> {
    /// A query, its rows chosen by further queries around it, if its rows can be put in a total order.
    pub(super) fn levels(&mut self, depth: u32) -> Query {
        let mut query = self.select(None, depth);
        for _ in 0..1 + self.choices.below(3) {
            if query.key.is_empty() || query.columns.iter().any(|column| !column.expr.same) {
                break;
            }
            query = self.level(query);
        }
        query
    }

    /// The rows of a query, perhaps not all, with its names in another order.
    fn level(&mut self, query: Query) -> Query {
        let alias = self.name("d");
        let scope = Scope {
            fields: in_alias(&query.columns, &alias),
            key: query.key_in(&alias),
            rows: query.rows,
            derived: true,
            ..Scope::default()
        };
        let filter = match self.choices.once_in(3) {
            true => self.filter(&scope),
            false => Sql::default(),
        };
        let count = query.columns.len();
        let mut order: Vec<usize> = (0..count).collect();
        match self.choices.below(4) {
            0 => {}
            1 => order.rotate_left(1),
            2 => order.reverse(),
            _ => order.swap(0, count - 1),
        }
        let renamed = order
            .iter()
            .enumerate()
            .any(|(name, column)| name != *column);
        let names: Vec<String> = query
            .columns
            .iter()
            .map(|column| column.expr.sql.plain())
            .collect();
        // Column `order[n]` of the query under name n.
        let mut list = Vec::new();
        let mut columns: Vec<Field> = Vec::new();
        for (name, column) in order.iter().enumerate() {
            let expr = &scope.fields[*column].expr;
            list.push(sql![&expr.sql, format!(" AS {}", names[name])]);
            columns.push(Field::named(expr, names[name].clone()));
        }
        let mut parts = Vec::new();
        let places = (0..self.choices.below(3)).map(|_| self.choices.index(count));
        let mut places: Vec<usize> = places.collect();
        places.extend(query.key.iter().map(|key| place_of(&order, *key)));
        for place in places {
            // A name of the list, the query's column, or its number.
            let by: Sql = match self.choices.below(4) {
                0 | 1 => names[place].clone().into(),
                2 => scope.fields[order[place]].expr.sql.clone(),
                _ => (place + 1).to_string().into(),
            };
            parts.push(sql![by, self.direction()]);
        }
        let mut marks = self.marks(Some(Construct::Limit), &query.sql, &filter);
        if self.choices.once_in(4) {
            let of = scope.fields[self.choices.index(count)].expr.clone();
            parts.insert(0, sql![self.coarse(&of).sql, self.direction()]);
            marks = sql![marks, Construct::OrderOfExpression];
        }
        if self.choices.once_in(3) {
            let partition = self.partition_by(&scope);
            let window = self.window_function(&scope, &partition);
            if window.same {
                let name = self.name("x");
                marks = sql![
                    marks,
                    self.marks(Some(Construct::Window), &query.sql, &filter)
                ];
                marks = sql![marks, Construct::LimitAboveWindow];
                list.push(sql![&window.sql, format!(" AS {name}")]);
                columns.push(Field::named(&window, name));
            }
        }
        if renamed {
            marks = sql![marks, Construct::LimitOfRenamed];
        }
        let (limit, rows) = self.limit(query.rows);
        Query {
            sql: sql![
                marks,
                "SELECT ",
                Sql::joined(list, ", "),
                " FROM (",
                query.sql,
                format!(") AS {alias}"),
                filter,
                " ORDER BY ",
                Sql::joined(parts, ", "),
                limit
            ],
            columns,
            rows,
            key: query.key.iter().map(|key| place_of(&order, *key)).collect(),
            ordered: true,
        }
    }

    /// LIMIT, OFFSET, or both, and how many of so many rows they leave.
    fn limit(&mut self, rows: u128) -> (Sql, u128) {
        let limit = self.choices.one_of(&[10, 1, 5, 40, 1_000]);
        let skipped = match self.choices.below(2) {
            0 => Sql::default(),
            _ => sql![
                Construct::Skipped,
                format!(" OFFSET {}", self.choices.below(8))
            ],
        };
        if !skipped.is_empty() && !self.limits.sqlite && self.choices.once_in(3) {
            return (skipped, rows);
        }
        let rows = rows.min(limit);
        (sql![format!(" LIMIT {limit}"), skipped], rows)
    }

    /// The first row for each value of one or two expressions, in a total order.
    pub(super) fn distinct_on(&mut self, depth: u32) -> Query {
        let (from, scope) = self.relation(depth);
        if self.limits.sqlite || scope.key.is_empty() {
            return self.plain_of(from, scope, None);
        }
        let filter = self.filter(&scope);
        let mut marks = self.marks(Some(Construct::DistinctOn), &from, &filter);
        let columns: Vec<String> = scope
            .fields
            .iter()
            .map(|field| field.expr.sql.plain())
            .collect();
        let count = 1 + self.choices.index(2);
        let found = (0..count).filter_map(|_| self.column_or_coarse(&scope));
        let on = super::each_once(found.map(|(expr, _)| expr).collect());
        if on.iter().any(|expr| !columns.contains(&expr.sql.plain())) {
            marks = sql![marks, Construct::DistinctOnFunction];
        }
        let mut exprs: Vec<Expr> = on.clone();
        exprs.extend(self.some_fields(&scope, 3));
        let first: Vec<Sql> = on
            .iter()
            .map(|expr| sql![&expr.sql, self.direction()])
            .collect();
        let on = Sql::joined(on.into_iter().map(|expr| expr.sql), ", ");
        let key = (0..first.len()).collect();
        let order = sql![Sql::joined(first, ", "), ", ", self.total_order(&scope)];
        let (list, columns) = self.list(&exprs);
        let (limit, rows) = match self.choices.once_in(3) {
            true => {
                marks = sql![marks, Construct::Limit];
                self.limit(scope.rows)
            }
            false => (Sql::default(), scope.rows),
        };
        Query {
            sql: sql![
                marks,
                "SELECT DISTINCT ON (",
                on,
                ") ",
                list,
                " FROM ",
                from,
                filter,
                " ORDER BY ",
                order,
                limit
            ],
            columns,
            rows,
            key,
            ordered: true,
        }
    }
}

/// Under which name's number a column is found.
fn place_of(order: &[usize], column: usize) -> usize {
    let place = order.iter().position(|other| *other == column);
    place.expect("every column has a name")
}
