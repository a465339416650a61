//! What differs, and the text of it.

use serde::Serialize;
use serde_json::Value;

use crate::crd::text::{Colour, entry, printable};

/// Everything that was found. Nothing was written for it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) release: String,
    pub(super) namespace: String,
    /// The revision that is compared.
    pub(super) from: u32,
    /// The one that it is compared with; unset: with what is in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<u32>,
    pub(super) differs: bool,
    /// Those that differ.
    pub(super) objects: Vec<ObjectLine>,
    /// How far it can be trusted.
    pub(super) notes: Vec<String>,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum What {
    /// Only the later revision has it.
    Added,
    /// Only the earlier revision has it.
    Removed,
    Changed,
    /// It is not in the cluster.
    Gone,
    /// It is being deleted.
    Leaving,
    /// The API server does not serve its kind.
    Unserved,
}

/// An object that differs.
#[derive(Debug, Serialize)]
pub(super) struct ObjectLine {
    pub(super) object: String,
    pub(super) what: What,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<Change>,
}

/// A field that differs; a side is unset where there is no such field.
#[derive(Debug, Serialize)]
pub(super) struct Change {
    pub(super) path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) old: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) new: Option<Value>,
    /// The field manager that has it now, as far as managedFields tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) manager: Option<String>,
}

impl Report {
    /// Empty when nothing differs.
    pub(super) fn text(&self, colour: Colour) -> String {
        let lines = self.objects.iter().map(|line| match self.to {
            None => line.drift(colour),
            Some(_) => line.revisions(colour),
        });
        lines.collect::<Vec<_>>().join("")
    }
}

impl ObjectLine {
    fn drift(&self, colour: Colour) -> String {
        let (mark, object) = (colour.paint("1;31", "DRIFT:"), printable(&self.object));
        let happened = match self.what {
            What::Gone => "is gone: it would be created again".to_owned(),
            What::Leaving => "is being deleted: it would be created again".to_owned(),
            What::Unserved => {
                "is gone with its kind, which the API server does not serve any more".to_owned()
            }
            What::Changed | What::Added | What::Removed => {
                let mut managers: Vec<&str> =
                    self.changes.iter().filter_map(|change| change.manager.as_deref()).collect();
                managers.sort_unstable();
                managers.dedup();
                match managers[..] {
                    [] => "was changed in the cluster".to_owned(),
                    _ => printable(&format!("was changed in the cluster by {}", managers.join(", "))),
                }
            }
        };
        let mut out = format!("{mark} {object} {happened}\n");
        self.fields(colour, &mut out);
        out
    }

    fn revisions(&self, colour: Colour) -> String {
        let (sign, code) = match self.what {
            What::Added => ("+", "32"),
            What::Removed => ("-", "31"),
            What::Changed | What::Gone | What::Leaving | What::Unserved => ("~", "33"),
        };
        let mut out = format!("{} {}\n", colour.paint(code, sign), printable(&self.object));
        self.fields(colour, &mut out);
        out
    }

    fn fields(&self, colour: Colour, out: &mut String) {
        for Change { path, old, new, .. } in &self.changes {
            let path = if path.is_empty() { "/" } else { path };
            entry(path, (old.as_ref(), new.as_ref()), "", colour, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(to: Option<u32>, objects: Vec<ObjectLine>) -> Report {
        let (release, namespace) = ("web".to_owned(), "apps".to_owned());
        Report { release, namespace, from: 3, to, differs: !objects.is_empty(), objects, notes: Vec::new() }
    }

    fn line(object: &str, what: What, changes: Vec<Change>) -> ObjectLine {
        ObjectLine { object: object.to_owned(), what, changes }
    }

    fn change(path: &str, old: Value, new: Value, manager: Option<&str>) -> Change {
        let side = |value: Value| (!value.is_null()).then_some(value);
        Change { path: path.to_owned(), old: side(old), new: side(new), manager: manager.map(str::to_owned) }
    }

    #[test]
    fn drift_is_marked_with_who_did_it() {
        let red = change("/data/color", json!("blue"), json!("red"), Some("kubectl-edit"));
        let size = change("/data/size", json!("big"), Value::Null, None);
        let found = report(
            None,
            vec![
                line("ConfigMap apps/a", What::Changed, vec![red, size]),
                line("ConfigMap apps/b", What::Gone, Vec::new()),
                line("ConfigMap apps/c", What::Changed, Vec::new()),
            ],
        );
        let expected = "\
DRIFT: ConfigMap apps/a was changed in the cluster by kubectl-edit
  ~ /data/color:
      - \"blue\"
      + \"red\"

  - /data/size:
      \"big\"

DRIFT: ConfigMap apps/b is gone: it would be created again
DRIFT: ConfigMap apps/c was changed in the cluster
";
        assert_eq!(found.text(Colour::No), expected);
        assert!(found.text(Colour::Yes).starts_with("\u{1b}[1;31mDRIFT:\u{1b}[0m ConfigMap"));
        assert_eq!(report(None, Vec::new()).text(Colour::No), "");
    }

    #[test]
    fn of_two_revisions_the_lines_that_differ_are_shown() {
        let text = change("/data/app.conf", json!("a\nb\nc\n"), json!("a\nB\nc\n"), None);
        let found = report(
            Some(5),
            vec![
                line("ConfigMap apps/a", What::Added, Vec::new()),
                line("ConfigMap apps/b", What::Removed, Vec::new()),
                line("ConfigMap apps/c", What::Changed, vec![text]),
            ],
        );
        let expected = "\
+ ConfigMap apps/a
- ConfigMap apps/b
~ ConfigMap apps/c
  ~ /data/app.conf:
        a
      - b
      + B
        c

";
        assert_eq!(found.text(Colour::No), expected);
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!((&json["from"], &json["to"], &json["differs"]), (&json!(3), &json!(5), &json!(true)));
        assert_eq!(json["objects"][0], json!({"object": "ConfigMap apps/a", "what": "added"}));
    }
}
