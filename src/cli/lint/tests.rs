use clap::Parser as _;

use super::*;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// A directory that goes away with the value.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("sherpack-lint-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(root)
    }

    fn lint(&self) -> Vec<Finding> {
        let line = Line::parse_from(["lint", self.0.to_str().unwrap()]);
        lint(&line.args.render).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const PACK: &str = "apiVersion: sherpack/v1\nkind: application\nmetadata: {name: web, version: 1.0.0}\n";
const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
const CRD: &str =
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\n";

/// `code file:line` of what is found in a pack with one more file.
fn found(name: &str, file: (&str, &str)) -> Vec<String> {
    let scratch = Scratch::new(name, &[("Pack.yaml", PACK), file]);
    scratch.lint().iter().map(|one| format!("{} {}:{}", one.code, one.file, one.line)).collect()
}

#[test]
fn a_sound_pack_has_no_findings() {
    assert_eq!(found("sound", ("templates/a.yaml", OBJECT)), [""; 0]);
}

#[test]
fn every_mistake_is_found_with_its_place() {
    for (index, (file, text, expected)) in [
        ("templates/a.yaml", "a: 1\nb: {{ x | nothing }}", "RenderFailed templates/a.yaml:2"),
        ("templates/a.yaml", "a: {{ values.gone }}", "RenderFailed templates/a.yaml:1"),
        ("templates/a.yaml", "a: [", "InvalidYaml templates/a.yaml:0"),
        ("templates/a.yaml", "- a", "InvalidManifest templates/a.yaml:0"),
        ("templates/a.yaml", "kind: Pod\napiVersion: v1", "InvalidManifest templates/a.yaml:0"),
        ("values.yaml", "a: 1\na: 2", "ValuesInvalid values.yaml:2"),
        ("values.schema.json", "{", "SchemaInvalid values.schema.json:0"),
        (
            "values.schema.yaml",
            "type: object\n$ref: http://x/y",
            "SchemaReferenceRefused values.schema.yaml:0",
        ),
        ("values.schema.yaml", "type: object\nrequired: [a]", "ValuesInvalid values.schema.yaml:0"),
        ("values.schema.yaml", "properties: {a: {type: any, tpye: 1}}", "UnknownKey values.schema.yaml:0"),
        ("Pack.yaml", "apiVersion: v9", "PackInvalid Pack.yaml:0"),
        ("Pack.yaml", &format!("{PACK}extra: 1"), "UnknownKey Pack.yaml:0"),
        (
            "Pack.yaml",
            &format!("{PACK}dependencies: [{{name: db, version: '1', repository: x}}]"),
            "DependencyMissing Pack.yaml:0",
        ),
        ("charts/db/Pack.yaml", "x: 1", "DependencyInvalid Pack.yaml:0"),
        ("crds/a.yaml", OBJECT, "NonCrdInCrdsDir crds/a.yaml:0"),
        ("crds/a.yaml", "{{ values.a }}", "TemplatedCrdInCrdsDir crds/a.yaml:0"),
        ("crds/a.yaml", "a: [", "InvalidYaml crds/a.yaml:0"),
        ("crds/a.yaml", CRD, "NoPolicyAnnotation crds/a.yaml:0"),
        ("templates/a.yaml", CRD, "CrdInTemplates templates/a.yaml:0"),
        ("templates/a.yaml", &format!("{OBJECT}---\n{OBJECT}"), "DuplicateObject templates/a.yaml:0"),
    ]
    .into_iter()
    .enumerate()
    {
        let found = found(&format!("mistake-{index}"), (file, text));
        assert!(found.iter().any(|one| one == expected), "{text}: {found:?}");
    }
}

#[test]
fn one_mistake_does_not_hide_another() {
    let scratch = Scratch::new(
        "several",
        &[
            ("Pack.yaml", PACK),
            ("values.schema.yaml", "type: object\nrequired: [a]"),
            ("templates/a.yaml", "{{ values.x }}"),
            ("templates/b.yaml", "\n{% if %}"),
            ("templates/c.yaml", "a: ["),
        ],
    );
    let found: Vec<(String, u64)> = scratch.lint().into_iter().map(|one| (one.file, one.line)).collect();
    let expected = [
        ("templates/a.yaml", 1),
        ("templates/b.yaml", 2),
        ("templates/c.yaml", 0),
        ("values.schema.yaml", 0),
    ];
    assert_eq!(found, expected.map(|(file, line)| (file.to_owned(), line)));
}

#[test]
fn annotations_are_held_to_their_table() {
    for (index, (key, value, expected)) in [
        ("sherpack.io/hook", "pre-install, post-upgrade", None),
        ("sherpack.io/hook", "pre-instal", Some("AnnotationInvalid")),
        ("helm.sh/hook", "crd-install", Some("AnnotationInvalid")),
        ("helm.sh/hook-weight", "-5", None),
        ("helm.sh/hook-weight", "first", Some("AnnotationInvalid")),
        ("sherpack.io/hook-delete-policy", "hook-succeeded,hook-failed", None),
        ("sherpack.io/hook-delete-policy", "never", Some("AnnotationInvalid")),
        ("sherpack.io/hook-failure-policy", "ignore", Some("AnnotationInvalid")),
        ("sherpack.io/hook-timeout", "5m", None),
        ("sherpack.io/hook-timeout", "5", Some("AnnotationInvalid")),
        ("sherpack.io/hook-retries", "-1", Some("AnnotationInvalid")),
        ("sherpack.io/sync-wave", "-1", None),
        ("sherpack.io/sync-wave", "1.5", Some("AnnotationInvalid")),
        ("sherpack.io/wait-for", "ConfigMap/a", Some("WaitForInvalid")),
        ("sherpack.io/wait-for", "ConfigMap", Some("AnnotationInvalid")),
        ("sherpack.io/wait-for", "Job/gone", Some("WaitForInvalid")),
        ("sherpack.io/skip-wait", "yes", Some("AnnotationInvalid")),
        ("sherpack.io/resource-policy", "keep", None),
        ("helm.sh/resource-policy", "delete", Some("AnnotationInvalid")),
        ("sherpack.io/crd-policy", "Shared", None),
        ("sherpack.io/drift", "ignored", Some("AnnotationInvalid")),
        ("sherpack.io/health-check-type", "tcp", Some("AnnotationInvalid")),
        ("sherpack.io/health-check-port", "70000", Some("AnnotationInvalid")),
        // Right by themselves, but nothing says that there is a probe, or what it asks.
        ("sherpack.io/health-check-port", "http", Some("AnnotationInvalid")),
        ("sherpack.io/health-check-status", "200-399", Some("AnnotationInvalid")),
        ("sherpack.io/health-check", "true", Some("AnnotationInvalid")),
        ("sherpack.io/health-check", "false", None),
        ("sherpack.io/health-check-timeout", "soon", Some("AnnotationInvalid")),
        ("sherpack.io/helth-check", "true", Some("UnknownAnnotation")),
        ("helm.sh/chart", "web-1.0.0", None),
        ("example.com/hook", "x", None),
    ]
    .into_iter()
    .enumerate()
    {
        let object = format!("{OBJECT}  \n")
            .replace("{name: a}", &format!("{{name: a, annotations: {{{key}: '{value}'}}}}"));
        let found = found(&format!("annotation-{index}"), ("templates/a.yaml", &object));
        let codes: Vec<&str> = found
            .iter()
            .filter_map(|one| one.split(' ').next())
            .filter(|code| *code != "NotSupported")
            .collect();
        assert_eq!(codes, expected.into_iter().collect::<Vec<_>>(), "{key}: {value}: {found:?}");
    }
    let number = OBJECT.replace("{name: a}", "{name: a, annotations: {sherpack.io/sync-wave: 1}}");
    assert!(
        found("annotation-number", ("templates/a.yaml", &number))
            .iter()
            .any(|one| one.starts_with("AnnotationInvalid"))
    );
}

#[test]
fn policies_of_definitions_are_looked_at() {
    let with = |policy: &str| {
        CRD.replace(
            "{name: a.b.c}",
            &format!("{{name: a.b.c, annotations: {{sherpack.io/crd-policy: {policy}}}}}"),
        )
    };
    let codes = |name: &str, path: &str, policy: &str| {
        found(name, (path, &with(policy)))
            .iter()
            .filter_map(|one| one.split(' ').next().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert!(codes("external", "crds/a.yaml", "external").contains(&"ExternalPolicyInPack".to_owned()));
    assert!(codes("shared", "templates/a.yaml", "shared").contains(&"SharedCrdInTemplates".to_owned()));
    assert_eq!(codes("managed", "crds/a.yaml", "managed"), ["NotSupported"]);
}

#[test]
fn a_pack_that_is_not_there_is_no_finding() {
    let line = Line::parse_from(["lint", "/no/such/pack"]);
    assert!(lint(&line.args.render).is_err());
}

#[test]
fn the_samples_are_sound() {
    for name in ["webapp", "database", "podinfo", "shop"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packs").join(name);
        let line = Line::parse_from(["lint", path.to_str().unwrap()]);
        assert_eq!(lint(&line.args.render).unwrap(), [], "{name}");
    }
}
