//! A number as written: a DOUBLE, until an exact context asks for its digits.
//!
//! The planner parses `0.1` as a double. Up to [`DOUBLE_DIGITS`] digits that loses nothing: the shortest text of the
//! double is the number written. A longer number is taken out of the statement before planning, and carried through the
//! planner as the text in a call of [`LongNumber`]. A number with an exponent is always a DOUBLE.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, i256};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature,
    Volatility,
};

/// Digits that every double keeps.
const DOUBLE_DIGITS: usize = 15;
/// Digits of the widest integer, as a DECIMAL.
const INTEGER_DIGITS: u8 = 20;
/// The function that carries a long number.
pub(crate) const LONG_NUMBER: &str = "tierra_number";

/// Whether a double, or an integer, would lose digits of the number `text`, which may have a sign.
pub(crate) fn is_long(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    if unsigned.contains(['e', 'E']) {
        return false;
    }
    if !unsigned.contains('.') {
        let text = text.replace('_', "");
        return text.parse::<i64>().is_err() && text.parse::<u64>().is_err();
    }
    let digits: Vec<u8> = unsigned.bytes().filter(u8::is_ascii_digit).collect();
    let first = digits.iter().position(|digit| *digit != b'0');
    let last = digits.iter().rposition(|digit| *digit != b'0');
    matches!((first, last), (Some(first), Some(last)) if last - first >= DOUBLE_DIGITS)
}

/// Whether a number of these digits, without a sign, may be [long](is_long). It is cheap, and nearly always false.
pub(crate) fn may_be_long(digits: &str) -> bool {
    digits.len() > DOUBLE_DIGITS
}

/// The function `'123.45' -> 123.45`. It is a DOUBLE unless an exact context asks for its digits.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct LongNumber {
    signature: Signature,
}

impl LongNumber {
    pub(super) fn new() -> Self {
        Self {
            signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for LongNumber {
    fn name(&self) -> &str {
        LONG_NUMBER
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => Ok(text.clone()),
            _ => internal_err!("a number is one text"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Scalar(ScalarValue::Utf8(Some(text)))] => {
                Ok(ColumnarValue::Scalar(double(text)))
            }
            _ => internal_err!("a number is one text"),
        }
    }
}

fn double(text: &str) -> ScalarValue {
    ScalarValue::Float64(text.replace('_', "").parse().ok())
}

/// The text of a long number.
pub(super) fn long_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args })
            if func.inner().downcast_ref::<LongNumber>().is_some() =>
        {
            match args.as_slice() {
                [Expr::Literal(ScalarValue::Utf8(Some(text)), _)] => Some(text),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A number as written, without an exponent, as a DECIMAL(precision, scale), if that holds all its digits.
pub(crate) fn exactly(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let number = Exact::parse(text)?;
    if number.scale > scale {
        return None;
    }
    let digits = number.rescaled(scale)?.to_i128()?;
    let bound = 10_i128.checked_pow(u32::from(precision))?;
    (-bound < digits && digits < bound).then_some(digits)
}

/// An integer or a DECIMAL as a literal to compare with a value of the exact type `ty`; no digit is lost.
pub(crate) fn beside(value: &ScalarValue, ty: &DataType) -> Option<ScalarValue> {
    Some(Exact::of_value(value)?.beside(ty))
}

/// The number in a text, as the narrowest DECIMAL.
pub(crate) fn number_in(text: &ScalarValue) -> Option<ScalarValue> {
    let text = text.try_as_str()??.trim();
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let number = Exact::parse(text).filter(|_| has_digit)?;
    Some(number.scalar())
}

/// Whether `expr` is a number that has more digits after the point than `ty`, a DECIMAL.
pub(crate) fn has_more_digits(expr: &Expr, ty: &DataType) -> bool {
    match ty {
        DataType::Decimal128(_, scale) if is_number(expr) => {
            Exact::of(expr).is_some_and(|number| number.scale > scale.unsigned_abs())
        }
        _ => false,
    }
}

/// A long number as the nearest double.
pub(super) fn as_double(expr: &Expr) -> Option<ScalarValue> {
    long_text(expr).map(double)
}

/// Whether `expr` is a number with a point, or a sum, difference or product of numbers at least one of which has a point.
pub(super) fn is_number(expr: &Expr) -> bool {
    has_point(expr) == Some(true)
}

/// Whether one of the numbers in `expr` has a point; `None` if it has other parts, or is a compound of integers alone.
/// It visits each part once, because sums may be long.
fn has_point(expr: &Expr) -> Option<bool> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(_)), _) => Some(true),
        Expr::Literal(ScalarValue::Int64(Some(_)), _) => Some(false),
        Expr::Negative(inner) => has_point(inner).filter(|point| *point),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Plus | Operator::Minus | Operator::Multiply,
            right,
        }) => {
            // The right side is the shorter one.
            let right = has_point(right)?;
            Some(has_point(left)? || right).filter(|point| *point)
        }
        other => long_text(other).map(|_| true),
    }
}

/// A decimal number with all its digits: `digits` divided by 10 to the power of `scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exact {
    digits: i256,
    scale: u8,
}

impl Exact {
    /// The value of a number as written; `None` if it [is not a number](is_number), or has more digits than any DECIMAL.
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Literal(ScalarValue::Float64(Some(value)), _) if value.is_finite() => {
                Self::parse(&value.to_string())
            }
            Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(Self {
                digits: i256::from_i128(i128::from(*value)),
                scale: 0,
            }),
            Expr::Negative(inner) => Self::of(inner).and_then(|value| {
                Some(Self {
                    digits: value.digits.checked_neg()?,
                    ..value
                })
            }),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                Self::combine(Self::of(left)?, *op, Self::of(right)?)
            }
            other => Self::parse(long_text(other)?),
        }
    }

    /// The value of an integer or a DECIMAL.
    fn of_value(value: &ScalarValue) -> Option<Self> {
        let (digits, scale) = match value {
            ScalarValue::Decimal128(Some(digits), _, scale) => (i256::from_i128(*digits), *scale),
            ScalarValue::Decimal256(Some(digits), _, scale) => (*digits, *scale),
            integer if integer.data_type().is_integer() => {
                let wide = integer.cast_to(&DataType::Decimal128(INTEGER_DIGITS, 0));
                let Ok(ScalarValue::Decimal128(Some(digits), _, scale)) = wide else {
                    return None;
                };
                (i256::from_i128(digits), scale)
            }
            _ => return None,
        };
        let scale = u8::try_from(scale).ok()?;
        Some(Self { digits, scale })
    }

    fn combine(left: Self, op: Operator, right: Self) -> Option<Self> {
        if op == Operator::Multiply {
            let digits = left.digits.checked_mul(right.digits)?;
            return Self {
                digits,
                scale: left.scale + right.scale,
            }
            .checked();
        }
        let scale = left.scale.max(right.scale);
        let (a, b) = (left.rescaled(scale)?, right.rescaled(scale)?);
        let digits = match op {
            Operator::Plus => a.checked_add(b)?,
            Operator::Minus => a.checked_sub(b)?,
            _ => return None,
        };
        Self { digits, scale }.checked()
    }

    /// A text such as `-12.50`, without exponent.
    fn parse(text: &str) -> Option<Self> {
        let (sign, unsigned) = match text.strip_prefix('-') {
            Some(rest) => ("-", rest),
            None => ("", text),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let fraction = fraction.trim_end_matches(['0', '_']);
        let digits: String = [whole, fraction].concat().replace('_', "");
        if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let scale = fraction.bytes().filter(u8::is_ascii_digit).count();
        let digits = digits.trim_start_matches('0');
        if digits.len().max(scale) > usize::from(DECIMAL256_MAX_PRECISION) {
            return None;
        }
        let digits = if digits.is_empty() { "0" } else { digits };
        Some(Self {
            digits: i256::from_string(&format!("{sign}{digits}"))?,
            scale: u8::try_from(scale).ok()?,
        })
    }

    /// The number, if it fits a DECIMAL.
    fn checked(self) -> Option<Self> {
        (self.precision() <= DECIMAL256_MAX_PRECISION).then_some(self)
    }

    /// The digits with `scale` of them after the point, which must not be fewer than it has.
    fn rescaled(self, scale: u8) -> Option<i256> {
        let factor = i256::from_i128(10).checked_pow(u32::from(scale - self.scale))?;
        self.digits.checked_mul(factor)
    }

    /// Digits of the narrowest DECIMAL that holds the number.
    fn precision(self) -> u8 {
        let digits = self.digits.to_string();
        let digits = digits.trim_start_matches('-').len();
        u8::try_from(digits)
            .unwrap_or(u8::MAX)
            .max(self.scale)
            .max(1)
    }

    /// The number as the narrowest DECIMAL.
    pub(super) fn scalar(self) -> ScalarValue {
        let precision = self.precision();
        self.of_precision(precision)
    }

    fn of_precision(self, precision: u8) -> ScalarValue {
        // A scale is at most 76.
        let scale = self.scale as i8;
        match self.digits.to_i128() {
            Some(digits) if precision <= DECIMAL128_MAX_PRECISION => {
                ScalarValue::Decimal128(Some(digits), precision, scale)
            }
            _ => ScalarValue::Decimal256(Some(self.digits), precision, scale),
        }
    }

    /// The number as a literal to compare with a value of the exact type `ty`. It has that type if it fits, else a type whose
    /// common type with `ty` loses no digits.
    pub(super) fn beside(self, ty: &DataType) -> ScalarValue {
        let (precision, scale) = match ty {
            DataType::Decimal128(precision, scale) => (*precision, scale.unsigned_abs()),
            DataType::Decimal256(_, _) => {
                return ScalarValue::Decimal256(
                    Some(self.digits),
                    self.precision(),
                    self.scale as i8,
                );
            }
            _ => {
                if self.scale == 0
                    && let Some(value) = self.digits.to_i128()
                    && let Ok(value) = i64::try_from(value)
                {
                    return ScalarValue::Int64(Some(value));
                }
                (INTEGER_DIGITS, 0)
            }
        };
        let whole = (self.precision() - self.scale).max(precision - scale);
        if scale > 0
            && self.scale <= scale
            && whole == precision - scale
            && let Some(digits) = self.rescaled(scale)
        {
            return Self { digits, scale }.of_precision(precision);
        }
        if whole + self.scale.max(scale) <= DECIMAL128_MAX_PRECISION {
            return self.scalar();
        }
        ScalarValue::Decimal256(Some(self.digits), self.precision(), self.scale as i8)
    }

    /// The number as a DECIMAL to add to, or subtract from, a value of type `ty`, if the result keeps every digit.
    pub(super) fn addend(self, ty: &DataType) -> Option<ScalarValue> {
        let DataType::Decimal128(precision, scale) = ty else {
            return None;
        };
        let scale = scale.unsigned_abs();
        let whole = (self.precision() - self.scale).max(precision - scale);
        (whole + self.scale.max(scale) < DECIMAL128_MAX_PRECISION).then(|| self.scalar())
    }
}

#[cfg(test)]
fn number(text: &str) -> Expr {
    let func = datafusion::logical_expr::ScalarUDF::from(LongNumber::new());
    let func = std::sync::Arc::new(func);
    let text = Expr::Literal(ScalarValue::Utf8(Some(text.to_string())), None);
    Expr::ScalarFunction(ScalarFunction::new_udf(func, vec![text]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::lit;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_long_from_sixteen_digits_on() {
        for short in [
            "0.1",
            "123456789012345",
            "1234567890123.45",
            "0.00012345678901234500",
            "1e300",
            "9223372036854775808",
            "1.2345678901234567e3",
        ] {
            assert!(!is_long(short), "{short}");
        }
        for long in [
            "1234567890.123456",
            "23796.462709189138",
            "-9223372036854775809",
            "18446744073709551616",
        ] {
            assert!(is_long(long), "{long}");
        }
    }

    #[test]
    fn sums_of_numbers_are_exact() {
        let discount = lit(0.06) - lit(0.01);
        assert!(is_number(&discount));
        assert_eq!(
            Exact::of(&discount).unwrap().scalar(),
            ScalarValue::Decimal128(Some(5), 2, 2)
        );
        let product = number("123456789012345678.12") * lit(2_i64);
        assert_eq!(
            Exact::of(&product).unwrap().scalar(),
            ScalarValue::Decimal128(Some(24_691_357_802_469_135_624), 20, 2)
        );
        assert!(!is_number(&(lit(1_i64) + lit(2_i64))));
        assert!(!is_number(&(lit(1_i64) + lit(2_i64) + lit(0.5))));
        let long = (0..200).fold(lit(0.5), |sum, _| sum + lit(0.5));
        assert!(is_number(&long));
        assert!(Exact::of(&lit(1e300)).is_none());
    }

    #[test]
    fn beside_a_column_a_number_has_its_type_if_it_can() {
        let of = |text: &str, ty| Exact::parse(text).unwrap().beside(&ty);
        assert_eq!(
            of("1.5", DataType::Decimal128(20, 2)),
            ScalarValue::Decimal128(Some(150), 20, 2)
        );
        assert_eq!(
            of("1.505", DataType::Decimal128(20, 2)),
            ScalarValue::Decimal128(Some(1505), 4, 3)
        );
        assert_eq!(of("10.0", DataType::Int32), ScalarValue::Int64(Some(10)));
        // 28 digits before the point and 11 after it are more than 38.
        assert!(matches!(
            of("0.00000000001", DataType::Decimal128(38, 10)),
            ScalarValue::Decimal256(_, 11, 11)
        ));
    }

    proptest! {
        #[test]
        fn fifteen_digits_survive_a_double(digits in 0..=999_999_999_999_999_i64, scale in 0..20_usize) {
            let text = format!("{digits:0>20}");
            let (whole, fraction) = text.split_at(20 - scale);
            let text = format!("{whole}.{fraction}");
            let exact = Exact::parse(&text).unwrap();
            let double: f64 = text.parse().unwrap();
            prop_assert_eq!(Exact::of(&lit(double)), Some(exact));
        }
    }
}
