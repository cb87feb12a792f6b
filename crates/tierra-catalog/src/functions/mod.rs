//! Functions: their names, what they take and what they return.

mod array;
mod rows;
mod system;
mod text;

use crate::error::Result;
use crate::run::Run;
use crate::types::Type;
use crate::value::Value;

pub(crate) use self::rows::RowsFunction;
pub(crate) use self::system::ENCODING;

/// A parameter that takes any value as the text that a client would see.
pub(crate) const OUTPUT: Type = Type(2275);
/// A parameter that takes any array, as such texts.
pub(crate) const OUTPUTS: Type = Type(1263);

/// A function that returns one value.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [Type],
    /// Whether the last argument may be there several times, or not at all.
    pub(crate) is_variadic: bool,
    pub(crate) result: Type,
    /// Whether it is NULL if an argument is.
    pub(crate) is_strict: bool,
    pub(crate) run: fn(&Run<'_>, &[Value]) -> Result<Value>,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

const fn function(
    name: &'static str,
    arguments: &'static [Type],
    result: Type,
    run: fn(&Run<'_>, &[Value]) -> Result<Value>,
) -> Function {
    Function {
        name,
        arguments,
        is_variadic: false,
        result,
        is_strict: true,
        run,
    }
}

impl Function {
    const fn called_on_null(self) -> Self {
        Self {
            is_strict: false,
            ..self
        }
    }

    const fn variadic(self) -> Self {
        Self {
            is_variadic: true,
            ..self
        }
    }

    fn takes(&self, count: usize) -> bool {
        match self.is_variadic {
            true => count + 1 >= self.arguments.len(),
            false => count == self.arguments.len(),
        }
    }

    /// The type of the parameter that takes the argument at this place.
    pub(crate) fn parameter(&self, place: usize) -> Type {
        let last = self.arguments.len().saturating_sub(1);
        self.arguments
            .get(place.min(last))
            .copied()
            .unwrap_or(Type::ANY)
    }
}

/// The functions of this name that take so many arguments.
pub(crate) fn named(name: &str, count: usize) -> impl Iterator<Item = &'static Function> {
    let all = [
        text::FUNCTIONS,
        array::FUNCTIONS,
        system::FUNCTIONS,
        system::PRIVILEGES,
    ];
    let all = all.into_iter().flatten();
    all.filter(move |function| function.name == name && function.takes(count))
}

/// Whether there is a function of this name that only the system catalog has.
pub(crate) fn is_of_catalog(name: &str) -> bool {
    let all = system::FUNCTIONS.iter().chain(system::PRIVILEGES);
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
