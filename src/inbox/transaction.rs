//! The open transaction on loan to the caller's statements.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{Database, Transaction};

/// The inbox's open transaction, lent to the caller's business statements.
///
/// It derefs to the engine's own [`sqlx::Transaction`]: run statements on `&mut **tx`, hand `&mut tx` to functions
/// that take a `&mut sqlx::Transaction<'_, DB>`. Dropping it gives the transaction back to the inbox, which commits
/// when the closure said ok and rolls back otherwise. Keep it inside the closure: one that is moved elsewhere and
/// outlives it makes the event fail.
///
/// Never run `COMMIT` or `ROLLBACK` on it, nor a statement that commits implicitly (DDL on MySQL).
pub struct OpenTransaction<DB: Database> {
    // `None` only while it is dropped.
    tx: Option<Transaction<'static, DB>>,
    home: Home<DB>,
}

type Home<DB> = Arc<Mutex<Option<Transaction<'static, DB>>>>;

/// Where a lent transaction comes back to.
pub(super) struct Loan<DB: Database>(Home<DB>);

/// Lends a transaction. What the caller gets, and where it comes back to.
pub(super) fn lend<DB: Database>(tx: Transaction<'static, DB>) -> (OpenTransaction<DB>, Loan<DB>) {
    let home = Home::default();
    (OpenTransaction { tx: Some(tx), home: Arc::clone(&home) }, Loan(home))
}

impl<DB: Database> Loan<DB> {
    /// The transaction, once it has been given back.
    pub(super) fn take(&self) -> Option<Transaction<'static, DB>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<DB: Database> Deref for OpenTransaction<DB> {
    type Target = Transaction<'static, DB>;

    fn deref(&self) -> &Self::Target {
        self.tx.as_ref().expect("taken by drop alone")
    }
}

impl<DB: Database> DerefMut for OpenTransaction<DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.tx.as_mut().expect("taken by drop alone")
    }
}

impl<DB: Database> Drop for OpenTransaction<DB> {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.tx.take();
    }
}

impl<DB: Database> fmt::Debug for OpenTransaction<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTransaction").finish_non_exhaustive()
    }
}
