//! Helpers of the integration tests in `tests/`, each of which is named after the requirement it checks.

pub mod bus;
pub mod child;
pub mod messages;
pub mod os;
pub mod pace;
pub mod pin;
pub mod script;
pub mod service;
pub mod stub;
