//! The outbox: rows written in the same transaction, sent later by a relay actor.
