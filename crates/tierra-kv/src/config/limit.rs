//! Limits of a tier's memory in words: bytes, or `all` where there is none. 0 is no memory at all.
//!
//! The keyspace has the limit of near memory among its settings, as a number whose greatest value is no limit; what
//! people write and read is translated here.

use crate::size;

/// No limit.
const ALL: &str = "all";
const NEAR_MEMORY: &str = "near-memory";

/// A limit as it is written: `None` is `all`. Sizes are written as for Redis, or as for the rest of Tierra.
pub(super) fn parse(text: &str) -> Result<Option<u64>, String> {
    if text.eq_ignore_ascii_case(ALL) {
        return Ok(None);
    }
    match size::parse(text) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(format!("argument must be a memory value, or '{ALL}'")),
    }
}

/// A limit as it is read.
pub(crate) fn shown(limit: Option<u64>) -> String {
    limit.map_or(ALL.into(), |bytes| bytes.to_string())
}

/// The value of a setting of placement as the keyspace takes it.
///
/// # Errors
/// What is wrong with a limit.
pub(crate) fn placement_given(name: &str, value: &str) -> Result<String, String> {
    match name == NEAR_MEMORY {
        true => parse(value).map(|limit| limit.unwrap_or(u64::MAX).to_string()),
        false => Ok(value.into()),
    }
}

/// The value of a setting of placement, of the keyspace, in readable form.
pub(crate) fn placement_shown(name: &str, value: String) -> String {
    match name == NEAR_MEMORY && value == u64::MAX.to_string() {
        true => ALL.into(),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_bytes_or_all() {
        for (text, limit) in [
            ("all", None),
            ("ALL", None),
            ("0", Some(0)),
            ("8gb", Some(8 << 30)),
            ("3 MiB", Some(3 << 20)),
        ] {
            assert_eq!(parse(text), Ok(limit), "{text}");
            assert_eq!(parse(&shown(limit)), Ok(limit), "{text}");
        }
        assert_eq!(
            parse("everything"),
            Err("argument must be a memory value, or 'all'".into())
        );
    }

    #[test]
    fn the_keyspace_calls_all_a_number() {
        let number = placement_given("near-memory", "All").unwrap();
        assert_eq!(number, u64::MAX.to_string());
        assert_eq!(
            placement_given("near-memory", "1gb"),
            Ok((1u64 << 30).to_string())
        );
        let error = placement_given("near-memory", "lots").unwrap_err();
        assert!(error.ends_with("or 'all'"), "{error}");
        assert_eq!(placement_shown("near-memory", number), "all");
        let other = placement_given("memory-alloc-policy", "all");
        assert_eq!(other.as_deref(), Ok("all"));
        assert_eq!(placement_shown("near-memory", "0".into()), "0");
        let other = u64::MAX.to_string();
        assert_eq!(placement_shown("static-threshold", other.clone()), other);
    }
}
