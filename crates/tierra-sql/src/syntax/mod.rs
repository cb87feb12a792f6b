//! Passes over a statement before it is planned: each writes one thing as the planner reads it, or refuses it.
//!
//! [`crate::statement`] calls those that see a statement alone; a session those that know its tables.

pub(crate) mod arrays_of_queries;
pub(crate) mod column_names;
pub(crate) mod constant_groups;
pub(crate) mod drawn_twice;
pub(crate) mod function_columns;
pub(crate) mod grouping_tuples;
pub(crate) mod ignored;
pub(crate) mod inserted;
pub(crate) mod intervals;
pub(crate) mod long_numbers;
pub(crate) mod nested_values;
pub(crate) mod operators;
pub(crate) mod ordered_items;
pub(crate) mod plain_forms;
pub(crate) mod result_names;
pub(crate) mod windows;

use datafusion::sql::sqlparser::tokenizer::Token;

pub(crate) fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}
