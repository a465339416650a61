//! The map of the house, read from the source: which file uses which, how many files stand in one folder, and in how many
//! folders the methods of one type stand.
//!
//! An edge is a path in the source, followed through re-exports to the file that defines the item. A file and the folder of
//! its own parts count as one. What a `mod.rs` lends to its own folder (`super`) is no edge between its files.
//! `cargo test --lib rooms -- --nocapture` prints the map.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;
use syn::{Attribute, Item, ItemImpl, ItemMod, ItemUse, Type, UseTree, Visibility};

/// The path of a module from the crate's root.
type Module = Vec<String>;

/// Files and folders in one folder, at most.
const FLAT: usize = 14;
/// Folders that have more, until their rooms are made: no number may grow.
const CROWDED: &[(&str, usize)] = &[];
/// Folders in which files still use each other in a circle.
const CIRCLES: &[&str] = &[];

#[derive(Default)]
struct Map {
    modules: BTreeSet<Module>,
    /// What a module re-exports: the name, and the path behind it.
    lends: BTreeMap<Module, BTreeMap<String, Module>>,
    /// Paths that a module names.
    named: BTreeMap<Module, BTreeSet<Module>>,
    /// Where the methods of a type stand.
    methods: BTreeMap<String, BTreeSet<Module>>,
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

/// The paths of a `use`, each with the name that it gives.
fn paths(tree: &UseTree, before: &[String], found: &mut Vec<(String, Module)>) {
    let with = |name: String| [before, &[name]].concat();
    match tree {
        UseTree::Path(path) => paths(&path.tree, &with(path.ident.to_string()), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().cloned().unwrap_or_default(), before.to_vec()));
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), with(name.ident.to_string()))),
        UseTree::Rename(rename) => found.push((rename.rename.to_string(), with(rename.ident.to_string()))),
        UseTree::Glob(_) => found.push(("*".to_owned(), before.to_vec())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| paths(tree, before, found)),
    }
}

struct Reader<'m> {
    map: &'m mut Map,
    at: Module,
}

impl Reader<'_> {
    /// A path of the source as one from the crate's root, if it begins at a module of the crate.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let first = path.first()?;
        let mut base = self.at.clone();
        let mut rest = path;
        match first.as_str() {
            "crate" => return Some(path[1..].to_vec()),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            // In this edition a path without a beginning is a crate, or a module of this file.
            child => {
                base.push(child.to_owned());
                if !self.map.modules.contains(&base) {
                    return None;
                }
                rest = &path[1..];
            }
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    fn names(&mut self, path: &[String]) {
        if let Some(path) = self.absolute(path) {
            self.map.named.entry(self.at.clone()).or_default().insert(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(ItemMod { attrs, .. }) | Item::Use(ItemUse { attrs, .. }) => attrs.as_slice(),
            Item::Fn(function) => &function.attrs,
            Item::Impl(block) => &block.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let mut found = Vec::new();
        paths(&item.tree, &[], &mut found);
        for (name, path) in found {
            if matches!(item.vis, Visibility::Inherited) {
                self.names(&path);
            } else if let Some(path) = self.absolute(&path) {
                self.map.lends.entry(self.at.clone()).or_default().insert(name, path);
            }
        }
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        if let (None, Type::Path(of)) = (&block.trait_, &*block.self_ty)
            && let Some(name) = of.path.segments.last()
        {
            let folder = self.at[..self.at.len() - 1].to_vec();
            self.map.methods.entry(name.ident.to_string()).or_default().insert(folder);
        }
        syn::visit::visit_item_impl(self, block);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if parts.len() > 1 {
            self.names(&parts);
        }
        syn::visit::visit_path(self, path);
    }
}

/// The file of a module of this folder.
fn file_of(folder: &Path, name: &str) -> Option<PathBuf> {
    [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")]
        .into_iter()
        .find(|file| file.exists())
}

fn modules(file: &Path, folder: &Path, at: &Module, found: &mut Vec<(Module, syn::File)>) {
    let parsed = syn::parse_file(&fs::read_to_string(file).unwrap()).unwrap();
    for item in &parsed.items {
        let Item::Mod(ItemMod { ident, content: None, attrs, .. }) = item else { continue };
        if is_test(attrs) {
            continue;
        }
        let name = ident.to_string();
        let child = file_of(folder, &name).unwrap_or_else(|| panic!("{} has no {name}", folder.display()));
        modules(&child, &folder.join(&name), &[at.as_slice(), std::slice::from_ref(&name)].concat(), found);
    }
    found.push((at.clone(), parsed));
}

impl Map {
    fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut files = Vec::new();
        modules(&root.join("lib.rs"), &root, &Vec::new(), &mut files);
        let mut map = Self { modules: files.iter().map(|(at, _)| at.clone()).collect(), ..Self::default() };
        for (at, file) in files {
            Reader { map: &mut map, at }.visit_file(&file);
        }
        map
    }

    /// The module in which an item is defined.
    fn home(&self, path: &[String], hops: usize) -> Option<Module> {
        let at =
            (0..=path.len()).rev().map(|length| &path[..length]).find(|at| self.modules.contains(*at))?;
        let lent = path.get(at.len()).and_then(|name| self.lends.get(at)?.get(name));
        match lent.filter(|_| hops > 0) {
            Some(behind) => self.home(&[behind, &path[at.len() + 1..]].concat(), hops - 1),
            None => Some(at.to_vec()),
        }
    }

    fn folders(&self) -> BTreeMap<Module, BTreeSet<String>> {
        let mut folders: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
        for module in self.modules.iter().filter(|module| !module.is_empty()) {
            let (name, folder) = module.split_last().unwrap();
            folders.entry(folder.to_vec()).or_default().insert(name.clone());
        }
        folders
    }

    /// Which child of a folder uses which.
    fn edges(&self, folder: &Module) -> BTreeMap<String, BTreeSet<String>> {
        let child = |module: &Module| module.strip_prefix(folder.as_slice())?.first().cloned();
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (user, named) in &self.named {
            let Some(from) = child(user) else { continue };
            for to in named.iter().filter_map(|path| child(&self.home(path, 8)?)) {
                if to != from {
                    edges.entry(from.clone()).or_default().insert(to);
                }
            }
        }
        edges
    }

    /// Children of a folder that use each other, by whatever way.
    fn circle(&self, folder: &Module) -> BTreeSet<String> {
        let mut edges = self.edges(folder);
        // A file that uses nothing that is left, or is used by nothing that is left, is in no circle.
        loop {
            let used: BTreeSet<String> = edges.values().flatten().cloned().collect();
            let before = edges.len();
            let left: BTreeSet<String> = edges.keys().filter(|from| used.contains(*from)).cloned().collect();
            edges.retain(|from, to| {
                to.retain(|to| left.contains(to));
                left.contains(from) && !to.is_empty()
            });
            if edges.len() == before {
                return edges.into_keys().collect();
            }
        }
    }
}

fn text(module: &[String]) -> String {
    module.join("/")
}

#[test]
fn the_map_of_the_rooms() {
    let map = Map::read();
    let folders = map.folders();
    assert!(folders.len() > 40, "only {} folders were found: does the search still work?", folders.len());
    let mut wrong = Vec::new();
    for (folder, children) in &folders {
        let name = text(folder);
        let circle = map.circle(folder);
        println!(
            "src/{name}: {} files and folders{}",
            children.len(),
            if circle.is_empty() { "" } else { ", a circle" }
        );
        let most = CROWDED.iter().find(|(crowded, _)| *crowded == name).map_or(FLAT, |(_, most)| *most);
        if children.len() > most {
            wrong.push(format!("src/{name} has {} files and folders, more than {most}", children.len()));
        }
        if !circle.is_empty() && !CIRCLES.contains(&name.as_str()) {
            wrong.push(format!("these of src/{name} use each other in a circle: {circle:?}"));
        }
    }
    let listed = CIRCLES.iter().filter(|folder| {
        let folder: Module = folder.split('/').map(str::to_owned).collect();
        map.circle(&folder).is_empty()
    });
    wrong.extend(listed.map(|folder| format!("src/{folder} has no circle any more: take it off the list")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_path_is_followed_to_the_file_that_defines_it() {
    let map = Map::read();
    let home = |path: &str| {
        let path: Module = path.split("::").map(str::to_owned).collect();
        map.home(&path, 8).map(|module| text(&module))
    };
    assert_eq!(home("cluster::Applied::new").as_deref(), Some("cluster/objects/handle"));
    assert_eq!(home("manifest::managed_fields::Holder").as_deref(), Some("manifest/managed_fields/others"));
    assert_eq!(home("api::names::APPLIED").as_deref(), Some("api/names"));
}
