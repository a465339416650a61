//! What was read or parsed once and may be wanted again: bounded in number and in weight, the least recently used goes first.

use std::borrow::Borrow;
use std::hash::Hash;

use lru::LruCache;

/// A bounded map. What was put last stays, however heavy it is: its user has it in memory anyway.
pub struct WeightedLru<K, V> {
    entries: LruCache<K, (V, usize)>,
    weight: usize,
    max_entries: usize,
    max_weight: usize,
}

impl<K: Hash + Eq, V> WeightedLru<K, V> {
    /// An empty one for so many entries, which weigh so much together; the unit of weight is the caller's.
    #[must_use]
    pub fn new(max_entries: usize, max_weight: usize) -> Self {
        Self { entries: LruCache::unbounded(), weight: 0, max_entries, max_weight }
    }

    /// The value of a key, which counts as used now.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(value, _)| value)
    }

    /// The value of a key, which does not count as used.
    #[must_use]
    pub fn peek<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.entries.peek(key).map(|(value, _)| value)
    }

    /// Keeps a value in place of the one with the same key; gives what went for it.
    pub fn put(&mut self, key: K, value: V, weight: usize) -> Vec<(K, V)> {
        self.remove(&key);
        self.weight += weight;
        self.entries.put(key, (value, weight));
        let mut gone = Vec::new();
        while self.entries.len() > self.max_entries
            || (self.weight > self.max_weight && self.entries.len() > 1)
        {
            let Some((key, (value, weight))) = self.entries.pop_lru() else { break };
            self.weight -= weight;
            gone.push((key, value));
        }
        gone
    }

    /// Takes a value out.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (value, weight) = self.entries.pop(key)?;
        self.weight -= weight;
        Some(value)
    }

    /// Drops the entries that `keep` does not name.
    pub fn retain(&mut self, keep: impl Fn(&K, &V) -> bool)
    where
        K: Clone,
    {
        let gone: Vec<K> =
            self.iter().filter(|(key, value)| !keep(key, value)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            self.remove(&key);
        }
    }

    /// All entries, the most recently used first.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, (value, _))| (key, value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cache: &WeightedLru<&'static str, ()>) -> Vec<&'static str> {
        cache.iter().map(|(key, ())| *key).collect()
    }

    #[test]
    fn the_least_recently_used_goes_first_for_number_and_for_weight() {
        let mut cache = WeightedLru::new(3, 100);
        for key in ["a", "b", "c"] {
            assert!(cache.put(key, (), 10).is_empty());
        }
        assert!(cache.get(&"a").is_some() && cache.peek(&"b").is_some());
        assert_eq!(cache.put("d", (), 10), [("b", ())], "to peek is no use");
        assert_eq!(cache.put("e", (), 85), [("c", ()), ("a", ())]);
        assert_eq!(keys(&cache), ["e", "d"]);
    }

    #[test]
    fn a_value_is_replaced_with_its_weight_and_what_is_too_heavy_stays_alone() {
        let mut cache = WeightedLru::new(3, 100);
        cache.put("a", (), 90);
        cache.put("a", (), 10);
        assert!(cache.put("b", (), 90).is_empty());
        assert_eq!(cache.put("c", (), 1000), [("a", ()), ("b", ())]);
        assert_eq!(keys(&cache), ["c"]);
        assert_eq!(cache.put("d", (), 100), [("c", ())]);
        cache.retain(|key, ()| *key != "d");
        assert!(cache.is_empty() && cache.put("e", (), 100).is_empty(), "what was dropped weighs nothing");
        assert_eq!((cache.remove(&"e"), cache.len()), (Some(()), 0));
    }
}
