//! The memory of a statement before it runs: of the tokens of its text, and of the tree and the plans that are made of them.
//!
//! None of these asks before it grows, and they are much larger than the text. So an estimate is reserved by the number of tokens, before the
//! tokenizer runs and again before the parser does. Measured in growth of the process (2 cores, Zen 5): 250 bytes for a token of a text, and
//! for one that is planned 400 to 1,150, most in an INSERT of rows with one column.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::resources_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use tierra_memory::Size;

use super::QueryMemory;
use crate::limits::most_tokens;

/// Bytes of a token, as long as its statement is there.
const TOKEN_BYTES: usize = 384;
/// Bytes of all that is made of a token until its statement runs.
const PLANNED_BYTES: usize = 1_536;
/// Texts with fewer tokens are not counted: they take less than a batch of rows does.
const FEW: usize = 1_000;

/// The account of a text's tokens.
#[derive(Debug)]
pub(crate) struct TokenAccount {
    _reservation: MemoryReservation,
}

impl TokenAccount {
    /// Accounts for the tokens of `text`; `None` if these are few.
    ///
    /// # Errors
    /// If queries may not use so much memory.
    pub(crate) fn of(text: &str, memory: &Arc<QueryMemory>) -> Result<Option<Self>> {
        // No token is empty.
        let tokens = if text.len() < FEW {
            0
        } else {
            most_tokens(text)
        };
        if tokens < FEW {
            return Ok(None);
        }
        let reservation = reservation(memory);
        grow(&reservation, memory, tokens, TOKEN_BYTES, "reading")?;
        Ok(Some(Self {
            _reservation: reservation,
        }))
    }
}

/// The account of a statement while it is planned, and of a prepared one for as long as it is kept.
#[derive(Debug)]
pub(crate) struct Planning {
    memory: Arc<QueryMemory>,
    reservation: Mutex<Option<MemoryReservation>>,
}

impl Planning {
    /// Of a statement that was not parsed yet.
    pub(crate) fn new(memory: &Arc<QueryMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            reservation: Mutex::default(),
        }
    }

    /// Accounts for the parsing and planning of so many tokens, in place of as many as before.
    ///
    /// # Errors
    /// If queries may not use so much memory.
    pub(crate) fn of_tokens(&self, tokens: usize) -> Result<()> {
        if tokens < FEW {
            return Ok(());
        }
        let reservation = reservation(&self.memory);
        // What was reserved before is no longer needed: the statement is parsed again.
        let mut kept = self
            .reservation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *kept = None;
        grow(
            &reservation,
            &self.memory,
            tokens,
            PLANNED_BYTES,
            "planning",
        )?;
        *kept = Some(reservation);
        Ok(())
    }

    /// Whether anything is reserved.
    pub(crate) fn is_counted(&self) -> bool {
        let kept = self.reservation.lock();
        kept.unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

fn reservation(memory: &Arc<QueryMemory>) -> MemoryReservation {
    let pool: Arc<dyn MemoryPool> = Arc::clone(memory) as _;
    MemoryConsumer::new("the text of a statement").register(&pool)
}

fn grow(
    reservation: &MemoryReservation,
    memory: &QueryMemory,
    tokens: usize,
    each_bytes: usize,
    doing: &str,
) -> Result<()> {
    let bytes = tokens.saturating_mul(each_bytes);
    reservation.try_grow(bytes).map_err(|_| {
        let limit = memory.limit();
        resources_datafusion_err!(
            "{doing} this text of {tokens} words and marks takes about {}, of tierra.query_memory = {} {} are left: \
             load many rows with COPY, write smaller texts, or SET tierra.query_memory to more",
            Size(bytes as u64),
            Size(limit as u64),
            Size(limit.saturating_sub(memory.reserved()) as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_tokens_are_reserved_until_their_statement_ends() {
        let memory = Arc::new(QueryMemory::new(10_000_000));
        let of = |text: &str| TokenAccount::of(text, &memory).unwrap();
        assert!(of(&",".repeat(FEW - 1)).is_none() && of(&"a".repeat(5_000)).is_none());
        let tokens = of(&",".repeat(5_000));
        assert_eq!(memory.reserved(), 5_000 * TOKEN_BYTES);
        let planning = Planning::new(&memory);
        planning.of_tokens(10).unwrap();
        assert!(!planning.is_counted());
        for tokens in [2_000, 5_000] {
            planning.of_tokens(tokens).unwrap();
        }
        assert!(planning.is_counted());
        assert_eq!(memory.reserved(), 5_000 * (TOKEN_BYTES + PLANNED_BYTES));
        let error = planning.of_tokens(usize::MAX).unwrap_err().to_string();
        assert!(
            error.contains("COPY") && error.contains("tierra.query_memory"),
            "{error}"
        );
        drop((tokens, planning));
        assert_eq!(memory.reserved(), 0);
    }
}
