//! A seeded generator, so that the core draws without randomness of its own.
