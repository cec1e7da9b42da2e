//! What the benches share: ports that do nothing, time, the machine, the programs they are compared with.

pub mod clock;
pub mod contexts;
pub mod counting;
pub mod machine;
pub mod ports;
pub mod tools;
