//! Inbox: two producers and the worker. Nothing is lost, and each producer's tasks arrive in its order.

use proxy_core::{Driver, ExecId, Queue, Rank, Spec};
use proxy_loom::host::{NoWords, plain};
use proxy_loom::rt::{self, Arc};

type Shared = Queue<1, 2, 1>;

/// Each producer appends its share; the worker ticks once among them, then drains. The shares are ascending.
fn run(shares: &'static [&'static [u64]]) {
    let queue = Arc::new(Shared::new());
    let spec = Spec {
        skip: true,
        ..Spec::new(Rank(7))
    };
    let context = queue.register(&spec).unwrap();
    let producer = |share: &&'static [u64]| {
        let (queue, share) = (Arc::clone(&queue), *share);
        rt::spawn(move || {
            for exec in share {
                let appended = queue.enqueue(context, ExecId(*exec), &NoWords).unwrap();
                assert!(appended.barrier.is_none());
            }
        })
    };
    let producers: Vec<_> = shares.iter().map(producer).collect();
    let worker = rt::spawn(move || {
        let mut driver = Driver::<1, 2>::new();
        let mut host = plain();
        let mut drained = driver.tick(&queue, &mut host).drained;
        producers.into_iter().for_each(rt::join);
        drained += driver.tick(&queue, &mut host).drained;
        assert_eq!(drained, 2, "every accepted task reaches the worker");
        let ended: Vec<u64> = host.ended.iter().map(|(exec, _)| exec.0).collect();
        for share in shares {
            let of_share = ended.iter().filter(|exec| share.contains(exec));
            assert!(
                of_share.eq(*share),
                "lost, doubled or out of order: {ended:?}"
            );
        }
    });
    rt::join(worker);
}

/// Two producers, one task each.
fn two_producers() {
    run(&[&[1], &[2]]);
}

/// One producer, two tasks.
fn two_tasks() {
    run(&[&[1, 2]]);
}

#[test]
fn no_producers_task_is_lost() {
    rt::model("inbox", 1000, two_producers);
}

#[test]
fn a_producers_tasks_arrive_in_its_order() {
    rt::model("inbox order", 20, two_tasks);
}

#[cfg(loom)]
#[test]
fn twins() {
    use proxy_core::Edge;
    rt::must_fail_without(Edge::InboxPush, "inbox", two_producers);
    rt::must_fail_without(Edge::InboxTake, "inbox", two_producers);
}
