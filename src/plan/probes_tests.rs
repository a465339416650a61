use serde_json::json;

use super::*;

const KEY: &str = "sherpack.io/health-check";

fn object(kind: &str, annotations: &[(&str, &str)]) -> Object {
    let api_version = match kind {
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" => "apps/v1",
        "Job" => "batch/v1",
        _ => "v1",
    };
    let mut all = serde_json::Map::new();
    for (name, value) in annotations {
        let key = if name.contains('/') { (*name).to_owned() } else { format!("{KEY}{name}") };
        all.insert(key, json!(value));
    }
    Object::from_value(json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": "web", "namespace": "apps", "annotations": all}}))
    .unwrap()
}

/// With `health-check: "true"` beside the others.
fn on(kind: &str, settings: &[(&str, &str)]) -> Result<Option<Probe>, Error> {
    probe(&object(kind, &[&[("", "true")], settings].concat()))
}

fn http(settings: &[(&str, &str)]) -> Http {
    let settings = [&[("-path", "/healthz"), ("-port", "8080")], settings].concat();
    match on("Deployment", &settings).unwrap().unwrap().check {
        Check::Http(http) => http,
        Check::Command { .. } => panic!("it is a command"),
    }
}

fn command(value: &str) -> Vec<String> {
    match on("Pod", &[("-command", value)]).unwrap().unwrap().check {
        Check::Command { command, container: None } => command,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_object_without_the_annotation_has_no_probe() {
    assert_eq!(probe(&object("Pod", &[])), Ok(None));
    assert_eq!(probe(&object("Job", &[("example.com/health-check", "true")])), Ok(None));
    // Switched off, whatever stands beside it, and on whatever kind.
    assert_eq!(probe(&object("Job", &[("", "false"), ("-path", "/")])), Ok(None));
}

#[test]
fn what_is_not_said_has_its_default() {
    let probe = on("Deployment", &[("-path", "/healthz"), ("-port", "8080")]).unwrap().unwrap();
    assert_eq!((probe.interval.as_secs(), probe.timeout.as_secs()), (10, 5));
    let Check::Http(http) = &probe.check else { panic!("{probe:?}") };
    assert_eq!((http.scheme, &http.port), (Scheme::Http, &Port::Number(8080)));
    for (status, accepted) in
        [(199, false), (200, true), (302, true), (399, true), (400, false), (503, false)]
    {
        assert_eq!(http.accepts(status), accepted, "{status}");
    }
    assert_eq!(probe.to_string(), "GET http://:8080/healthz");
}

#[test]
fn everything_that_an_http_probe_says_is_read() {
    let settings = [
        ("-type", "HTTP"),
        ("-path", "/ready?full=1"),
        ("-port", "web"),
        ("-scheme", "https"),
        ("-status", "204, 300-302"),
        ("-interval", "2s"),
        ("-timeout", "1m"),
    ];
    let probe = on("Service", &settings).unwrap().unwrap();
    assert_eq!(probe.target, Target::Service);
    assert_eq!((probe.interval.as_secs(), probe.timeout.as_secs()), (2, 60));
    assert_eq!(probe.to_string(), "GET https://:web/ready?full=1");
    let Check::Http(http) = probe.check else { panic!("no http") };
    for (status, accepted) in [(200, false), (204, true), (301, true), (303, false)] {
        assert_eq!(http.accepts(status), accepted, "{status}");
    }
}

#[test]
fn a_command_is_for_a_shell_unless_it_is_a_list() {
    assert_eq!(command("pg_isready -U 'a b' | grep ok"), ["sh", "-c", "pg_isready -U 'a b' | grep ok"]);
    assert_eq!(command(r#" ["/check", "--all", ""] "#), ["/check", "--all", ""]);
    let settings = [("-type", "command"), ("-command", "true"), ("-container", "app")];
    let probe = on("StatefulSet", &settings).unwrap().unwrap();
    assert_eq!(probe.target, Target::Pods);
    assert_eq!(probe.to_string(), "run `true`");
    assert!(matches!(probe.check, Check::Command { container: Some(name), .. } if name == "app"));
}

#[test]
fn each_kind_is_asked_in_its_way() {
    let settings = [("-path", "/"), ("-port", "1")];
    for (kind, target) in [
        ("Pod", Target::Pod),
        ("Service", Target::Service),
        ("Deployment", Target::Pods),
        ("StatefulSet", Target::Pods),
        ("DaemonSet", Target::Pods),
        ("ReplicaSet", Target::Pods),
    ] {
        assert_eq!(on(kind, &settings).unwrap().unwrap().target, target);
    }
    for kind in ["Job", "ConfigMap", "CronJob"] {
        let error = on(kind, &settings).unwrap_err();
        assert_eq!(error.reason(), "AnnotationInvalid");
        assert!(error.to_string().contains(&format!("{kind} apps/web: ")), "{error}");
        assert!(error.to_string().contains("is for a Pod, Deployment"), "{error}");
    }
}

#[test]
fn a_setting_that_means_nothing_is_named_with_its_object() {
    let fits = [("-path", "/"), ("-port", "80")];
    for (name, value) in [
        ("-type", "tcp"),
        ("-path", "healthz"),
        ("-path", "/a b"),
        ("-path", "/a#b"),
        ("-path", "/a\\b"),
        ("-path", "/ä"),
        ("-path", "/a/../b"),
        ("-path", "/a/%2E./b"),
        ("-port", "0"),
        ("-port", "65536"),
        ("-port", ""),
        ("-port", "a_b"),
        ("-scheme", "ftp"),
        ("-status", "ok"),
        ("-status", "99"),
        ("-status", "300-200"),
        ("-status", ""),
        ("-interval", "5"),
        ("-interval", "0s"),
        ("-interval", "10ms"),
        ("-interval", "2h"),
        ("-timeout", "soon"),
        ("-timeout", "6m"),
        ("-pathh", "/"),
    ] {
        let mut settings: Vec<_> = fits.into_iter().filter(|(other, _)| *other != name).collect();
        settings.push((name, value));
        let error = on("Deployment", &settings).unwrap_err();
        assert_eq!(error.reason(), "AnnotationInvalid", "{name}: {value}");
        let text = error.to_string();
        assert!(text.contains(&format!("`{KEY}{name}`")), "{text}");
        assert!(text.starts_with("Deployment apps/web: "), "{text}");
    }
    for value in ["", "[]", "[\"\"]", "[1]", "[\"a\"", &"x".repeat(2049)] {
        let text = on("Pod", &[("-command", value), ("-type", "command")]).unwrap_err().to_string();
        assert!(text.contains("health-check-command"), "{value}: {text}");
    }
    let error = on("Pod", &[("-command", "true"), ("-container", "A b")]).unwrap_err();
    assert!(error.to_string().contains("health-check-container"), "{error}");
    let error = probe(&object("Pod", &[("", "yes")])).unwrap_err();
    assert!(error.to_string().contains("`sherpack.io/health-check` is `yes`"), "{error}");
}

#[test]
fn settings_that_do_not_fit_together_are_refused() {
    for (kind, settings, says) in [
        ("Pod", &[("-port", "80")][..], "an http probe needs the annotation `sherpack.io/health-check-path`"),
        ("Pod", &[("-path", "/")], "an http probe needs the annotation `sherpack.io/health-check-port`"),
        ("Pod", &[], "needs the annotation `sherpack.io/health-check-path`"),
        (
            "Pod",
            &[("-type", "command")],
            "a command probe needs the annotation `sherpack.io/health-check-command`",
        ),
        ("Pod", &[("-command", "true"), ("-path", "/")], "-path` does not belong to a command probe"),
        ("Pod", &[("-type", "http"), ("-command", "true")], "-command` does not belong to an http probe"),
        (
            "Pod",
            &[("-path", "/"), ("-port", "1"), ("-container", "a")],
            "-container` does not belong to an http probe",
        ),
        ("Service", &[("-command", "true")], "no command runs in a Service"),
        (
            "Pod",
            &[("-path", "/"), ("-port", "1"), ("helm.sh/hook", "pre-install")],
            "a hook is done when its own health rule says so",
        ),
    ] {
        let text = on(kind, settings).unwrap_err().to_string();
        assert!(text.contains(says), "{text}");
    }
    let text = probe(&object("Pod", &[("-path", "/")])).unwrap_err().to_string();
    assert!(text.contains("is not \"true\""), "{text}");
}

#[test]
fn one_status_is_exact() {
    let http = http(&[("-status", "200")]);
    assert!(http.accepts(200) && !http.accepts(201) && !http.accepts(302));
}

#[test]
fn a_command_is_shown_as_it_was_written() {
    for (value, shown) in [
        ("pg_isready -q", "run `pg_isready -q`"),
        (r#"["sh", "-c", "true"]"#, "run `true`"),
        (r#"["sh", "-x", "true"]"#, "run `sh -x true`"),
        (r#"["bash", "-c", "true"]"#, "run `bash -c true`"),
        (r#"["/check", "--all"]"#, "run `/check --all`"),
    ] {
        assert_eq!(on("Pod", &[("-command", value)]).unwrap().unwrap().to_string(), shown);
    }
    let longest = "x".repeat(2048);
    assert_eq!(command(&longest)[2], longest, "so many characters are taken");
    assert_eq!(http(&[("-scheme", "http")]).scheme, Scheme::Http, "what is the default may be said");
}
