//! From a place in a rewritten template back to the place as it was written.

use std::ops::Range;

/// Where the parts of a rewritten template come from, in the order of their offsets.
#[derive(Default)]
pub(in crate::pack::render) struct Places(Vec<Part>);

struct Part {
    /// Offset after the rewrite.
    at: usize,
    /// Offset before it.
    from: usize,
    /// Put in, for an expression that starts here.
    of: Option<usize>,
}

impl Places {
    /// From offset `at` on there is what stood at `from`, or what was put in there for the expression that starts at `of`.
    pub(super) fn note(&mut self, at: usize, from: usize, of: Option<usize>) {
        self.0.push(Part { at, from, of });
    }

    /// The range before the rewrite. One that starts in a guard is that of the expression that it guards.
    pub(in crate::pack::render) fn before(&self, range: &Range<usize>) -> Range<usize> {
        let place = |offset: usize, in_guard: fn(&Part) -> Option<usize>| {
            let part = self.0[..self.0.partition_point(|part| part.at <= offset)].last();
            part.map_or(0, |part| in_guard(part).unwrap_or(part.from + (offset - part.at)))
        };
        let start = place(range.start, |part| part.of);
        start..place(range.end, |part| part.of.map(|_| part.from)).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_where_it_was_put() {
        // "ab" becomes "xxaYYb".
        let mut places = Places::default();
        places.note(2, 0, None);
        places.note(3, 1, Some(0));
        places.note(5, 1, None);
        assert_eq!([0, 2, 3, 4, 5, 6].map(|at| places.before(&(0..at)).end), [0, 0, 1, 1, 1, 2]);
        assert_eq!([0, 2, 3, 4, 5, 6].map(|at| places.before(&(at..6)).start), [0, 0, 0, 0, 1, 2]);
    }
}
