//! What a function is.

use crate::error::Result;
use crate::session::Session;
use crate::types::Type;
use crate::value::Value;

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
    pub(crate) run: fn(&Session<'_>, &[Value]) -> Result<Value>,
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

pub(super) const fn function(
    name: &'static str,
    arguments: &'static [Type],
    result: Type,
    run: fn(&Session<'_>, &[Value]) -> Result<Value>,
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
    pub(super) const fn called_on_null(self) -> Self {
        Self {
            is_strict: false,
            ..self
        }
    }

    pub(super) const fn variadic(self) -> Self {
        Self {
            is_variadic: true,
            ..self
        }
    }

    pub(super) fn takes(&self, count: usize) -> bool {
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
