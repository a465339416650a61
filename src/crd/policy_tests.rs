use serde_json::json;

use super::*;

fn annotated(annotations: Value) -> Value {
    json!({"kind": "CustomResourceDefinition", "metadata": {"name": "a.b", "annotations": annotations}})
}

#[test]
fn the_policy_is_read_from_both_spellings() {
    let rows = [
        (json!({}), Ok(None)),
        (json!({"sherpack.io/crd-policy": "managed"}), Ok(Some(Policy::Managed))),
        (json!({"sherpack.io/crd-policy": " Shared "}), Ok(Some(Policy::Shared))),
        (json!({"sherpack.io/crd-policy": "external"}), Ok(Some(Policy::External))),
        (json!({"helm.sh/resource-policy": "keep"}), Ok(Some(Policy::Shared))),
        (json!({"sherpack.io/resource-policy": "keep"}), Ok(Some(Policy::Shared))),
        (
            json!({"helm.sh/resource-policy": "keep", "sherpack.io/crd-policy": "managed"}),
            Ok(Some(Policy::Managed)),
        ),
        (json!({"helm.sh/resource-policy": "delete"}), Ok(None)),
        (json!({"sherpack.io/crd-policy": "mine"}), Err("mine".to_owned())),
    ];
    for (annotations, wanted) in rows {
        assert_eq!(Policy::stated(&annotated(annotations.clone())), wanted, "{annotations}");
    }
    assert_eq!(Policy::of(&json!({})), Ok(Policy::Managed));
}

fn known(counts: &[(&str, u64)]) -> Count {
    Count::Known(counts.iter().map(|(namespace, count)| ((*namespace).to_owned(), *count)).collect())
}

#[test]
fn a_definition_is_deleted_only_when_everything_speaks_for_it() {
    let (none, some) = (known(&[]), known(&[("staging", 2), ("production", 15)]));
    let failed = Count::Failed("forbidden".to_owned());
    let confirmed = ["widgets.example.com".to_owned()];
    let base = Leaving {
        name: "widgets.example.com",
        policy: Policy::Managed,
        delete: true,
        own: true,
        namespace_terminating: false,
        count: &some,
        confirmed: &confirmed,
    };
    assert_eq!(fate(&base), Fate::Delete);
    assert_eq!(fate(&Leaving { count: &none, confirmed: &[], ..base.clone() }), Fate::Delete);
    for kept in [
        Leaving { delete: false, ..base.clone() },
        Leaving { policy: Policy::Shared, ..base.clone() },
        Leaving { policy: Policy::External, ..base.clone() },
        Leaving { own: false, ..base.clone() },
        Leaving { namespace_terminating: true, ..base.clone() },
    ] {
        assert!(matches!(fate(&kept), Fate::Keep(_)), "{kept:?}");
    }
    let Fate::Blocked(message) = fate(&Leaving { confirmed: &[], ..base.clone() }) else {
        panic!("not blocked")
    };
    assert!(
        message
            .starts_with("widgets.example.com has 17 objects (15 resources in production, 2 in staging), "),
        "{message}"
    );
    // A count that failed blocks, whatever was confirmed.
    let Fate::Blocked(message) = fate(&Leaving { count: &failed, ..base.clone() }) else {
        panic!("not blocked")
    };
    assert!(message.contains("cannot be counted: forbidden"), "{message}");
    let other = ["gadgets.example.com".to_owned()];
    assert!(matches!(fate(&Leaving { confirmed: &other, ..base }), Fate::Blocked(_)));
}

#[test]
fn the_impact_has_the_words_of_the_documents() {
    let (many, one) = (known(&[("production", 15)]), known(&[("", 1)]));
    let base = Leaving {
        name: "certificates.cert-manager.io",
        policy: Policy::Managed,
        delete: true,
        own: true,
        namespace_terminating: false,
        count: &many,
        confirmed: &[],
    };
    let all = [
        base.clone(),
        Leaving { name: "clusters.cert-manager.io", count: &one, ..base.clone() },
        Leaving { name: "issuers.cert-manager.io", policy: Policy::Shared, ..base },
    ];
    assert_eq!(
        impact(&all),
        "\
This will delete all CustomResources of these types:
  - certificates.cert-manager.io (15 resources in production)
  - clusters.cert-manager.io (1 resource in the cluster)
Blocked by policy:
  - issuers.cert-manager.io (policy: shared)
"
    );
    assert_eq!(impact(&[]), "");
}

#[test]
fn a_policy_is_written_as_it_is_read() {
    for (policy, word) in
        [(Policy::Managed, "managed"), (Policy::Shared, "shared"), (Policy::External, "external")]
    {
        assert_eq!((policy.name(), policy.to_string()), (word, word.to_owned()));
        assert_eq!(Policy::of(&annotated(json!({"sherpack.io/crd-policy": word}))), Ok(policy));
    }
}

#[test]
fn the_five_namespaces_with_most_objects_are_named() {
    let count = |number: u64| (format!("n{number}"), number);
    for (counts, says) in [
        (vec![], "no resources"),
        (vec![0], "no resources"),
        (vec![0, 1], "1 resource in n1"),
        (vec![1, 2], "2 resources in n2, 1 in n1"),
        (vec![1, 2, 3, 4, 5], "5 resources in n5, 4 in n4, 3 in n3, 2 in n2, 1 in n1"),
        (
            vec![3, 4, 5, 6, 7, 2],
            "7 resources in n7, 6 in n6, 5 in n5, 4 in n4, 3 in n3, 2 in 1 more namespaces",
        ),
        (
            vec![1, 2, 3, 4, 5, 6, 7],
            "7 resources in n7, 6 in n6, 5 in n5, 4 in n4, 3 in n3, 3 in 2 more namespaces",
        ),
    ] {
        assert_eq!(places(&counts.into_iter().map(count).collect::<Vec<_>>()), says);
    }
}
