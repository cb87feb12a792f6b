//! What is done about bytes that are not there, or not as they were written: checked copies, repair from another copy, and placeholders where there is none.

pub(crate) mod checked_copy;
pub(crate) mod pages;
pub(crate) mod placeholder;
pub(crate) mod repair;
