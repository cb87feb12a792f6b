//! The handles that C holds: numbers, never used again, so that one that was closed is an error and not a wild pointer.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use super::status::{Result, Status, fail};
use crate::buffer::Buffer;
use crate::reader::Reader;
use crate::set::Buffers;

/// What a handle is of.
#[derive(Clone)]
pub(super) enum Object {
    Set(Buffers),
    Buffer(Buffer),
    Reader(Arc<Reader>),
}

static OBJECTS: LazyLock<RwLock<HashMap<u64, Object>>> = LazyLock::new(RwLock::default);

/// A kind of object.
pub(super) trait Kind: Sized {
    const NAME: &'static str;
    fn of(object: &Object) -> Option<Self>;
}

macro_rules! kind {
    ($kind:ty, $variant:ident, $name:literal) => {
        impl Kind for $kind {
            const NAME: &'static str = $name;
            fn of(object: &Object) -> Option<Self> {
                match object {
                    Object::$variant(it) => Some(it.clone()),
                    _ => None,
                }
            }
        }
    };
}

kind!(Buffers, Set, "a set of buffers");
kind!(Buffer, Buffer, "a buffer");
kind!(Arc<Reader>, Reader, "a reader");

/// A number for an object.
pub(super) fn give(object: Object) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Changes are single calls.
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    objects.insert(number, object);
    number
}

/// The object of a number.
pub(super) fn get<K: Kind>(number: u64) -> Result<K> {
    let objects = OBJECTS.read().unwrap_or_else(PoisonError::into_inner);
    match objects.get(&number).and_then(K::of) {
        Some(object) => Ok(object),
        None => none::<K, _>(number, objects.contains_key(&number)),
    }
}

/// The object of a number, which has none from now on.
pub(super) fn take<K: Kind>(number: u64) -> Result<K> {
    let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
    match objects.get(&number).and_then(K::of) {
        Some(object) => {
            objects.remove(&number);
            Ok(object)
        }
        None => none::<K, _>(number, objects.contains_key(&number)),
    }
}

fn none<K: Kind, T>(number: u64, is_another: bool) -> Result<T> {
    let why = match (number, is_another) {
        (_, true) => "it is of another kind",
        (0, _) => "it was never opened",
        _ => "it was closed or deleted",
    };
    fail(
        Status::Handle,
        format!("handle {number} is not {}: {why}", K::NAME),
    )
}
