//! Functions that give one value for several of a column: what rows are grouped by, beside columns.
//!
//! Their constants are no values of a statement that could become parameters, because SELECT, GROUP BY and ORDER BY may each have
//! the same expression.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar};

impl Grammar<'_> {
    /// Such a function of an expression.
    pub(super) fn coarse(&mut self, of: &Expr) -> Expr {
        let x = &of.sql;
        let plain = self.limits.sqlite;
        let made = |sql: Sql, ty: Type| Expr::new(sql, ty).same(of.same);
        match of.ty {
            Type::Int | Type::Big => match self.choices.below(5) {
                0 | 1 => {
                    let sign = Sql::each(" / ", " // ", " / ");
                    let number = whole(of.ty, self.choices.one_of(&["2", "7", "3"]));
                    Expr::of(sql!["(", x, sign, number, ")"], &[of])
                }
                2 => Expr::of(sql!["(", x, " % ", whole(of.ty, "3"), ")"], &[of]),
                3 => {
                    let text = Sql::each(" AS VARCHAR)", " AS VARCHAR)", " AS TEXT)");
                    made(sql!["CAST(", x, text], Type::Text)
                }
                _ => made(sql!["(", x, " > 3)"], Type::Bool),
            },
            // SQLite has decimals as whole numbers of their last digit: 0 alone is the same there.
            Type::Dec(..) => made(sql!["(", x, " > 0)"], Type::Bool),
            Type::Double if plain || self.choices.below(2) == 0 => {
                made(sql!["(", x, " > 1)"], Type::Bool)
            }
            Type::Double => made(sql!["floor(", x, ")"], Type::Double).summable(false),
            Type::Date if plain => self.part_of_time(of, true),
            Type::Date => match self.choices.below(4) {
                0 => Expr {
                    ty: Type::Timestamp,
                    ..Expr::of(self.cast(x, Type::Timestamp), &[of])
                }
                .within(Type::Timestamp.most()),
                1 => self.part_of_time(of, true),
                2 => made(sql!["CAST(", x, " AS VARCHAR)"], Type::Text),
                _ => self.truncated(of),
            },
            Type::Timestamp => match self.choices.below(5) {
                0..=2 => self.date_of(of),
                3 => self.part_of_time(of, true),
                _ if plain => self.date_of(of),
                _ => self.truncated(of),
            },
            Type::Text => match self.choices.below(3) {
                0 | 1 => Expr::of(sql!["substr(", x, ", 1, 1)"], &[of]),
                _ => {
                    let sql = self.cast(sql!["length(", x, ")"], Type::Big);
                    made(sql, Type::Big).within(1_000)
                }
            },
            Type::Bool => made(sql!["(NOT ", x, ")"], Type::Bool),
        }
    }

    /// A column, now and then one of the key, or such a function of it; and the marks of what it is.
    pub(super) fn column_or_coarse(&mut self, scope: &super::Scope) -> Option<(Expr, Sql)> {
        let keys: Vec<Expr> = scope.key_fields().map(|field| field.expr.clone()).collect();
        let of_key = !keys.is_empty() && self.choices.once_in(3);
        let column = match of_key {
            true => keys[self.choices.index(keys.len())].clone(),
            false => self.field(scope, |expr| expr.same)?.expr,
        };
        if self.choices.below(2) == 0 {
            return Some((column, Sql::default()));
        }
        let text = column.sql.plain();
        let of_key = keys.iter().any(|key| key.sql.plain() == text);
        let marks = match of_key {
            true => Construct::GroupByFunctionOfKey.into(),
            false => Sql::default(),
        };
        Some((self.coarse(&column), marks))
    }
}

/// A whole number of a type.
fn whole(ty: Type, number: &'static str) -> Sql {
    use super::Dialect;
    let cast = |dialect| format!("CAST({number} AS {})", ty.name(dialect));
    Sql::each(cast(Dialect::Tierra), cast(Dialect::DuckDb), number)
}
