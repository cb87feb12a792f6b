//! What is near: which objects may have near copies, and the thread that gives them to what is read most.

pub(crate) mod mover;
pub(crate) mod objects;
