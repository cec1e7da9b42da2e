//! The device against a library played by hand.
