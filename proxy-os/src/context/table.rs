//! The contexts of one queue by id: what the worker looks up, and those that were dropped before their last task ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use proxy_core::{ContextError, ContextId, Rank, Spec};

use super::ContextData;
use super::note::Entered;
use crate::diagnosis;
use crate::queue::Core;
use crate::watch::Held;

/// Locked when a context comes, goes, or is first seen by the worker.
#[derive(Debug, Default)]
pub(crate) struct ContextTable(Mutex<Vec<Option<Place>>>);

#[derive(Debug)]
pub(crate) struct Place {
    id: ContextId,
    data: Arc<ContextData>,
    /// Its owner is gone; the worker retires it once none of its tasks is unfinished.
    dropped: bool,
}

/// What a report keeps of a context. No reference to it: its owner may free what it stands on once it is retired.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) id: ContextId,
    pub(crate) rank: Rank,
    /// The library call that the worker is inside of for it.
    pub(crate) entered: Option<Entered>,
}

impl ContextTable {
    /// Registers a context, under the lock that the core asks of those who bring new ranks.
    pub(crate) fn register(
        &self,
        core: &Core,
        spec: &Spec,
        data: &Arc<ContextData>,
    ) -> Result<ContextId, ContextError> {
        let mut places = self.lock();
        let id = core.register(spec)?;
        let at = index(id);
        if places.len() <= at {
            places.resize_with(at + 1, || None);
        }
        places[at] = Some(Place {
            id,
            data: Arc::clone(data),
            dropped: false,
        });
        Ok(id)
    }

    pub(crate) fn remove(&self, id: ContextId) {
        let mut places = self.lock();
        if let Some(place) = places.get_mut(index(id))
            && place.as_ref().is_some_and(|place| place.id == id)
        {
            *place = None;
        }
    }

    /// Leaves a busy context to the worker.
    pub(crate) fn abandon(&self, id: ContextId) {
        let mut places = self.lock();
        let place = places.get_mut(index(id)).and_then(Option::as_mut);
        if let Some(place) = place.filter(|place| place.id == id) {
            place.dropped = true;
        }
    }

    /// Retires dropped contexts that are busy no more; whether any still is.
    pub(crate) fn retire_dropped(&self, core: &Core) -> bool {
        let mut busy = false;
        // Freed after the lock: an embedder's barrier may do what it likes when it is dropped.
        let mut retired = Vec::new();
        for place in self.lock().iter_mut() {
            let Some(id) = place.as_ref().filter(|it| it.dropped).map(|it| it.id) else {
                continue;
            };
            match core.retire(id) {
                Err(ContextError::Busy { .. }) => busy = true,
                _ => retired.extend(place.take()),
            }
        }
        busy
    }

    pub(crate) fn get(&self, id: ContextId) -> Option<Arc<ContextData>> {
        find(&self.lock(), id).map(Arc::clone)
    }

    /// What `read` makes of a context, if it is there still; `None` if somebody holds the table. Within the lock, which a retire takes before it
    /// returns: after that the start words may be gone.
    pub(crate) fn try_read<R>(
        &self,
        id: ContextId,
        read: impl FnOnce(&ContextData) -> R,
    ) -> Option<Option<R>> {
        Some(find(&self.try_lock()?, id).map(|data| read(data)))
    }

    /// As [`Self::try_read`], but `None` only if the table is locked for longer than a report waits.
    pub(crate) fn read<R>(
        &self,
        id: ContextId,
        read: impl FnOnce(&ContextData) -> R,
    ) -> Option<Option<R>> {
        Some(find(&diagnosis::lock(&self.0)?, id).map(|data| read(data)))
    }

    /// The library call that the worker is inside of, and whose it is.
    pub(crate) fn entered(&self) -> Option<(ContextId, Entered)> {
        entered(&self.lock())
    }

    /// As [`Self::entered`], but an error if somebody holds the table.
    pub(crate) fn try_entered(&self) -> Result<Option<(ContextId, Entered)>, Held> {
        self.try_lock().map(|places| entered(&places)).ok_or(Held)
    }

    /// All contexts, for a report; `None` if the table is locked for longer than a report waits.
    pub(crate) fn try_all(&self) -> Option<Vec<Listed>> {
        let places = diagnosis::lock(&self.0)?;
        let listed = |place: &Place| Listed {
            id: place.id,
            rank: place.data.rank,
            entered: place.data.note.entered(),
        };
        Some(places.iter().flatten().map(listed).collect())
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Vec<Option<Place>>>> {
        match self.0.try_lock() {
            Ok(places) => Some(places),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// For the length of an access.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Option<Place>>> {
        // A panic inside these few lines leaves a valid table.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entered(places: &[Option<Place>]) -> Option<(ContextId, Entered)> {
    let mut places = places.iter().flatten();
    places.find_map(|place| Some((place.id, place.data.note.entered()?)))
}

fn find(places: &[Option<Place>], id: ContextId) -> Option<&Arc<ContextData>> {
    let place = places.get(index(id))?.as_ref()?;
    (place.id == id).then_some(&place.data)
}

fn index(id: ContextId) -> usize {
    // Below the queue's number of contexts.
    id.index() as usize
}
