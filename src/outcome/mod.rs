//! Operations and their typed outcomes.
