//! What holds of the graph whatever happens to releases.

use proptest::prelude::*;

use super::tests::{key, known};
use super::*;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

#[derive(Clone, Debug)]
enum Change {
    Saw(usize, Known),
    Lost(usize),
    /// The release has a pass: it asks what stands in its way.
    Asks(usize),
}

prop_compose! {
    fn any_known(own: usize)(
        others in proptest::collection::btree_set(0..NAMES.len(), 0..3),
        ready: bool,
        life in prop_oneof![
            3 => Just(Life::Living), 2 => Just(Life::Going), 1 => Just(Life::Orphaning), 1 => Just(Life::Untouched)
        ],
    ) -> Known {
        let others: Vec<&str> = others.into_iter().filter(|other| *other != own).map(|other| NAMES[other]).collect();
        let unready = (!ready).then_some(Unready::Outdated);
        Known { unready, life, ..known(&others) }
    }
}

fn any_change() -> impl Strategy<Value = Change> {
    (0..NAMES.len()).prop_flat_map(|own| {
        prop_oneof![
            4 => any_known(own).prop_map(move |known| Change::Saw(own, known)),
            1 => Just(Change::Lost(own)),
            2 => Just(Change::Asks(own)),
        ]
    })
}

/// Everything that a pass of the release asks of the graph.
fn answers(graph: &Graph, release: &ReleaseKey) -> (Option<Vec<ReleaseKey>>, Option<Unready>, Dependents) {
    let depends_on = graph.depends_on(release);
    let unready = depends_on.iter().find_map(|other| match graph.releases.get(other) {
        None => Some(Unready::Missing),
        Some(node) => node.known.unready.clone(),
    });
    (graph.cycle(release), unready, graph.dependents(release))
}

/// Whether `from` leads to `to` in at least one step, found the slow way.
fn leads(graph: &Graph, from: &ReleaseKey, to: &ReleaseKey) -> bool {
    let mut reached: BTreeSet<ReleaseKey> = graph.depends_on(from).iter().cloned().collect();
    for _ in 0..NAMES.len() {
        let more: Vec<ReleaseKey> = reached.iter().flat_map(|at| graph.depends_on(at)).cloned().collect();
        reached.extend(more);
    }
    reached.contains(to)
}

fn built(changes: &[Change]) -> Graph {
    let mut graph = Graph::default();
    for change in changes {
        if let Change::Saw(own, known) = change {
            graph.saw(&key(NAMES[*own]), known.clone());
        }
    }
    graph
}

proptest! {
    /// A release that would get another answer is woken, if it waits for it; and no release is woken without a change of its own.
    #[test]
    fn a_change_wakes_whom_it_concerns(changes in proptest::collection::vec(any_change(), 1..40)) {
        let mut graph = Graph::default();
        let mut asked: BTreeSet<ReleaseKey> = BTreeSet::new();
        for change in changes {
            let before: Vec<_> = NAMES.iter().map(|name| answers(&graph, &key(name))).collect();
            let (own, woken) = match change {
                Change::Saw(own, known) => (own, graph.saw(&key(NAMES[own]), known)),
                Change::Lost(own) => (own, graph.lost(&key(NAMES[own]))),
                Change::Asks(own) => {
                    let own = key(NAMES[own]);
                    let depends_on = graph.depends_on(&own).to_vec();
                    if graph.blocked(&own, &depends_on).is_some() {
                        asked.insert(own);
                    }
                    continue;
                }
            };
            prop_assert!(!woken.contains(&key(NAMES[own])));
            for (other, before) in NAMES.iter().map(|name| key(name)).zip(before) {
                let Some(node) = graph.releases.get(&other).filter(|_| other != key(NAMES[own])) else { continue };
                let after = answers(&graph, &other);
                let concerns = before.0 != after.0
                    || (node.blocked && before.1 != after.1)
                    || (node.known.life == Life::Going && before.2 != after.2);
                prop_assert!(!concerns || woken.contains(&other), "{other} is not woken");
            }
        }
    }

    /// What is derived agrees with what the releases say.
    #[test]
    fn the_index_is_the_inverse_of_what_releases_say(changes in proptest::collection::vec(any_change(), 1..40)) {
        let mut graph = Graph::default();
        for change in changes {
            match change {
                Change::Saw(own, known) => drop(graph.saw(&key(NAMES[own]), known)),
                Change::Lost(own) => drop(graph.lost(&key(NAMES[own]))),
                Change::Asks(_) => {}
            }
        }
        let mut inverse: HashMap<ReleaseKey, BTreeSet<ReleaseKey>> = HashMap::new();
        for (release, node) in &graph.releases {
            for other in &node.known.depends_on {
                inverse.entry(other.clone()).or_default().insert(release.clone());
            }
        }
        prop_assert_eq!(&graph.dependents, &inverse);
    }

    /// A cycle is found exactly where a release leads back to itself, and its path is one.
    #[test]
    fn cycles_are_found_where_they_are(changes in proptest::collection::vec(any_change(), 1..12)) {
        let graph = built(&changes);
        for release in NAMES.iter().map(|name| key(name)) {
            let cycle = graph.cycle(&release);
            prop_assert_eq!(cycle.is_some(), leads(&graph, &release, &release));
            prop_assert_eq!(graph.circle(&release).contains(&release), cycle.is_some());
            let Some(path) = cycle else { continue };
            prop_assert_eq!((path.first(), path.last()), (Some(&release), Some(&release)));
            let linked = path.windows(2).all(|pair| graph.depends_on(&pair[0]).contains(&pair[1]));
            prop_assert!(linked, "{path:?}");
            let inside: BTreeSet<_> = path.iter().collect();
            prop_assert_eq!(inside.len() + 1, path.len(), "no release comes twice");
        }
    }

    /// Releases that are deleted together all go, none before one that depends on it, circles apart.
    #[test]
    fn releases_that_are_deleted_together_go_in_reverse(changes in proptest::collection::vec(any_change(), 1..12)) {
        let mut graph = built(&changes);
        let mut left: BTreeSet<ReleaseKey> = graph.releases().cloned().collect();
        for release in &left {
            let depends_on = graph.depends_on(release).to_vec();
            graph.saw(release, Known { depends_on, unready: Some(Unready::Deleted), life: Life::Going, as_operator: true });
        }
        while !left.is_empty() {
            let turn = left.iter().find(|release| graph.dependents(release).going.is_empty()).cloned();
            let Some(release) = turn else {
                return Err(TestCaseError::fail(format!("nobody's turn among {left:?}")));
            };
            for other in &left {
                let before_its_dependent = graph.depends_on(other).contains(&release);
                prop_assert!(!before_its_dependent || leads(&graph, &release, other));
            }
            graph.lost(&release);
            left.remove(&release);
        }
    }
}
