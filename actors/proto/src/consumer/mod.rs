//! The consumer: one pure state machine. Inputs and `now` in, actions out.
