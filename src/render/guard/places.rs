//! From a place in a rewritten template back to the place as it was written.

/// Where the parts of a rewritten template come from, in the order of their offsets.
#[derive(Default)]
pub(in crate::render) struct Places(Vec<Part>);

struct Part {
    /// Offset after the rewrite.
    at: usize,
    /// Offset before it.
    from: usize,
    /// As it was; else put in.
    copied: bool,
}

impl Places {
    /// From offset `at` on there is what stood at `from`, or what was put in there.
    pub(super) fn note(&mut self, at: usize, from: usize, copied: bool) {
        self.0.push(Part { at, from, copied });
    }

    /// The offset before the rewrite.
    pub(in crate::render) fn before(&self, offset: usize) -> usize {
        let Some(part) = self.0[..self.0.partition_point(|part| part.at <= offset)].last() else { return 0 };
        if part.copied { part.from + (offset - part.at) } else { part.from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_where_it_was_put() {
        // "ab" becomes "xxaYYb".
        let mut places = Places::default();
        places.note(2, 0, true);
        places.note(3, 1, false);
        places.note(5, 1, true);
        assert_eq!([0, 2, 3, 4, 5, 6].map(|at| places.before(at)), [0, 0, 1, 1, 1, 2]);
    }
}
