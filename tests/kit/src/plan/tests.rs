//! Plans of whole worlds: links match, windows hold, outputs are complete, waits follow the posts.

use super::*;

fn spec(op: Op, ranks: u32, rank: u32, count: usize) -> PlanSpec {
    PlanSpec {
        op,
        dtype: Dtype::Uint16,
        ranks,
        rank,
        count,
        streams: 3,
        blocks: 2,
        chunk_bytes: 8,
    }
}

fn world(op: Op, ranks: u32, count: usize) -> Vec<Plan> {
    (0..ranks)
        .map(|rank| Plan::new(&spec(op, ranks, rank, count)).expect("a plan"))
        .collect()
}

/// Every shape of the tests below.
fn worlds() -> impl Iterator<Item = Vec<Plan>> {
    Op::ALL.into_iter().flat_map(|op| {
        let sizes = [1, 2, 3, 5]
            .into_iter()
            .flat_map(|ranks| [0, 1, 7, 200].map(|count| (ranks, count)));
        sizes.map(move |(ranks, count)| world(op, ranks, count))
    })
}

fn blocks(plan: &Plan) -> impl Iterator<Item = (usize, &BlockPlan)> {
    (0..plan.spec().streams)
        .flat_map(|stream| plan.blocks(stream).iter().map(move |block| (stream, block)))
}

/// Sizes of what `from` sends to `to` on a stream, or of what `to` receives from `from`.
fn link(plan: &Plan, stream: usize, direction: Direction, peer: u32, neighbour: u32) -> Vec<usize> {
    let transfers = plan
        .blocks(stream)
        .iter()
        .flat_map(|block| &block.transfers[direction as usize]);
    let on_link = transfers.filter(|t| t.peer.unwrap_or(neighbour) == peer);
    on_link.map(|t| t.span.len).collect()
}

#[test]
fn both_ends_of_a_link_agree() {
    for plans in worlds() {
        let ranks = plans[0].spec().ranks;
        for (from, to, stream) in
            (0..ranks).flat_map(|a| (0..ranks).flat_map(move |b| (0..3).map(move |s| (a, b, s))))
        {
            let (sender, receiver) = (&plans[from as usize], &plans[to as usize]);
            let sent = link(sender, stream, Direction::Send, to, (from + 1) % ranks);
            let received = link(
                receiver,
                stream,
                Direction::Receive,
                from,
                (to + ranks - 1) % ranks,
            );
            assert_eq!(
                sent,
                received,
                "{from} to {to} on {stream}: {:?}",
                sender.spec()
            );
        }
    }
}

#[test]
fn every_byte_of_the_output_is_made_once() {
    for plan in worlds().flatten() {
        let mut made = vec![0; plan.output_len()];
        let receives = blocks(&plan).flat_map(|(_, b)| b.transfers[0].iter().map(|t| t.span));
        let copies = blocks(&plan).flat_map(|(_, b)| {
            b.lanes[0].iter().filter_map(|step| match step {
                Step::Copy { dst, .. } => Some(*dst),
                _ => None,
            })
        });
        for span in receives
            .chain(copies)
            .filter(|span| span.region == Region::Output)
        {
            made[span.offset..span.offset + span.len]
                .iter_mut()
                .for_each(|times| *times += 1);
        }
        assert!(made.iter().all(|times| *times == 1), "{:?}", plan.spec());
    }
}

/// What the soundness of the device's copies rests on: nothing is received into twice, source and target of a copy or
/// reduction lie in different regions, and what the library fills is touched by the device only after a wait.
#[test]
fn lent_spans_are_left_alone() {
    for plan in worlds().flatten() {
        let mut taken: Vec<_> = blocks(&plan)
            .flat_map(|(_, block)| block.transfers[0].iter().map(|t| t.span))
            .filter(|span| span.len > 0)
            .collect();
        taken.sort_by_key(|span| (span.region as usize, span.offset));
        let apart = |a: &Span, b: &Span| a.region != b.region || a.offset + a.len <= b.offset;
        assert!(
            taken.windows(2).all(|pair| apart(&pair[0], &pair[1])),
            "{:?}",
            plan.spec()
        );
        for step in blocks(&plan).flat_map(|(_, block)| block.lanes.iter().flatten()) {
            if let Step::Copy { src, dst } | Step::Reduce { src, dst } = step {
                assert!(src.region != dst.region && src.len == dst.len, "{step:?}");
            }
        }
    }
}

/// Walks a lane: posts rise, stay within the window of the completions waited for, and end with all of them seen.
#[test]
fn posts_stay_in_the_window() {
    for plan in worlds().flatten().chain(long_plans()) {
        for (_, block) in blocks(&plan) {
            for direction in Direction::BOTH {
                let entries = block.transfers[direction as usize].len() as u32;
                let lane = &block.lanes[direction as usize];
                assert_eq!(walk(lane, direction, entries), (entries, entries));
            }
        }
    }
}

/// Plans with blocks of more entries than the index word can count.
fn long_plans() -> Vec<Plan> {
    Op::ALL
        .into_iter()
        .flat_map(|op| world(op, 2, 9001))
        .collect()
}

/// Posted and completed entries at the end of a lane of `entries`.
fn walk(lane: &[Step], direction: Direction, entries: u32) -> (u32, u32) {
    let own = [Semaphore::Receive, Semaphore::Send][direction as usize];
    let mut waits = lane.iter().filter_map(|step| match *step {
        Step::Wait { semaphore, total } if semaphore == own => Some(total),
        _ => None,
    });
    // The last wait is for all entries: so much the semaphore holds when none is completed.
    let base = waits.next_back().map(|total| total - entries);
    let (mut posted, mut completed, mut open) = (0, 0, false);
    for step in lane {
        match *step {
            Step::Wait { semaphore, total } => {
                // The first wait is the handshake: of a ring at the base itself, of a mesh on another word.
                open = true;
                if semaphore == own {
                    completed = total - base.expect("an own wait");
                }
                assert!(completed <= posted, "waits for what is not posted");
            }
            Step::Post { total } => {
                assert!(open, "posts before the handshake");
                assert!(
                    total > posted && total - completed <= WINDOW,
                    "{total} after {completed}"
                );
                posted = total;
            }
            Step::Ready | Step::Follow { .. } | Step::Copy { .. } | Step::Reduce { .. } => {}
        }
    }
    (posted, completed)
}

#[test]
fn totals_are_handshakes_and_completions() {
    let plan = Plan::new(&spec(Op::AllReduce, 2, 0, 8)).expect("a plan");
    // Two blocks, each with one chunk per phase and direction.
    assert_eq!(plan.totals(0), [0, 2 * (1 + 2), 2 * (WINDOW + 2)]);
    let plan = Plan::new(&spec(Op::Permute, 2, 0, 8)).expect("a plan");
    assert_eq!(plan.totals(0), [2 * (WINDOW + 1), 2, 2]);
    let alone = Plan::new(&spec(Op::AllReduce, 1, 0, 8)).expect("a plan");
    assert_eq!(alone.totals(0), [0; 3]);
}

#[test]
fn ring_of_two_step_by_step() {
    let one = PlanSpec {
        streams: 1,
        blocks: 1,
        ..spec(Op::AllReduce, 2, 0, 4)
    };
    let plan = Plan::new(&one).expect("a plan");
    let block = &plan.blocks(0)[0];
    let span = |region, offset| Span {
        region,
        offset,
        len: 4,
    };
    let wait = |semaphore, total| Step::Wait { semaphore, total };
    // Rank 0 owns elements 0 and 1: it sends the others, receives and sums its own, then passes the sums on.
    assert_eq!(
        block.lanes[0],
        [
            Step::Ready,
            wait(Semaphore::Receive, 1),
            Step::Post { total: 2 },
            wait(Semaphore::Receive, 2),
            Step::Reduce {
                src: span(Region::Input, 0),
                dst: span(Region::Stage, 0)
            },
            Step::Copy {
                src: span(Region::Stage, 0),
                dst: span(Region::Output, 0)
            },
            wait(Semaphore::Receive, 3),
        ]
    );
    assert_eq!(
        block.lanes[1],
        [
            Step::Ready,
            wait(Semaphore::Send, 128),
            Step::Post { total: 1 },
            Step::Follow { steps: 6 },
            Step::Post { total: 2 },
            wait(Semaphore::Send, 130),
        ]
    );
    let sends: Vec<_> = block.transfers[1].iter().map(|t| (t.op, t.span)).collect();
    assert_eq!(
        sends,
        [(0, span(Region::Input, 4)), (1, span(Region::Output, 0))]
    );
}

#[test]
fn bad_specs_name_field_and_value() {
    let good = spec(Op::AllReduce, 2, 0, 4);
    let error = |spec: PlanSpec| Plan::new(&spec).expect_err("a bad spec").to_string();
    assert_eq!(
        error(PlanSpec { ranks: 0, ..good }),
        "ranks is 0, accepted: 1 to 1024"
    );
    assert_eq!(
        error(PlanSpec { rank: 2, ..good }),
        "rank is 2, accepted: 0 to 1"
    );
    assert_eq!(
        error(PlanSpec { streams: 5, ..good }),
        "streams is 5, accepted: 1 to 4"
    );
    assert_eq!(
        error(PlanSpec { blocks: 0, ..good }),
        "blocks is 0, accepted: 1 to 1024"
    );
    assert_eq!(
        error(PlanSpec {
            chunk_bytes: 1,
            ..good
        }),
        "chunk_bytes is 1, accepted: 2 to 2147483647"
    );
    assert!(
        error(PlanSpec {
            count: usize::MAX,
            ..good
        })
        .starts_with("count is 18446744073709551615, accepted: 0 to")
    );
}
