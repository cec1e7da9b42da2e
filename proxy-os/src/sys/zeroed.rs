//! Large objects that are valid when all bytes are zero, from memory that the kernel hands out page by page at first touch.
#![allow(unsafe_code, reason = "a value is claimed to be valid by its bytes")]

use proxy_core::Queue;
use proxy_core::recorder::Recorder;

/// An empty queue. Only the pages of slots that are used become resident.
pub(crate) fn queue<const R: usize, const T: usize, const C: usize>() -> Box<Queue<R, T, C>> {
    // SAFETY: the core promises that an all-zero queue is a valid, empty one: it consists of atomic integers only.
    unsafe { Box::<Queue<R, T, C>>::new_zeroed().assume_init() }
}

/// An empty recorder, likewise.
pub(crate) fn recorder<const N: usize>() -> Box<Recorder<N>> {
    // SAFETY: as for the queue.
    unsafe { Box::<Recorder<N>>::new_zeroed().assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_objects_are_empty() {
        let queue = queue::<2, 4, 2>();
        assert_eq!(queue.tasks().count(), 0);
        assert!(queue.is_inbox_empty());
        assert_eq!(queue.shut_by(), None);
        let spec = proxy_core::Spec::new(proxy_core::Rank(0));
        assert_eq!(
            queue
                .register(&spec)
                .map(|id| (id.index(), id.generation())),
            Ok((0, 1))
        );
        assert_eq!(recorder::<8>().iter().count(), 0);
    }
}
