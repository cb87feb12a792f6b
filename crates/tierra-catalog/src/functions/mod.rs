//! Functions: their names, what they take and what they return.

mod array;
mod function;
mod privilege;
mod rows;
mod system;
mod text;

pub(crate) use self::function::{Function, OUTPUT, OUTPUTS};
pub(crate) use self::rows::RowsFunction;
pub(crate) use self::system::ENCODING;

/// The functions of this name that take so many arguments.
pub(crate) fn named(name: &str, count: usize) -> impl Iterator<Item = &'static Function> {
    let all = [
        text::FUNCTIONS,
        array::FUNCTIONS,
        system::FUNCTIONS,
        privilege::FUNCTIONS,
    ];
    let all = all.into_iter().flatten();
    all.filter(move |function| function.name == name && function.takes(count))
}

/// Whether there is a function of this name that only the system catalog has.
pub(crate) fn is_of_catalog(name: &str) -> bool {
    let all = system::FUNCTIONS.iter().chain(privilege::FUNCTIONS);
    all.chain(
        text::FUNCTIONS
            .iter()
            .filter(|function| function.name == "quote_ident"),
    )
    .any(|function| function.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Type;

    #[test]
    fn parameters_of_many_arguments_are_the_last_one() {
        let concat = named("concat_ws", 3).next().unwrap();
        assert_eq!(
            (concat.parameter(0), concat.parameter(2)),
            (Type::TEXT, OUTPUT)
        );
        assert!(named("concat", 0).next().is_some() && named("lower", 2).next().is_none());
        assert!(is_of_catalog("pg_get_userbyid") && !is_of_catalog("lower"));
    }
}
