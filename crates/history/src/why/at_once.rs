//! The same work on several things at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many are worked on at once.
const AT_ONCE: usize = 4;

/// What comes of each, in their order.
pub fn at_once<K: Sync, R: Send>(all: &[K], work: impl Fn(&K) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let worker = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(one) = all.get(number) else { break };
        let result = work(one);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
    };
    std::thread::scope(|scope| {
        for _ in 1..all.len().min(AT_ONCE) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
