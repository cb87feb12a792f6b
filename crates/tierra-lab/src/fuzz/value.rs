//! The fuzzer's SQL types and values, and their literals in every dialect.

use super::sql::Dialect;

/// A type of Tierra.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// BOOLEAN
    Bool,
    /// INTEGER, 32 bits
    Int,
    /// BIGINT, 64 bits
    Big,
    /// DECIMAL(precision, scale)
    Dec(u8, u8),
    /// DOUBLE
    Double,
    /// DATE
    Date,
    /// TIMESTAMP, microseconds
    Timestamp,
    /// VARCHAR
    Text,
}

/// A value of one of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// NULL.
    Null,
    /// A BOOLEAN.
    Bool(bool),
    /// An INTEGER or BIGINT, a DECIMAL without its point, days or microseconds since 1970.
    Number(i128),
    /// A DOUBLE.
    Double(f64),
    /// A VARCHAR.
    Text(String),
}

impl Type {
    /// Its name in DDL and casts.
    pub(crate) fn name(self, dialect: Dialect) -> String {
        match (self, dialect) {
            (Type::Double, Dialect::Sqlite) => "REAL".to_owned(),
            (Type::Bool | Type::Int | Type::Big | Type::Dec(..), Dialect::Sqlite) => {
                "INTEGER".to_owned()
            }
            (_, Dialect::Sqlite) => "TEXT".to_owned(),
            (Type::Bool, _) => "BOOLEAN".to_owned(),
            (Type::Int, _) => "INTEGER".to_owned(),
            (Type::Big, _) => "BIGINT".to_owned(),
            (Type::Dec(precision, scale), _) => format!("DECIMAL({precision}, {scale})"),
            (Type::Double, _) => "DOUBLE".to_owned(),
            (Type::Date, _) => "DATE".to_owned(),
            (Type::Timestamp, _) => "TIMESTAMP".to_owned(),
            (Type::Text, _) => "VARCHAR".to_owned(),
        }
    }

    /// Whether it is a number.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Type::Int | Type::Big | Type::Dec(..) | Type::Double)
    }

    /// The greatest magnitude of its values, in units of the last digit; for a DOUBLE in quarters, small enough that a sum of
    /// 2^12 of them is exact.
    pub(crate) fn most(self) -> u128 {
        match self {
            Type::Int => i32::MAX as u128,
            Type::Big => i64::MAX as u128,
            Type::Dec(precision, _) => 10_u128.pow(u32::from(precision)) - 1,
            Type::Double => 1 << 40,
            _ => u128::MAX,
        }
    }
}

impl Value {
    /// The value as an expression of its type.
    pub(crate) fn literal(&self, ty: Type, dialect: Dialect) -> String {
        let sqlite = dialect == Dialect::Sqlite;
        match (self, ty) {
            (Value::Null, _) if sqlite => "NULL".to_owned(),
            (Value::Null, _) => format!("CAST(NULL AS {})", ty.name(dialect)),
            (Value::Bool(true), _) => "TRUE".to_owned(),
            (Value::Bool(false), _) => "FALSE".to_owned(),
            (Value::Number(days), Type::Date) if sqlite => format!("'{}'", date(*days)),
            (Value::Number(days), Type::Date) => format!("DATE '{}'", date(*days)),
            (Value::Number(micros), Type::Timestamp) if sqlite => {
                format!("'{}'", timestamp(*micros))
            }
            (Value::Number(micros), Type::Timestamp) => {
                format!("TIMESTAMP '{}'", timestamp(*micros))
            }
            (Value::Number(n), _) if sqlite => negative_in_parentheses(n.to_string()),
            (Value::Number(n), Type::Int) => format!("CAST({n} AS INTEGER)"),
            // In Tierra a whole number is a BIGINT, in DuckDB an INTEGER if it fits.
            (Value::Number(n), Type::Big) if dialect == Dialect::DuckDb => {
                format!("CAST({n} AS BIGINT)")
            }
            (Value::Number(n), Type::Dec(_, scale)) => {
                format!("CAST('{}' AS {})", decimal(*n, scale), ty.name(dialect))
            }
            (Value::Number(n), _) => negative_in_parentheses(n.to_string()),
            (Value::Double(x), _) if sqlite => negative_in_parentheses(match x {
                x if x.is_nan() => "NULL".to_owned(),
                x if x.is_infinite() => format!("{}9e999", if *x < 0.0 { "-" } else { "" }),
                x => format!("{x:?}"),
            }),
            (Value::Double(x), _) => format!("CAST('{}' AS DOUBLE)", double(*x)),
            (Value::Text(text), _) => format!("'{}'", text.replace('\'', "''")),
        }
    }
}

fn negative_in_parentheses(number: String) -> String {
    if number.starts_with('-') {
        format!("({number})")
    } else {
        number
    }
}

/// A DOUBLE as a text that every engine reads.
pub(crate) fn double(x: f64) -> String {
    match x {
        x if x.is_nan() => "nan".to_owned(),
        x if x.is_infinite() => if x < 0.0 { "-inf" } else { "inf" }.to_owned(),
        x => format!("{x:?}"),
    }
}

/// `12345` with two digits after the point is `123.45`.
pub(crate) fn decimal(unscaled: i128, scale: u8) -> String {
    let digits = format!(
        "{:0>width$}",
        unscaled.unsigned_abs(),
        width = usize::from(scale) + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let sign = if unscaled < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// Days since 1970 as `YYYY-MM-DD`, by the proleptic Gregorian calendar.
pub(crate) fn date(days: i128) -> String {
    // Eras of 400 years that begin on the first of March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i128::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Microseconds since 1970 as `YYYY-MM-DD HH:MM:SS.ffffff`.
pub(crate) fn timestamp(micros: i128) -> String {
    const DAY: i128 = 86_400_000_000;
    let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!(
        "{} {hours:02}:{minutes:02}:{:02}.{fraction:06}",
        date(days),
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_the_calendars() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(-1), "1969-12-31");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(-719_162), "0001-01-01");
        assert_eq!(date(2_932_896), "9999-12-31");
        assert_eq!(timestamp(-1), "1969-12-31 23:59:59.999999");
    }

    #[test]
    fn decimals_keep_their_digits() {
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(12_345, 2), "123.45");
        assert_eq!(decimal(7, 0), "7");
    }
}
