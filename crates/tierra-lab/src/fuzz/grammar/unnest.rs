//! Lists and their items: lists of columns, ranges, and what array_agg has gathered. A list without items, or NULL, has no row.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::select::Query;
use super::{Expr, Grammar, Scope};

impl Grammar<'_> {
    /// Rows for the items of a list in each row.
    pub(super) fn unnested(&mut self, depth: u32) -> Query {
        let (from, scope) = self.relation(depth);
        if self.limits.sqlite {
            return self.plain_of(from, scope, None);
        }
        let filter = self.filter(&scope);
        let marks = self.marks(Some(Construct::Unnest), &from, &filter);
        let source = sql![marks, from, filter];
        if !scope.key.is_empty() && self.choices.once_in(4) {
            return self.unnested_aggregate(source, &scope);
        }
        let mut exprs: Vec<Expr> = scope.key_fields().map(|field| field.expr.clone()).collect();
        exprs.extend(self.some_fields(&scope, 2));
        let ty = self.some_type(&scope);
        let (item, length) = self.items(&scope, ty);
        exprs.push(item);
        let mut rows = scope.rows * length;
        if self.choices.once_in(4) {
            let ty = self.some_type(&scope);
            let (item, other) = self.items(&scope, ty);
            let sql = sql![Construct::UnnestSeveral, &item.sql];
            exprs.push(Expr { sql, ..item });
            rows = scope.rows * length.max(other);
        }
        let (list, columns) = self.list(&exprs);
        Query {
            sql: sql!["SELECT ", list, " FROM ", source],
            columns,
            rows,
            key: Vec::new(),
            ordered: false,
        }
    }

    /// The items of a list of that type, and the most there are in one.
    fn items(&mut self, scope: &Scope, ty: Type) -> (Expr, u128) {
        if matches!(ty, Type::Int | Type::Big) && self.choices.once_in(4) {
            let number = self.leaf(scope, Type::Big);
            let sql = sql![
                Construct::UnnestRange,
                "unnest(range(0, abs(",
                &number.sql,
                " % 4)))"
            ];
            return (Expr::new(sql, Type::Big).within(4), 3);
        }
        let count = 1 + self.choices.index(3);
        let items: Vec<Expr> = (0..count).map(|_| self.leaf(scope, ty)).collect();
        let list = Sql::joined(items.iter().map(|item| item.sql.clone()), ", ");
        let list = sql!["[", list, "]"];
        let list = match self.choices.once_in(4) {
            false => list,
            true => {
                let condition = self.predicate(scope, 0);
                let other = match self.choices.below(2) {
                    0 => Sql::default(),
                    _ => sql![" ELSE [", self.leaf(scope, ty).sql, "]"],
                };
                let case = sql!["CASE WHEN ", condition, " THEN ", list, other, " END"];
                sql![Construct::UnnestMissingList, case]
            }
        };
        let all: Vec<&Expr> = items.iter().collect();
        // The item of ELSE is of the type, too, and may be greater.
        let item = Expr::of(sql!["unnest(", list, ")"], &all).within(ty.most());
        let item = match ty {
            Type::Double => item.summable(false),
            _ => item,
        };
        (item, count as u128)
    }

    /// The items of the lists that array_agg makes of groups.
    fn unnested_aggregate(&mut self, source: Sql, scope: &Scope) -> Query {
        let alias = self.name("d");
        let ty = self.some_type(scope);
        let value = self.leaf(scope, ty);
        let order = self.total_order(scope);
        let (key, _) = self
            .column_or_coarse(scope)
            .expect("a scope with a key has columns");
        let (list, columns) = self.list(&[key]);
        let name = self.name("x");
        let inner = sql![
            "SELECT ",
            list,
            ", array_agg(",
            &value.sql,
            " ORDER BY ",
            order,
            format!(") AS {name} FROM "),
            source,
            " GROUP BY 1"
        ];
        let item = sql![
            Construct::UnnestAggregate,
            format!("unnest({alias}.{name})")
        ];
        let key = super::relation::in_alias(&columns, &alias);
        let exprs = [key[0].expr.clone(), Expr::of(item, &[&value])];
        let (list, columns) = self.list(&exprs);
        Query {
            sql: sql!["SELECT ", list, " FROM (", inner, format!(") AS {alias}")],
            columns,
            rows: scope.rows,
            key: Vec::new(),
            ordered: false,
        }
    }
}
