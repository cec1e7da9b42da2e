//! Slots: two producers claim, the worker and a consumer give back. A slot never has two owners, a full rank says so at once.
//!
//! Requirements: H01.

use proxy_core::port::Ports;
use proxy_core::{
    ContextId, Driver, EnqueueError, ExecId, Poll, Queue, Rank, Spec, Status, TaskKind,
};
use proxy_loom::host::{NoWords, plain};
use proxy_loom::rt::{self, Arc};

type Shared = Queue<1, 2, 1>;

/// `taken` of two slots are in use; each producer wants one, while the worker's tasks end and are consumed, if it ticks at all
/// meanwhile.
fn run(taken: u64, producers: u64, ticks: bool) {
    let queue = Arc::new(Shared::new());
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(0))
    };
    let context = queue.register(&spec).unwrap();
    let enqueue = move |queue: &Shared, exec| match queue.enqueue(context, exec, &NoWords) {
        Ok(appended) => Some((exec, appended.network.unwrap())),
        Err(EnqueueError::Full { capacity: 2, .. }) => None,
        Err(error) => panic!("{error}"),
    };
    let mut accepted: Vec<_> = (0..taken)
        .filter_map(|exec| enqueue(&queue, ExecId(exec)))
        .collect();
    let producer = |exec| {
        let queue = Arc::clone(&queue);
        rt::spawn(move || enqueue(&queue, ExecId(exec)))
    };
    let producers: Vec<_> = (taken..taken + producers).map(producer).collect();
    let worker = rt::spawn(move || {
        let mut driver = Driver::<1, 2>::new();
        let mut host = plain();
        let mut consumed = 0;
        if ticks {
            consumed += consume(&queue, context, &mut driver, &mut host);
        }
        accepted.extend(producers.into_iter().filter_map(rt::join));
        consumed += consume(&queue, context, &mut driver, &mut host);
        assert!(accepted.len() >= 2, "full only while both are in use");
        assert!(ticks || accepted.len() == 2, "both are in use: full");
        assert_eq!(consumed, accepted.len(), "each end is reported once");
        let mut ended: Vec<ExecId> = host.ended.iter().map(|(exec, _)| *exec).collect();
        ended.sort();
        let execs: Vec<ExecId> = accepted.iter().map(|(exec, _)| *exec).collect();
        assert_eq!(
            ended, execs,
            "what is accepted runs once, with its own fields"
        );
        for (at, (_, ticket)) in accepted.iter().enumerate() {
            let mut others = accepted.iter().skip(at + 1);
            assert!(others.all(|(_, other)| other != ticket), "two owners");
        }
    });
    rt::join(worker);
}

fn two_producers() {
    run(1, 2, false);
}

fn reuse() {
    run(2, 1, true);
}

/// One tick, and as many consumes as tasks ended in it.
fn consume(
    queue: &Shared,
    context: ContextId,
    driver: &mut Driver<1, 2>,
    ports: &mut impl Ports,
) -> usize {
    let done = driver.tick(queue, ports).done;
    for _ in 0..done {
        let poll = queue.check(context, TaskKind::Network);
        assert_eq!(poll, Ok(Poll::Done(Status::SUCCESS)));
    }
    usize::try_from(done).unwrap()
}

#[test]
fn h01_of_two_producers_for_one_slot_one_gets_it_and_one_is_told_full() {
    rt::model("slab, two producers", 1000, two_producers);
}

#[test]
fn h01_a_slot_given_back_has_one_new_owner() {
    rt::model("slab", 100, reuse);
}

#[cfg(loom)]
#[test]
fn twin() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::SlotClaim, "slab", reuse);
}
