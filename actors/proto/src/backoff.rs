//! Delays that double, with half-interval jitter.
