//! Conditions, in three-valued logic.

use super::super::construct::Construct;
use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope, Subqueries};

const COMPARISONS: [&str; 6] = [" = ", " <> ", " < ", " <= ", " > ", " >= "];

impl Grammar<'_> {
    /// A condition of at most that many levels.
    pub(super) fn predicate(&mut self, scope: &Scope, depth: u32) -> Sql {
        if depth == 0 {
            return self.condition(scope, 0);
        }
        match self.choices.weighted(&[6, 3, 3, 2, 1, 1]) {
            0 => self.condition(scope, depth),
            1 => self.several(scope, " AND ", depth),
            2 => self.several(scope, " OR ", depth),
            3 => sql!["NOT (", self.predicate(scope, depth - 1), ")"],
            4 => {
                let inner = self.predicate(scope, depth - 1);
                let tests = if self.limits.sqlite {
                    [
                        " IS TRUE",
                        " IS FALSE",
                        " IS NOT TRUE",
                        " IS NOT FALSE",
                        " IS NULL",
                        " IS NOT NULL",
                    ]
                } else {
                    [
                        " IS TRUE",
                        " IS FALSE",
                        " IS NOT TRUE",
                        " IS NOT FALSE",
                        " IS UNKNOWN",
                        " IS NOT UNKNOWN",
                    ]
                };
                let test = self.choices.one_of(&tests);
                sql!["(", inner, ")", test]
            }
            _ if self.subqueries == Subqueries::None => self.condition(scope, 0),
            _ => match self.membership(scope) {
                Some(found) => found,
                None => self.condition(scope, 0),
            },
        }
    }

    fn several(&mut self, scope: &Scope, word: &'static str, depth: u32) -> Sql {
        let parts: Vec<Sql> = (0..2 + self.choices.index(2))
            .map(|_| sql!["(", self.predicate(scope, depth - 1), ")"])
            .collect();
        Sql::joined(parts, word)
    }

    fn condition(&mut self, scope: &Scope, depth: u32) -> Sql {
        let depth = depth.min(2).saturating_sub(1);
        let ty = self.some_type(scope);
        let like = self.field(scope, |expr| expr.ty == ty && expr.same);
        let one = match &like {
            Some(field) if depth == 0 || self.choices.below(3) < 2 => field.expr.clone(),
            _ => self.expr(scope, ty, depth),
        };
        let source = like.as_ref().and_then(|field| field.source.as_ref());
        match self.choices.weighted(&[8, 2, 3, 3, 2, 2]) {
            0 => {
                let sign = self.choices.one_of(&COMPARISONS);
                let another = self.other(scope, &one, source, depth);
                sql![&one.sql, sign, &another.sql]
            }
            1 => sql![&one.sql, self.choices.one_of(&[" IS NULL", " IS NOT NULL"])],
            2 => {
                let not = self.choices.one_of(&["", "NOT "]);
                let (low, high) = (self.literal(ty, source), self.other(scope, &one, source, 0));
                sql![&one.sql, " ", not, "BETWEEN ", &low.sql, " AND ", &high.sql]
            }
            3 => {
                let count = [1, 2, 3, 5, 70][self.choices.weighted(&[2, 3, 3, 3, 1])];
                let list: Vec<Sql> = (0..count).map(|_| self.literal(ty, source).sql).collect();
                let not = self.choices.one_of(&["", "NOT "]);
                sql![&one.sql, " ", not, "IN (", Sql::joined(list, ", "), ")"]
            }
            4 => {
                let another = self.other(scope, &one, source, 0);
                let not = self.choices.one_of(&["", "NOT "]);
                sql![
                    "(",
                    &one.sql,
                    " IS ",
                    not,
                    "DISTINCT FROM ",
                    &another.sql,
                    ")"
                ]
            }
            _ if ty == Type::Text => {
                let patterns = [
                    "a%",
                    "%b%",
                    "%",
                    "",
                    "_b%",
                    "the same%3",
                    "%a",
                    "a__",
                    "%zebra%",
                    "abc",
                ];
                let (not, pattern) = (
                    self.choices.one_of(&["", "NOT "]),
                    self.choices.one_of(&patterns),
                );
                sql![&one.sql, " ", not, "LIKE ", format!("'{pattern}'")]
            }
            _ if ty == Type::Bool => one.sql,
            _ => {
                let sign = self.choices.one_of(&COMPARISONS);
                let another = self.number_beside(scope, &one);
                sql![&one.sql, sign, another]
            }
        }
    }

    /// The other side of a comparison: a literal that it may equal, a column, or more.
    fn other(
        &mut self,
        scope: &Scope,
        one: &Expr,
        source: Option<&super::Column>,
        depth: u32,
    ) -> Expr {
        match self.choices.below(4) {
            0 | 1 => self.literal(one.ty, source),
            2 => self.leaf(scope, one.ty),
            _ => self.expr(scope, one.ty, depth),
        }
    }

    /// A number of another type, if every engine compares both without loss.
    fn number_beside(&mut self, scope: &Scope, one: &Expr) -> Sql {
        let small = |ty: Type| match ty {
            Type::Int | Type::Big => true,
            Type::Dec(precision, _) => precision <= 18 && !self.limits.sqlite,
            _ => false,
        };
        let fits = |expr: &Expr| expr.most < 1 << 50;
        let exact = small(one.ty);
        if exact && fits(one) {
            let found = self.field(scope, |expr| {
                let other = match expr.ty {
                    Type::Int | Type::Big => true,
                    Type::Dec(precision, _) => precision <= 18,
                    _ => false,
                };
                other && expr.same && fits(expr)
            });
            // SQLite's DECIMALs are whole numbers.
            let found = found
                .filter(|field| !self.limits.sqlite || !matches!(field.expr.ty, Type::Dec(..)));
            if let Some(field) = found {
                return field.expr.sql;
            }
        }
        let other_time = match one.ty {
            Type::Date => Some(Type::Timestamp),
            Type::Timestamp => Some(Type::Date),
            _ => None,
        };
        if let (Some(ty), false) = (other_time, self.limits.sqlite)
            && let Some(field) = self.field(scope, |expr| expr.ty == ty && expr.same)
        {
            return sql![Construct::DateBesideTimestamp, field.expr.sql];
        }
        if one.ty == Type::Double {
            let found = self.field(scope, |expr| {
                matches!(expr.ty, Type::Int | Type::Big) && expr.same && expr.most < 1 << 50
            });
            if let Some(field) = found {
                return field.expr.sql;
            }
        }
        self.leaf(scope, one.ty).sql
    }
}
