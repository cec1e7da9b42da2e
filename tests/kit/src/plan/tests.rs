//! Plans of whole worlds: links match, windows hold, every byte of the output is made once.
