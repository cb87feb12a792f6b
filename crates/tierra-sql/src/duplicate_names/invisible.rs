//! Invisible parts of names: the numbers of duplicates, and the planner's text for marks.

use datafusion::common::SchemaError;

/// The digits of a duplicate's number: invisible separators.
pub(super) const DIGITS: [char; 2] = ['\u{2063}', '\u{2064}'];

/// What is around the number of a merged column that has another name.
pub(crate) const HIDDEN: char = '\u{2062}';

/// The function that marks an expression.
pub(super) const MARK: &str = "tierra_mark";

/// The planner's text for the second argument of a mark, whose digits are invisible.
const TEXT: &str = ", Utf8(\"\")";

/// A number that is invisible in a name.
pub(crate) fn digits(number: usize) -> String {
    let bits = usize::BITS - number.leading_zeros();
    (0..bits)
        .rev()
        .map(|bit| DIGITS[number >> bit & 1])
        .collect()
}

/// The number that `name` consists of.
pub(crate) fn number(name: &str) -> Option<usize> {
    let digit = |char| DIGITS.iter().position(|digit| *digit == char);
    let mut digits = name.chars().map(digit);
    let number = digits.try_fold(0, |number, digit| Some(number << 1 | digit?));
    number.filter(|number| *number > 0)
}

/// The ambiguous name of a reference, if that is why the column was not found.
pub(crate) fn of_reference(error: &SchemaError) -> Option<&str> {
    let SchemaError::FieldNotFound {
        field,
        valid_fields,
    } = error
    else {
        return None;
    };
    let is_twin = |name: &str| name.ends_with(DIGITS) && visible(name) == field.name;
    let found = valid_fields.iter().any(|valid| is_twin(&valid.name));
    found.then_some(&field.name)
}

/// `text` without numbers and marks, and without the table of a merged column.
pub(super) fn visible(text: &str) -> String {
    let text = text.replace(&format!("{HIDDEN}."), "");
    let [zero, one] = DIGITS;
    unmarked(&text.replace([zero, one, HIDDEN], ""))
}

/// `text` without the planner's text for marks.
fn unmarked(text: &str) -> String {
    let opening = format!("{MARK}(");
    let mut bare = String::with_capacity(text.len());
    // For each open bracket, whether it belongs to a mark.
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if let Some(inner) = rest.strip_prefix(&opening) {
            open.push(true);
            rest = inner;
            continue;
        }
        let is_mark = match next {
            '(' => {
                open.push(false);
                false
            }
            ')' => open.pop().unwrap_or(false),
            _ => false,
        };
        if is_mark {
            let written = bare.strip_suffix(TEXT).map(str::len);
            bare.truncate(written.unwrap_or(bare.len()));
        } else {
            bare.push(next);
        }
        rest = &rest[next.len_utf8()..];
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for n in [1, 2, 3, 100, usize::MAX] {
            assert_eq!(number(&digits(n)), Some(n));
            assert_eq!(visible(&format!("a{}", digits(n))), "a");
        }
        assert_eq!(number(""), None);
        assert_eq!(number("a"), None);
    }

    #[test]
    fn marks_are_taken_out_of_text() {
        let text = "sum(tierra_mark(tierra_mark(a + b) * c)) FILTER (WHERE tierra_mark(f(x) = 1))";
        assert_eq!(unmarked(text), "sum(a + b * c) FILTER (WHERE f(x) = 1)");
        assert_eq!(unmarked(")tierra_mark("), ")");
        assert_eq!(unmarked("tierra_mark"), "tierra_mark");
        let text = "sum(a) FILTER (WHERE tierra_mark(EXISTS (<subquery>), Utf8(\"\")))";
        assert_eq!(unmarked(text), "sum(a) FILTER (WHERE EXISTS (<subquery>))");
    }
}
