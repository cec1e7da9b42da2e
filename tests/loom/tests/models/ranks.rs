//! Places of ranks: given to one rank at a time, and to each rank once.

use proxy_core::{ContextError, ContextId, ExecId, Queue, Rank, Spec};
use proxy_loom::host::NoWords;
use proxy_loom::rt::{self, Arc};

type Shared = Queue<2, 2, 2>;

fn register(queue: &Shared, rank: u32) -> Result<ContextId, ContextError> {
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(rank))
    };
    queue.register(&spec)
}

/// The row of slots in which tasks of a context stand.
fn row(queue: &Shared, context: ContextId) -> u32 {
    let appended = queue.enqueue(context, ExecId(1), &NoWords).unwrap();
    appended.network.unwrap().slot() / 2
}

/// Two threads bring the same new rank.
fn two_registers() {
    let queue = Arc::new(Shared::new());
    let registers = [(); 2].map(|()| {
        let queue = Arc::clone(&queue);
        rt::spawn(move || register(&queue, 7))
    });
    let checker = rt::spawn(move || {
        let found = registers.map(rt::join);
        let rows: Vec<u32> = found
            .iter()
            .filter_map(|found| found.as_ref().ok())
            .map(|context| row(&queue, *context))
            .collect();
        assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
        assert!(!rows.is_empty(), "one of two is served");
        let refused = found.iter().filter_map(|found| found.as_ref().err());
        for error in refused {
            assert_eq!(*error, ContextError::Contended);
        }
    });
    rt::join(checker);
}

#[test]
fn a_rank_that_two_threads_bring_has_one_place() {
    rt::model("rank places", 20, two_registers);
}

/// A rank leaves the only place that is left while another wants it and a third thread comes back to it.
fn handover() {
    let queue = Arc::new(Shared::new());
    let kept = register(&queue, 1).unwrap();
    let left = register(&queue, 2).unwrap();
    let retire = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || {
            assert_eq!(queue.retire(left), Ok(()));
            register(&queue, 2)
        })
    };
    let other = {
        let queue = Arc::clone(&queue);
        rt::spawn(move || register(&queue, 3))
    };
    let checker = rt::spawn(move || {
        let (back, other) = (rt::join(retire), rt::join(other));
        let served = [&back, &other].into_iter().flatten().count();
        assert!(served <= 1, "two ranks at one place: {back:?} {other:?}");
        for context in [back, other].into_iter().flatten() {
            assert_ne!(row(&queue, context), row(&queue, kept));
        }
        // Whatever happened, the place is not lost.
        let last = [back, other].into_iter().flatten().next();
        if let Some(context) = last {
            let busy = Err(ContextError::Busy { unfinished: 1 });
            assert_eq!(queue.retire(context), busy);
        } else {
            assert!(register(&queue, 4).is_ok());
        }
    });
    rt::join(checker);
}

#[test]
fn a_place_goes_to_one_of_two_ranks() {
    rt::model("rank handover", 50, handover);
}

#[cfg(loom)]
#[test]
fn twin() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::RankPlace, "rank places", two_registers);
}
