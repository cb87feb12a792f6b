//! Joins with a subquery that refers to the row beside it.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::relation::in_alias;
use super::{Field, Grammar, Scope, Subqueries};

/// The most pairs of rows in engines without a join for it.
const MOST_PRODUCT: u128 = 1_000_000;

impl Grammar<'_> {
    /// A relation with an aggregate of, or the rows of, a table that match its row.
    pub(super) fn lateral(&mut self, left_sql: Sql, left: Scope) -> (Sql, Scope) {
        if self.choices.once_in(3) {
            return self.lateral_of_any(left_sql, left);
        }
        let (from, right) = self.base();
        if left.rows * right.rows > MOST_PRODUCT {
            return (left_sql, left);
        }
        let Some(condition) = self.correlation(&right, &left, " = ") else {
            return (left_sql, left);
        };
        let own = match self.choices.below(2) {
            0 => Sql::default(),
            _ => {
                let condition = |grammar: &mut Self| grammar.predicate(&right, 0);
                sql![" AND (", self.allowing(Subqueries::None, condition), ")"]
            }
        };
        let condition = sql![" WHERE ", condition, own];
        let alias = self.name("l");
        let rows = self.choices.below(3) == 0;
        let exprs = match rows {
            true => self.some_fields(&right, 2),
            false => {
                let aggregate = |grammar: &mut Self| grammar.aggregate(&right);
                vec![self.allowing(Subqueries::None, aggregate)]
            }
        };
        let (list, columns) = self.list(&exprs);
        let subquery = sql![
            "(SELECT ",
            list,
            " FROM ",
            from,
            condition,
            format!(") AS {alias}")
        ];
        let (word, behind, mark) = match rows {
            true => (" LEFT JOIN LATERAL ", " ON TRUE", Construct::LateralRows),
            false => (" CROSS JOIN LATERAL ", "", Construct::LateralAggregate),
        };
        let mut fields = left.fields.clone();
        fields.extend(in_alias(&columns, &alias));
        let scope = Scope {
            fields,
            key: if rows { Vec::new() } else { left.key },
            rows: if rows {
                left.rows * (right.rows + 1)
            } else {
                left.rows
            },
            joined: true,
            derived: true,
            declared: false,
        };
        (sql![mark, left_sql, word, subquery, behind], scope)
    }

    /// A relation with rows of one column that each of its rows chooses: groups, the first ones, a set operation.
    fn lateral_of_any(&mut self, left_sql: Sql, left: Scope) -> (Sql, Scope) {
        let ty = self.some_type(&left);
        let Some((rows, column)) = self.correlated_rows(&left, ty) else {
            return (left_sql, left);
        };
        let alias = self.name("l");
        let mut fields = left.fields.clone();
        let name = column.sql.plain();
        fields.extend(in_alias(&[Field::named(&column, name)], &alias));
        let (word, behind) = match self.choices.below(2) {
            0 => (" CROSS JOIN LATERAL (", String::new()),
            _ => (" LEFT JOIN LATERAL (", " ON TRUE".to_owned()),
        };
        let mark = Construct::LateralOfAny;
        let behind = format!(") AS {alias}{behind}");
        let scope = Scope {
            fields,
            key: Vec::new(),
            rows: left.rows + MOST_PRODUCT,
            joined: true,
            derived: true,
            declared: false,
        };
        (sql![mark, left_sql, word, rows, behind], scope)
    }
}
