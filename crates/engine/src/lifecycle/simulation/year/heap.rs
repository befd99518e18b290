//! Counts the bytes that a thread has allocated. A simulation and its daemons run on one thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

/// Bytes allocated by this thread and not freed by it.
pub(super) fn allocated() -> isize {
    ALLOCATED.get()
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(size: usize, sign: isize) {
    // A thread that ends may free memory after its counter.
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get() + sign * size.cast_signed()));
}

#[allow(unsafe_code, reason = "an allocator has no safe interface")]
// SAFETY: The system's allocator does everything; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: The caller's promises are those that it needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: As above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[test]
fn what_is_kept_counts() {
    let before = allocated();
    let kept = vec![0_u8; 1 << 20];
    assert!(allocated() - before >= 1 << 20);
    drop(kept);
    assert!(allocated() - before < 1 << 10);
}
