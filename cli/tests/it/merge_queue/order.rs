//! Who is next.

use super::{Queue, names};

#[test]
fn i7_priority_goes_first_then_completion() {
    let queue = Queue::tested("true");
    for name in ["one", "two", "three"] {
        queue.branch(name, &[(name, name)]);
    }
    queue.enqueue("one");
    queue.enqueue("two");
    queue.env.pleach(&["merge", "enqueue", "three", "--priority", "5"]).expect(0);
    assert_eq!(queue.names(), ["three", "one", "two"]);
    queue.env.pleach(&["merge", "enqueue", "one", "--priority", "-1"]).expect(0);
    assert_eq!(queue.names(), ["three", "two", "one"]);
    assert_eq!(names(&queue.process(0)["landed"]), ["three", "two", "one"]);
}

#[test]
fn i7_nobody_is_passed_over_more_than_twice() {
    let queue = Queue::with("merge: {test_command: 'true', batch: 1, slots: 1}\n");
    queue.branch("last", &[("last", "")]);
    queue.env.pleach(&["merge", "enqueue", "last", "--priority", "-9"]).expect(0);
    for name in ["a", "b", "c", "d"] {
        queue.queued(name);
    }
    assert_eq!(names(&queue.process(0)["landed"]), ["a", "b", "last", "c", "d"]);
}

#[test]
fn what_conflicts_within_a_batch_waits_for_the_next() {
    let queue = Queue::tested("true");
    queue.line("upper", 5, "FIVE");
    queue.queued("one");
    queue.line("lower", 5, "five");
    let done = queue.process(5);
    assert_eq!((names(&done["landed"]), names(&done["open"])), (vec!["upper", "one"], vec!["lower"]));
}
