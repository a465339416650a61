//! `files`: the files of the pack, for templates.

use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr, Value};
use minijinja::{Error, ErrorKind, State};

use crate::pack::render::budget::wrong;
use crate::pack::render::budget::{Budget, NODE};
use crate::pack::{Files, Pack};

/// Bytes of a pattern for `files.glob`, and of a path.
const PATTERN: usize = 1024;
/// Files that one `files.glob` gives.
const MATCHES: usize = 2_000;

/// Everything below the root of the pack, as the archive has it: nothing else can be named.
#[derive(Debug)]
pub(in crate::pack::render) struct FilesOf {
    files: Arc<Files>,
    budget: Arc<Budget>,
}

impl FilesOf {
    pub(in crate::pack::render) fn of(pack: &Pack, budget: &Arc<Budget>) -> Value {
        Value::from_object(Self { files: Arc::clone(&pack.files), budget: Arc::clone(budget) })
    }

    fn bytes(&self, path: &str) -> Result<&[u8], Error> {
        match self.find(path) {
            Some(path) => Ok(self.files.get(&path).map_or(&[], Vec::as_slice)),
            None if path.starts_with('/') => {
                Err(wrong(format!("files: `{path}` is absolute: a path is relative to the root of the pack")))
            }
            None => Err(wrong(format!("files: the pack has no file `{path}`"))),
        }
    }

    /// The path as the pack has it: without `.`, and without `..` that stays below the root.
    fn find(&self, path: &str) -> Option<String> {
        if path.len() > PATTERN || path.starts_with('/') {
            return None;
        }
        let mut parts = Vec::new();
        for part in path.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                _ => parts.push(part),
            }
        }
        let path = parts.join("/");
        self.files.contains_key(&path).then_some(path)
    }

    /// Whether there is such a file, or a directory.
    fn exists(&self, path: &str) -> bool {
        let below = format!("{}/", path.trim_end_matches('/'));
        self.find(path).is_some()
            || !path.starts_with('/')
                && self
                    .files
                    .range(below.clone()..)
                    .next()
                    .is_some_and(|(found, _)| found.starts_with(&below))
    }

    fn text(&self, path: &str) -> Result<&str, Error> {
        let bytes = self.bytes(path)?;
        self.budget.string(bytes.len() as u64)?;
        std::str::from_utf8(bytes).map_err(|_| {
            wrong(format!("files: `{path}` is not UTF-8 text: use `files.get_bytes(..) | b64encode`"))
        })
    }

    fn glob(&self, pattern: &str) -> Result<Value, Error> {
        if pattern.len() > PATTERN {
            return Err(self.budget.over(format!("a pattern is longer than {PATTERN} bytes")));
        }
        let pattern = Pattern::new(pattern)?;
        let mut found = Vec::new();
        for (path, content) in self.files.iter() {
            self.budget.steps(1 + (path.len() * (1 + pattern.0.len() / 8)) as u64)?;
            if !pattern.matches(path) {
                continue;
            }
            if found.len() == MATCHES {
                return Err(self.budget.over(format!("`files.glob` finds more than {MATCHES} files")));
            }
            self.budget.bytes(8 * NODE)?;
            self.budget.string(content.len() as u64)?;
            let text = String::from_utf8_lossy(content);
            found.push(Value::from_pairs([
                ("path", Value::from(path.as_str())),
                ("name", Value::from(path.rsplit('/').next().unwrap_or(path))),
                ("size", Value::from(text.len())),
                ("content", Value::from(text)),
            ]));
        }
        Ok(Value::from(found))
    }
}

impl Object for FilesOf {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        if !["get", "get_bytes", "exists", "glob", "lines"].contains(&method) {
            return Err(Error::new(
                ErrorKind::UnknownMethod,
                format!("`files` has get, get_bytes, exists, glob and lines, not `{method}`"),
            ));
        }
        let [path] = args else {
            return Err(wrong(format!("files.{method} takes one path")));
        };
        self.budget.defined(path)?;
        let Some(path) = path.as_str() else {
            return Err(wrong(format!("files.{method} takes a path, not a {}", path.kind())));
        };
        self.budget.steps(16 + path.len() as u64)?;
        match method {
            "get" => Ok(Value::from(self.text(path)?)),
            "get_bytes" => {
                let bytes = self.bytes(path)?;
                self.budget.string(bytes.len() as u64)?;
                Ok(Value::from_bytes(bytes.to_vec()))
            }
            "exists" => Ok(Value::from(self.exists(path))),
            "glob" => self.glob(path),
            _ => {
                let mut lines = Vec::new();
                for line in self.text(path)?.lines() {
                    self.budget.bytes(NODE)?;
                    lines.push(Value::from(line));
                }
                Ok(Value::from(lines))
            }
        }
    }
}

/// A glob over a whole path: `*` and `?` match `/` too, `**` any number of directories, `[a-z]` and `[!a-z]` one character.
struct Pattern(Vec<Part>);

enum Part {
    Is(char),
    One,
    Many,
    /// `**/`: nothing, or directories.
    Directories,
    Of {
        ranges: Vec<(char, char)>,
        not: bool,
    },
}

impl Pattern {
    fn new(text: &str) -> Result<Self, Error> {
        let chars: Vec<char> = text.chars().collect();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < chars.len() {
            match chars[at] {
                '?' => parts.push(Part::One),
                '*' => {
                    let stars = chars[at..].iter().take_while(|c| **c == '*').count();
                    let starts = at == 0 || chars[at - 1] == '/';
                    let next = chars.get(at + stars);
                    match stars {
                        1 => parts.push(Part::Many),
                        2 if starts && next == Some(&'/') => {
                            parts.push(Part::Directories);
                            at += 1;
                        }
                        2 if starts && next.is_none() => parts.push(Part::Many),
                        2 => return Err(wrong("files.glob: `**` is a whole part of a path")),
                        _ => return Err(wrong("files.glob: `***` is no pattern")),
                    }
                    at += stars - 1;
                }
                '[' => {
                    let not = chars.get(at + 1) == Some(&'!');
                    let from = at + 1 + usize::from(not);
                    // A `]` that comes first stands for itself.
                    let length = chars.iter().skip(from + 1).position(|c| *c == ']');
                    let Some(length) = length else { return Err(wrong("files.glob: a `[` is not closed")) };
                    parts.push(Part::Of { ranges: ranges(&chars[from..=from + length]), not });
                    at = from + length + 1;
                }
                other => parts.push(Part::Is(other)),
            }
            at += 1;
        }
        Ok(Self(parts))
    }

    /// Remembers all places of the pattern that the path so far may be at, so no pattern takes more than its length for
    /// each character.
    fn matches(&self, path: &str) -> bool {
        let mut at = vec![false; self.0.len() + 1];
        self.reach(0, true, &mut at);
        for c in path.chars() {
            let mut next = vec![false; self.0.len() + 1];
            for (index, part) in self.0.iter().enumerate().filter(|(index, _)| at[*index]) {
                let to = match part {
                    Part::Is(wanted) => (*wanted == c).then_some(index + 1),
                    Part::One => Some(index + 1),
                    Part::Of { ranges, not } => {
                        let within = ranges.iter().any(|(from, to)| (*from..=*to).contains(&c));
                        (within != *not).then_some(index + 1)
                    }
                    Part::Many | Part::Directories => Some(index),
                };
                if let Some(to) = to {
                    self.reach(to, c == '/', &mut next);
                }
            }
            at = next;
        }
        at[self.0.len()]
    }

    /// Marks a place, and those that it leads to without another character.
    fn reach(&self, index: usize, after_slash: bool, at: &mut [bool]) {
        if std::mem::replace(&mut at[index], true) {
            return;
        }
        match self.0.get(index) {
            Some(Part::Many) => self.reach(index + 1, after_slash, at),
            Some(Part::Directories) if after_slash => self.reach(index + 1, after_slash, at),
            _ => {}
        }
    }
}

fn ranges(chars: &[char]) -> Vec<(char, char)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if chars.get(at + 1) == Some(&'-') && at + 2 < chars.len() {
            ranges.push((chars[at], chars[at + 2]));
            at += 3;
        } else {
            ranges.push((chars[at], chars[at]));
            at += 1;
        }
    }
    ranges
}
