//! The stand-in `libnccom.so`: the 37 exports of release 2.31, moving real bytes over TCP.
//!
//! It exists because no accelerator and no real library can be had where the tests run. What it agrees on with the
//! simulated device is written in `tests/PROTOCOL.md`; where the original is silent, that file decides.
//!
//! The library is passive: it has no thread, and everything on the data path advances inside a Progress call, one
//! pass per call. The bootstrap calls block instead, each with a deadline (`NEURON_CCOM_SOCK_TIMEOUT`, seconds).
//! It writes to stderr only on errors, each line with the prefix `nccom:`, the rank and, where there is one, the peer.
//!
//! | module | what |
//! |---|---|
//! | `exports` | the C functions: argument checks, no logic |
//! | `boot` | joining, the star and the pair links of the bootstrap |
//! | `comm` | the data communicator: peers, streams, connectors |
//! | `stream`, `oplist` | Start, Progress, Stop; the cursors of one op list |
//! | `lane`, `peers` | frames on one connection; the connections of one stream |
//! | `handles`, `mr` | what a C handle stands for |

mod abi;
mod boot;
mod comm;
mod connector;
mod error;
#[allow(non_snake_case, reason = "the exported names are the library's")]
pub mod exports;
mod handles;
mod host;
mod lane;
mod mr;
mod oplist;
mod peers;
mod settings;
mod sock;
mod stream;
