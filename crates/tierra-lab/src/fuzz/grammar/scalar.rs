//! Expressions of a type.

use super::super::sql::{Sql, sql};
use super::super::value::Type;
use super::{Expr, Grammar, Scope, Subqueries};

impl Grammar<'_> {
    /// An expression of that type with at most that many levels.
    pub(super) fn expr(&mut self, scope: &Scope, ty: Type, depth: u32) -> Expr {
        if depth == 0 || self.choices.below(5) < 2 {
            return self.leaf(scope, ty);
        }
        match self.choices.weighted(&[8, 2, 2, 1, 1]) {
            0 => self.of_type(scope, ty, depth - 1),
            1 => self.case(scope, ty, depth - 1),
            2 => {
                let parts: Vec<Expr> = (0..2 + self.choices.index(2))
                    .map(|_| self.expr(scope, ty, depth - 1))
                    .collect();
                self.call("coalesce", parts)
            }
            3 => {
                let (value, other) = (self.expr(scope, ty, depth - 1), self.leaf(scope, ty));
                let sql = sql!["nullif(", &value.sql, ", ", &other.sql, ")"];
                Expr::of(sql, &[&value]).same(value.same && other.same)
            }
            _ if self.subqueries == Subqueries::None => self.leaf(scope, ty),
            _ => match self.scalar_subquery(scope, ty) {
                Some(found) => found,
                None => self.leaf(scope, ty),
            },
        }
    }

    /// A column, or a literal if there is none.
    pub(super) fn leaf(&mut self, scope: &Scope, ty: Type) -> Expr {
        let field = self.field(scope, |expr| expr.ty == ty && expr.same);
        match field {
            Some(field) if self.choices.below(8) < 7 => field.expr,
            Some(field) => self.literal(ty, field.source.as_ref()),
            None => self.literal(ty, None),
        }
    }

    fn call(&mut self, function: &'static str, parts: Vec<Expr>) -> Expr {
        let all: Vec<&Expr> = parts.iter().collect();
        let arguments = Sql::joined(parts.iter().map(|part| part.sql.clone()), ", ");
        Expr::of(sql![function, "(", arguments, ")"], &all)
    }

    fn case(&mut self, scope: &Scope, ty: Type, depth: u32) -> Expr {
        let (one, another) = (self.expr(scope, ty, depth), self.expr(scope, ty, depth));
        let sql = match self.choices.below(4) {
            0..=1 => sql![
                "CASE WHEN ",
                self.predicate(scope, depth),
                " THEN ",
                &one.sql,
                " ELSE ",
                &another.sql,
                " END"
            ],
            2 => sql![
                "CASE WHEN ",
                self.predicate(scope, depth),
                " THEN ",
                &one.sql,
                " WHEN ",
                self.predicate(scope, 0),
                " THEN ",
                &another.sql,
                " END"
            ],
            _ => {
                let tested = self.some_type(scope);
                let (value, when) = (
                    self.expr(scope, tested, depth.min(1)),
                    self.leaf(scope, tested),
                );
                sql![
                    "CASE ",
                    &value.sql,
                    " WHEN ",
                    &when.sql,
                    " THEN ",
                    &one.sql,
                    " ELSE ",
                    &another.sql,
                    " END"
                ]
            }
        };
        Expr::of(sql, &[&one, &another])
    }

    fn of_type(&mut self, scope: &Scope, ty: Type, depth: u32) -> Expr {
        match ty {
            Type::Bool => Expr::new(sql!["(", self.predicate(scope, depth), ")"], Type::Bool),
            Type::Int => self.integer(scope, Type::Int, depth),
            Type::Big => self.big(scope, depth),
            Type::Dec(precision, scale) => self.decimal(scope, precision, scale, depth),
            Type::Double => self.double(scope, depth),
            Type::Date => self.date(scope, depth),
            Type::Timestamp => self.timestamp(scope, depth),
            Type::Text => self.words(scope, depth),
        }
    }

    /// Arithmetic that stays within the type.
    fn integer(&mut self, scope: &Scope, ty: Type, depth: u32) -> Expr {
        let one = self.expr(scope, ty, depth);
        match self.choices.below(7) {
            0..=3 => {
                let another = self.expr(scope, ty, depth);
                let (sign, most) = match self.choices.below(3) {
                    0 => (" + ", one.most.checked_add(another.most)),
                    1 => (" - ", one.most.checked_add(another.most)),
                    _ => (" * ", one.most.checked_mul(another.most)),
                };
                match most.filter(|most| *most <= ty.most()) {
                    Some(most) => Expr::of(
                        sql!["(", &one.sql, sign, &another.sql, ")"],
                        &[&one, &another],
                    )
                    .within(most),
                    None => one,
                }
            }
            4 if one.most < ty.most() => Expr::of(sql!["(- ", &one.sql, ")"], &[&one]),
            5 if one.most < ty.most() => Expr::of(sql!["abs(", &one.sql, ")"], &[&one]),
            4 | 5 => one,
            _ => {
                let another = self.leaf(scope, ty);
                let divisor = sql![
                    "nullif(",
                    &another.sql,
                    ", ",
                    Sql::each(zero(ty), zero(ty), "0"),
                    ")"
                ];
                if one.most >= ty.most() {
                    return one;
                }
                let sign = match self.choices.below(2) {
                    0 => Sql::each(" / ", " // ", " / "),
                    _ => " % ".into(),
                };
                Expr::of(sql!["(", &one.sql, sign, divisor, ")"], &[&one])
                    .same(one.same && another.same)
            }
        }
    }

    fn big(&mut self, scope: &Scope, depth: u32) -> Expr {
        match self.choices.below(9) {
            0..=3 => self.integer(scope, Type::Big, depth),
            4 | 5 => {
                let narrow = self.expr(scope, Type::Int, depth);
                let sql = self.cast(&narrow.sql, Type::Big);
                Expr {
                    ty: Type::Big,
                    sql,
                    ..narrow
                }
            }
            6 => {
                let text = self.expr(scope, Type::Text, depth);
                let sql = self.cast(sql!["length(", &text.sql, ")"], Type::Big);
                Expr::new(sql, Type::Big).within(1_000)
            }
            7 if !self.limits.sqlite && self.choices.once_in(3) => self.days_between(scope, depth),
            8 if !self.limits.sqlite => self.rounded(scope, depth),
            _ => {
                let ty = if self.choices.below(2) == 0 {
                    Type::Date
                } else {
                    Type::Timestamp
                };
                let when = self.expr(scope, ty, depth);
                self.part_of_time(&when, false)
            }
        }
    }

    /// A DECIMAL cast to fewer digits, which rounds it.
    fn rounded(&mut self, scope: &Scope, depth: u32) -> Expr {
        let ty = self.some_type(scope);
        let Type::Dec(_, scale) = ty else {
            return self.integer(scope, Type::Big, depth);
        };
        let number = self.expr(scope, ty, depth.min(1));
        let most = number.most / 10_u128.pow(scale.into()) + 1;
        match most < Type::Big.most() {
            true => Expr::new(self.cast(&number.sql, Type::Big), Type::Big)
                .within(most)
                .same(number.same),
            false => self.integer(scope, Type::Big, depth),
        }
    }

    fn decimal(&mut self, scope: &Scope, precision: u8, scale: u8, depth: u32) -> Expr {
        let ty = Type::Dec(precision, scale);
        let one = self.expr(scope, ty, depth);
        let (sql, most, same) = match self.choices.below(4) {
            0 | 1 if precision < 37 => {
                let another = self.expr(scope, ty, depth);
                let sign = if self.choices.below(2) == 0 {
                    " + "
                } else {
                    " - "
                };
                let sql = sql!["(", &one.sql, sign, &another.sql, ")"];
                (
                    sql,
                    one.most.checked_add(another.most),
                    one.same && another.same,
                )
            }
            2 if precision < 25 => {
                let times = self.expr(scope, Type::Int, depth);
                let sql = sql!["(", &one.sql, " * ", &times.sql, ")"];
                (
                    sql,
                    one.most.checked_mul(times.most),
                    one.same && times.same,
                )
            }
            _ => (sql!["(- ", &one.sql, ")"], Some(one.most), one.same),
        };
        match most.filter(|most| *most <= ty.most()) {
            Some(most) => Expr::new(self.cast(sql, ty), ty).within(most).same(same),
            None => one,
        }
    }

    fn double(&mut self, scope: &Scope, depth: u32) -> Expr {
        let one = self.expr(scope, Type::Double, depth);
        match self.choices.below(8) {
            0..=2 => {
                let another = self.expr(scope, Type::Double, depth);
                let most = one.most.saturating_add(another.most);
                let sign = if self.choices.below(2) == 0 {
                    " + "
                } else {
                    " - "
                };
                let sum = Expr::of(
                    sql!["(", &one.sql, sign, &another.sql, ")"],
                    &[&one, &another],
                );
                let summable = sum.summable && most < Type::Double.most();
                sum.within(most).summable(summable)
            }
            3 => {
                let another = self.expr(scope, Type::Double, depth);
                let product = Expr::of(
                    sql!["(", &one.sql, " * ", &another.sql, ")"],
                    &[&one, &another],
                );
                product.within(Type::Double.most()).summable(false)
            }
            4 => Expr::of(sql!["(- ", &one.sql, ")"], &[&one]),
            5 => Expr::of(sql!["abs(", &one.sql, ")"], &[&one]),
            _ => {
                let ty = if self.choices.below(2) == 0 {
                    Type::Int
                } else {
                    Type::Big
                };
                let whole = self.expr(scope, ty, depth);
                let sql = sql![
                    "CAST(",
                    &whole.sql,
                    Sql::each(" AS DOUBLE)", " AS DOUBLE)", " AS REAL)")
                ];
                let most = whole.most.saturating_mul(4);
                Expr::new(sql, Type::Double)
                    .within(most)
                    .summable(most < Type::Double.most())
                    .same(whole.same)
            }
        }
    }

    fn words(&mut self, scope: &Scope, depth: u32) -> Expr {
        let one = self.expr(scope, Type::Text, depth);
        let sql = match self.choices.below(7) {
            0 => {
                let another = self.expr(scope, Type::Text, depth);
                sql!["(", &one.sql, " || ", &another.sql, ")"]
            }
            1 if !self.limits.sqlite => sql!["upper(", &one.sql, ")"],
            2 if !self.limits.sqlite => sql!["lower(", &one.sql, ")"],
            1..=3 => {
                let (from, count) = (1 + self.choices.below(4), self.choices.below(5));
                sql!["substr(", &one.sql, format!(", {from}, {count})")]
            }
            4 => sql!["trim(", &one.sql, ")"],
            5 => sql!["replace(", &one.sql, ", 'a', 'bc')"],
            _ => {
                let whole = self.expr(scope, Type::Big, depth);
                sql![
                    "CAST(",
                    &whole.sql,
                    Sql::each(" AS VARCHAR)", " AS VARCHAR)", " AS TEXT)")
                ]
            }
        };
        Expr::of(sql, &[&one])
    }
}

impl Expr {
    /// The same under another type that can hold every value.
    pub(super) fn typed(self, ty: Type) -> Expr {
        Expr {
            ty,
            most: ty.most(),
            ..self
        }
    }
}

fn zero(ty: Type) -> &'static str {
    match ty {
        Type::Int => "CAST(0 AS INTEGER)",
        _ => "CAST(0 AS BIGINT)",
    }
}
