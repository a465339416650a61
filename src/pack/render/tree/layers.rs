//! When the packs that take part have their turn: a pack inside before the pack around it.

use std::collections::{BTreeMap, BTreeSet};

use crate::pack::render::of_pack;

/// By the folder of each pack: empty, or `charts/db/`.
#[derive(Debug, Default)]
pub(super) struct Layers(BTreeMap<String, u32>);

impl Layers {
    /// Adds a pack when those inside of it are there. It comes after some of them. Those beside it begin with it, and all that is
    /// inside of them comes not before: it does not wait for any of that.
    pub(super) fn add(&mut self, folder: &str, after: &[String], beside: &[String]) {
        let of = |folder: &String| self.0.get(folder).copied().unwrap_or(0);
        let own = after.iter().map(|folder| of(folder) + 1).max().unwrap_or(0);
        for beside in beside {
            let inside = self.0.range_mut(beside.clone()..);
            inside.take_while(|(folder, _)| folder.starts_with(beside)).for_each(|(_, layer)| *layer += own);
        }
        self.0.insert(folder.to_owned(), own);
    }

    /// The layers that these files are in, without gaps.
    pub(super) fn done<'f>(mut self, files: impl Iterator<Item = &'f String>) -> BTreeMap<String, u32> {
        let used: BTreeSet<u32> = files.filter_map(|file| of_pack(&self.0, file)).copied().collect();
        for layer in self.0.values_mut() {
            *layer = u32::try_from(used.range(..*layer).count()).unwrap_or(u32::MAX);
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(layers: Layers, files: &[&str]) -> Vec<(String, u32)> {
        let files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        layers.done(files.iter()).into_iter().collect()
    }

    fn folders(of: &[&str]) -> Vec<String> {
        of.iter().map(|folder| (*folder).to_owned()).collect()
    }

    #[test]
    fn a_pack_comes_after_those_inside_of_it_and_beside_what_it_does_not_wait_for() {
        let mut layers = Layers::default();
        layers.add("charts/api/charts/db/", &[], &[]);
        layers.add("charts/api/", &folders(&["charts/api/charts/db/"]), &[]);
        layers.add("charts/cache/", &[], &[]);
        layers.add("charts/logs/charts/agent/", &[], &[]);
        layers.add("charts/logs/", &folders(&["charts/logs/charts/agent/"]), &[]);
        layers.add("", &folders(&["charts/api/", "charts/cache/"]), &folders(&["charts/logs/"]));
        let all = [
            "charts/api/charts/db/a",
            "charts/api/a",
            "charts/cache/a",
            "a",
            "charts/logs/charts/agent/a",
            "charts/logs/a",
        ];
        let expected = [
            ("", 2),
            ("charts/api/", 1),
            ("charts/api/charts/db/", 0),
            ("charts/cache/", 0),
            ("charts/logs/", 3),
            ("charts/logs/charts/agent/", 2),
        ];
        assert_eq!(done(layers, &all), expected.map(|(folder, layer)| (folder.to_owned(), layer)));
    }

    #[test]
    fn layers_without_anything_in_them_do_not_count() {
        let mut layers = Layers::default();
        layers.add("charts/api/charts/db/", &[], &[]);
        layers.add("charts/api/", &folders(&["charts/api/charts/db/"]), &[]);
        layers.add("", &folders(&["charts/api/"]), &[]);
        let found = done(layers, &["charts/api/charts/db/crds/a.yaml", "templates/a.yaml"]);
        let layer = |folder: &str| found.iter().find(|(of, _)| of == folder).unwrap().1;
        assert_eq!((layer("charts/api/charts/db/"), layer("")), (0, 1));
    }
}
