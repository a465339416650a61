//! Where something stands: in a schema, and in the objects that the schema describes.

use std::fmt::Write as _;

/// One step into a schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'p> {
    /// The schema of a version, with its path in the definition.
    Root(&'p str),
    /// `properties.NAME`
    Property(&'p str),
    /// `items`
    Items,
    /// `additionalProperties`
    Values,
    /// `anyOf[2]`
    Branch(&'static str, usize),
    /// `not`
    Not,
}

/// A way through a schema, as a list that lives on the stack: it costs nothing until a message needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path<'p> {
    parent: Option<&'p Self>,
    step: Step<'p>,
}

impl<'p> Path<'p> {
    pub(super) fn root(text: &'p str) -> Self {
        Self { parent: None, step: Step::Root(text) }
    }

    pub(super) fn then<'c>(&'c self, step: Step<'c>) -> Path<'c>
    where
        'p: 'c,
    {
        Path { parent: Some(self), step }
    }

    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }

    /// `spec.versions[0].schema.openAPIV3Schema.properties.size`, and a keyword after it.
    pub(super) fn schema(&self, keyword: &str) -> String {
        let mut text = String::new();
        self.write_schema(&mut text);
        if !keyword.is_empty() {
            if !keyword.starts_with('[') {
                text.push('.');
            }
            text.push_str(keyword);
        }
        text
    }

    fn write_schema(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write_schema(out);
        }
        // Writing to a String cannot fail.
        let _ = match self.step {
            Step::Root(text) => out.write_str(text),
            Step::Property(name) => {
                out.push_str(".properties");
                push_key(out, name);
                Ok(())
            }
            Step::Items => out.write_str(".items"),
            Step::Values => out.write_str(".additionalProperties"),
            Step::Branch(word, index) => write!(out, ".{word}[{index}]"),
            Step::Not => out.write_str(".not"),
        };
    }

    /// Where the objects have what this part of the schema is about.
    ///
    /// Ends above `anyOf`, `oneOf` and `not`: whether an object satisfies them is said of the value as a whole.
    pub(super) fn field(&self) -> Field {
        let mut field = Field::default();
        self.write_field(&mut field);
        field
    }

    fn write_field(&self, out: &mut Field) -> bool {
        if self.parent.is_some_and(|parent| !parent.write_field(out)) {
            return false;
        }
        match self.step {
            Step::Root(_) | Step::Branch("allOf", _) => true,
            Step::Property(name) => {
                out.0.push(Part::Key(name.to_owned()));
                true
            }
            Step::Items | Step::Values => {
                out.0.push(Part::Each);
                true
            }
            Step::Branch(..) | Step::Not => false,
        }
    }
}

/// One step into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// A field.
    Key(String),
    /// An item of a list, by its number.
    Index(usize),
    /// Every item of a list, or every value of a map.
    Each,
}

/// A place in an object, or with `Part::Each` many places: `.spec.ports[*].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field(pub(super) Vec<Part>);

impl Field {
    pub(super) fn with(mut self, name: &str) -> Self {
        self.0.push(Part::Key(name.to_owned()));
        self
    }

    /// Whether `place`, which names one place, is this one or inside of it.
    pub(super) fn holds(&self, place: &Self) -> bool {
        self.0.len() <= place.0.len()
            && self
                .0
                .iter()
                .zip(&place.0)
                .all(|(wanted, found)| matches!(wanted, Part::Each) || wanted == found)
    }
}

impl std::fmt::Display for Field {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the object");
        }
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Key(name) => push_key(&mut text, name),
                Part::Index(index) => {
                    let _ = write!(text, "[{index}]");
                }
                Part::Each => text.push_str("[*]"),
            }
        }
        f.write_str(&text)
    }
}

/// `.name`, or `["name.with.dots"]`.
fn push_key(out: &mut String, name: &str) {
    let plain = !name.is_empty()
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-' || c == b'$');
    // Writing to a String cannot fail.
    let _ = if plain { write!(out, ".{name}") } else { write!(out, "[{name:?}]") };
}

/// A key in a path: `.name` or `["a.b"]`.
pub(super) fn key(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 1);
    push_key(&mut out, name);
    out
}
