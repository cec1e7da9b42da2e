//! One verdict per generation.
