//! New ids and secrets.

use perilune_proto::scalar::Secret;

/// 128 bits that begin with the time, so that what is written together stands together in an index. They are
/// unique, not secret.
pub(super) fn id() -> u128 {
    uuid::Uuid::now_v7().as_u128()
}

/// The secret of a new lease: 256 bits of the operating system's generator, by way of the thread's.
pub(super) fn secret() -> Secret {
    Secret::from_bytes(rand::random())
}

/// A seed for what only has to differ.
pub(super) fn seed() -> u64 {
    rand::random()
}
