//! What the benches share: ports that do nothing, and the measuring of one operation.

pub mod ports;
