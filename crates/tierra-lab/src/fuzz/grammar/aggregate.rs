//! GROUP BY, grouping sets, HAVING.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::select::Query;
use super::{Expr, Field, Grammar, Scope, Subqueries, each_once};

impl Grammar<'_> {
    /// Groups, or all rows as one.
    pub(super) fn grouped(&mut self, depth: u32) -> Query {
        let (from, scope) = self.relation(depth);
        let filter = self.filter(&scope);
        let mut marks = self.marks(Some(Construct::Groups), &from, &filter);
        if scope.declared && self.choices.once_in(6) {
            return self.grouped_by_key(sql![marks, from, filter], &scope);
        }
        let sets = !self.limits.sqlite && self.choices.once_in(6);
        let count = self.choices.weighted(&[3, 4, 4, 2]);
        let mut keys = Vec::new();
        for _ in 0..count {
            let Some((key, mark)) = self.group_key(&scope, sets) else {
                continue;
            };
            keys.push(key);
            if count > 1 {
                marks = sql![marks, mark];
            }
        }
        let mut keys = if sets { each_once(keys) } else { keys };
        let named = keys.clone();
        let drawn = !sets && self.drawn_once_in(15);
        if drawn {
            let nothing = sql![Construct::GroupByDrawn, "CAST(floor(random()) AS BIGINT)"];
            keys.push(Expr::new(nothing, Type::Big).within(0));
        }
        let mut aggregates: Vec<Expr> = (0..1 + self.choices.index(3))
            .map(|_| self.allowing(Subqueries::All, |grammar| grammar.aggregate(&scope)))
            .collect();
        let having = self
            .choices
            .once_in(4)
            .then(|| self.having(&scope, &named, &aggregates));
        if sets && !keys.is_empty() && self.choices.below(2) == 1 {
            let key = &keys[self.choices.index(keys.len())];
            let sql = sql![Construct::Grouping, "grouping(", &key.sql, ")"];
            aggregates.push(Expr::new(self.cast(sql, Type::Big), Type::Big).within(1));
        }
        // A key with a parameter is another expression wherever it is repeated.
        if !sets && !drawn && !keys.is_empty() && !self.limits.prepared && self.choices.once_in(5) {
            let groups = Scope {
                fields: groups(&keys, &aggregates),
                key: keys.iter().map(|key| key.sql.clone()).collect(),
                rows: scope.rows,
                ..Scope::default()
            };
            let window = self.window_function(&groups, &Sql::default());
            let sql = sql![Construct::WindowOfGroups, &window.sql];
            aggregates.push(Expr { sql, ..window });
        }
        let exprs: Vec<Expr> = keys.iter().chain(&aggregates).cloned().collect();
        let (list, columns) = self.list(&exprs);
        let mut sql = sql![marks, "SELECT ", list, " FROM ", from, filter];
        if !keys.is_empty() {
            let by = match sets {
                true => self.sets(&keys, &scope),
                false => ordinals(keys.len()),
            };
            sql = sql![sql, " GROUP BY ", by];
        }
        let no_row = Scope::default();
        let drawn = self.drawn_once_in(20).then(|| self.drawn(&no_row));
        let drawn = drawn.map(|drawn| sql![Construct::DrawnInHaving, "(", drawn, ")"]);
        let having = having.map(|having| sql!["(", having, ")"]);
        let conditions: Vec<Sql> = having.into_iter().chain(drawn).collect();
        if !conditions.is_empty() {
            sql = sql![sql, " HAVING ", Sql::joined(conditions, " AND ")];
        }
        let rows = match keys.len() {
            0 => 1,
            _ if sets => scope.rows * 8 + 1,
            _ => scope.rows,
        };
        let key = match sets {
            true => Vec::new(),
            false => (0..keys.len()).collect(),
        };
        Query {
            sql,
            columns,
            rows,
            key,
            ordered: false,
        }
    }

    /// The groups of a table's key, each of one row: other columns need not be grouped, except in DuckDB, which knows no keys there.
    fn grouped_by_key(&mut self, from: Sql, scope: &Scope) -> Query {
        let keys: Vec<Expr> = scope.key_fields().map(|field| field.expr.clone()).collect();
        let mut exprs = keys.clone();
        for field in self.some_fields(scope, 2) {
            let column = field.sql.plain();
            let any = format!("any_value({column})");
            let sql = Sql::each(column.clone(), any, column);
            exprs.push(Expr { sql, ..field });
        }
        exprs.push(self.aggregate(scope));
        let (list, columns) = self.list(&exprs);
        Query {
            sql: sql![
                Construct::GroupByKeyAlone,
                "SELECT ",
                list,
                " FROM ",
                from,
                " GROUP BY ",
                ordinals(keys.len())
            ],
            columns,
            rows: scope.rows,
            key: (0..keys.len()).collect(),
            ordered: false,
        }
    }

    /// Grouping sets of these keys.
    fn sets(&mut self, keys: &[Expr], scope: &Scope) -> Sql {
        let columns: Vec<String> = scope
            .fields
            .iter()
            .map(|field| field.expr.sql.plain())
            .collect();
        let is_column = |key: &Expr| columns.contains(&key.sql.plain());
        let mark = match keys.iter().all(is_column) {
            true => Sql::default(),
            false => Construct::SetsOfComputed.into(),
        };
        let list = |keys: &[Expr]| Sql::joined(keys.iter().map(|key| key.sql.clone()), ", ");
        let (first, all) = (&keys[0].sql, list(keys));
        let sets = match self.choices.below(5) {
            0 => sql!["ROLLUP (", all, ")"],
            1 => sql!["CUBE (", all, ")"],
            2 if keys.len() > 1 => {
                let word = self.choices.one_of(&["ROLLUP (", "CUBE ("]);
                let rest = list(&keys[1..]);
                sql![Construct::SetsBesideColumns, first, ", ", word, rest, ")"]
            }
            2 | 3 => sql!["GROUPING SETS ((", all, "), (", first, "))"],
            _ => {
                let last = &keys[keys.len() - 1].sql;
                sql!["GROUPING SETS ((", last, "), (), (", all, "))"]
            }
        };
        sql![mark, sets]
    }

    /// A condition on aggregates, or on the key columns: only by these may subqueries refer to the outer row.
    fn having(&mut self, scope: &Scope, keys: &[Expr], aggregates: &[Expr]) -> Sql {
        let of = |exprs: Vec<&Expr>| Scope {
            fields: exprs.into_iter().cloned().map(Field::from).collect(),
            rows: scope.rows,
            ..Scope::default()
        };
        let columns: Vec<String> = scope
            .fields
            .iter()
            .map(|field| field.expr.sql.plain())
            .collect();
        let keys = keys.iter().filter(|key| columns.contains(&key.sql.plain()));
        let keys = of(keys.collect());
        if !keys.fields.is_empty() && self.choices.once_in(3) {
            return self.allowing(Subqueries::All, |grammar| grammar.predicate(&keys, 1));
        }
        let aggregates = of(aggregates.iter().filter(|expr| expr.same).collect());
        self.allowing(Subqueries::Apart, |grammar| {
            grammar.predicate(&aggregates, 1)
        })
    }

    /// A key of groups and its marks; of grouping sets, which name it twice, without values that may become parameters.
    fn group_key(&mut self, scope: &Scope, sets: bool) -> Option<(Expr, Sql)> {
        if sets || self.choices.below(4) < 3 {
            return self.column_or_coarse(scope);
        }
        let ty = self.field(scope, |expr| expr.same)?.expr.ty;
        let key = |grammar: &mut Self| grammar.expr(scope, ty, 2);
        let key = self.allowing(Subqueries::Conditions, key);
        key.same.then(|| (key, Sql::default()))
    }
}

/// What a window over groups may refer to.
fn groups(keys: &[Expr], aggregates: &[Expr]) -> Vec<Field> {
    let all = keys.iter().chain(aggregates).cloned();
    all.map(Field::from).collect()
}

/// `1, 2`, and so on.
fn ordinals(count: usize) -> Sql {
    let numbers: Vec<String> = (1..=count).map(|number| number.to_string()).collect();
    numbers.join(", ").into()
}
