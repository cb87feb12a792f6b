//! Handles missing and damaged bytes: checked copies, repair from another copy, and placeholders if there is none.

pub(crate) mod checked_copy;
pub(crate) mod pages;
pub(crate) mod placeholder;
pub(crate) mod repair;
