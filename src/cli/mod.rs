//! The command line: one file a command. Nobody imports this module but the binary.
