//! The threads that an operator runs on.

use std::io;
use std::num::NonZeroUsize;

use tokio::runtime::{Builder, Runtime};

/// Threads for what blocks: rendering, files, name resolution. Bounds memory; renders queue beyond it.
const BLOCKING: usize = 16;

/// A pass is a chain of many futures, and without optimisation they and their parts take more than a megabyte of stack: two
/// megabytes, the usual size, are too near to that. Only what is used of it is memory.
const STACK: usize = 8 << 20;

/// The runtime of an operator, with so many threads for what does not block.
///
/// # Errors
/// The system gives no more threads.
pub fn runtime(workers: NonZeroUsize) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(workers.get())
        .max_blocking_threads(BLOCKING)
        .thread_name("operator")
        .thread_stack_size(STACK)
        .enable_all()
        .build()
}
