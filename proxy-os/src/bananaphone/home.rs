//! What the ranks of one process have in common on one bus: the mapping, and the thread that watches the others.
//!
//! Ranks may be threads. They join each by itself, but a second mapping and a second set of watched descriptors would be waste: a
//! bus of 64 processes and 64 threads would need more than four thousand descriptors in the one.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use proxy_core::phone::layout::Geometry;

use super::error::JoinError;
use super::segment;
use super::share::Share;
use super::watch::Watch;
use crate::sys::mmap::Mapping;

/// The part of a bus that all ranks of this process share.
#[derive(Debug)]
pub(super) struct Home {
    bus: [u64; 2],
    /// Its sizes, as they were when the mapping was checked: what a peer makes of the header later is nobody's business.
    pub(super) geometry: Geometry,
    pub(super) mapping: Arc<Mapping>,
    pub(super) watch: Watch,
    /// For messages.
    pub(super) share: Option<Share>,
}

/// The homes of this process, to be found by the next rank that joins.
static HOMES: Mutex<Vec<Weak<Home>>> = Mutex::new(Vec::new());

impl Home {
    /// The home of a bus in this process; made from `file` if this is its first rank here.
    pub(super) fn enter(
        bus: [u64; 2],
        file: &File,
        sealed: bool,
        geometry: &Geometry,
        share: Option<Share>,
    ) -> Result<Arc<Self>, JoinError> {
        let mut homes = HOMES.lock().unwrap_or_else(PoisonError::into_inner);
        homes.retain(|home| home.strong_count() > 0);
        let known = homes.iter().filter_map(Weak::upgrade);
        if let Some(home) = known.into_iter().find(|home| home.bus == bus) {
            return Ok(home);
        }
        let mapping = Arc::new(segment::map(file, sealed, geometry)?);
        segment::check(&mapping, geometry)?;
        let home = Arc::new(Self {
            bus,
            geometry: *geometry,
            watch: Watch::start(&mapping, *geometry, share)?,
            share,
            mapping,
        });
        homes.push(Arc::downgrade(&home));
        Ok(home)
    }
}
