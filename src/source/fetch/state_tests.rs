use super::*;
use crate::source::signature::Refused;

const HOUR: Duration = Duration::from_mins(60);
const MINUTE: Duration = Duration::from_mins(1);

/// One source, releases that ask, and a clock.
struct Scene {
    source: Source,
    now: Instant,
}

/// What a release wants; the digest, then whether its spec is new, then its request.
type Wants<'a> = (Option<&'a str>, bool, Option<&'a str>);
const ANY: Wants<'_> = (None, false, None);
const NEW: Wants<'_> = (None, true, None);

impl Scene {
    fn new() -> Self {
        Self { source: Source::new(Access::default(), Known::default()), now: Instant::now() }
    }

    /// As after a restart: an earlier process was given `digest`.
    fn restarted(digest: &str) -> Self {
        let mut scene = Self::new();
        scene.source.known.gave(digest, Validators::default());
        scene
    }

    fn later(&mut self, by: Duration) -> &mut Self {
        self.now += by;
        self
    }

    fn asks(&mut self, release: &str, (digest, changed, request): Wants<'_>) -> (Look, bool) {
        self.now += Duration::from_millis(1);
        let release = key(release);
        let ask = Ask { release: &release, digest, interval: HOUR, changed, request };
        match self.source.ask(&ask, self.now) {
            // When it began to wait is of no interest here.
            (Look::Fetching { .. }, start) => (waits(), start),
            other => other,
        }
    }

    /// An attempt that began `ago`.
    fn ends(&mut self, ended: Ended, ago: Duration) -> (Vec<String>, Option<Duration>) {
        let Next { wake, again, news: _ } = self.source.ended(ended, self.now - ago, self.now);
        let mut wake: Vec<String> = wake.into_iter().map(|release| release.name).collect();
        wake.sort();
        (wake, again)
    }

    fn gives(&mut self, digest: &str) -> (Vec<String>, Option<Duration>) {
        self.ends(
            Ended::Fetched { digest: digest.to_owned(), validators: Validators::default() },
            Duration::ZERO,
        )
    }

    fn fails(&mut self, error: &Error) -> (Vec<String>, Option<Duration>) {
        self.ends(Ended::Failed(error.clone()), Duration::ZERO)
    }
}

fn key(name: &str) -> ReleaseKey {
    ReleaseKey { namespace: "apps".to_owned(), name: name.to_owned() }
}

fn waits() -> Look {
    static EPOCH: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    Look::Fetching { since: *EPOCH.get_or_init(Instant::now) }
}

fn at(digest: &str) -> Look {
    Look::At(digest.to_owned())
}

fn down() -> Error {
    Error::Unreachable { url: "u".to_owned(), message: "refused".to_owned() }
}

fn missing() -> Error {
    Error::Unauthorized { url: "u".to_owned(), status: 401, cure: String::new() }
}

fn mismatch(wanted: &str, found: &str) -> Look {
    Look::Failed(Error::DigestMismatch {
        url: String::new(),
        wanted: wanted.to_owned(),
        found: found.to_owned(),
    })
}

#[test]
fn the_first_look_is_waited_for_and_then_holds_for_the_interval() {
    let mut scene = Scene::new();
    assert_eq!(scene.asks("web", NEW), (waits(), true));
    assert_eq!(scene.gives("a"), (vec!["web".to_owned()], None));
    assert_eq!(scene.asks("web", ANY), (at("a"), false));
    assert_eq!(scene.later(MINUTE).asks("web", ANY), (at("a"), false));
}

#[test]
fn a_look_that_is_due_goes_on_beside_what_is_known() {
    let mut scene = Scene::new();
    scene.asks("web", NEW);
    scene.gives("a");
    scene.asks("web", ANY);
    assert_eq!(scene.later(HOUR).asks("web", ANY), (at("a"), true));
    assert_eq!(scene.ends(Ended::Unchanged, Duration::ZERO), (vec![], None), "nobody has anything to do");
    assert_eq!(scene.asks("web", ANY), (at("a"), false));
    scene.later(HOUR).asks("web", ANY);
    assert_eq!(scene.gives("b"), (vec!["web".to_owned()], None));
    assert_eq!(scene.asks("web", ANY), (at("b"), false));
}

#[test]
fn after_a_restart_all_releases_of_a_source_share_one_look_and_wait_for_none() {
    let mut scene = Scene::restarted("a");
    assert_eq!(scene.asks("r0", ANY), (at("a"), true));
    for index in 1..100 {
        // Asks again for an attempt that is under way already.
        assert_eq!(scene.asks(&format!("r{index}"), ANY).0, at("a"));
    }
    assert_eq!(scene.ends(Ended::Unchanged, Duration::ZERO), (vec![], None));
    assert_eq!(scene.asks("r0", ANY), (at("a"), false));
    // Without what an earlier process left, all wait for the one attempt.
    let mut scene = Scene::new();
    scene.asks("r0", ANY);
    scene.asks("r1", ANY);
    assert_eq!(
        scene.ends(Ended::Fetched { digest: "a".into(), validators: Validators::default() }, MINUTE).0,
        ["r0", "r1"]
    );
    assert_eq!(scene.asks("r1", ANY), (at("a"), false), "it began before this one asked, and that is fine");
}

#[test]
fn a_new_release_and_a_request_want_a_look_that_begins_after_them() {
    let mut scene = Scene::restarted("a");
    for wants in [NEW, (None, false, Some("one")), (None, false, Some("two"))] {
        assert_eq!(scene.asks("web", wants), (waits(), true), "{wants:?}");
        assert_eq!(scene.asks("other", ANY).0, at("a"), "who did not ask does not wait");
        // This one began earlier.
        assert_eq!(scene.ends(Ended::Unchanged, MINUTE).0, ["web"]);
        assert_eq!(scene.asks("web", wants), (waits(), true));
        assert_eq!(scene.ends(Ended::Unchanged, Duration::ZERO).0, ["web"]);
        assert_eq!(scene.asks("web", wants), (at("a"), false));
    }
    // Another change of the spec is none of the source.
    assert_eq!(scene.asks("web", NEW), (at("a"), false));
}

#[test]
fn a_digest_that_was_given_once_needs_no_look_whatever_is_asked() {
    let mut scene = Scene::restarted("a");
    for wants in [(Some("a"), true, None), (Some("a"), false, Some("now"))] {
        assert_eq!(scene.later(HOUR * 2).asks("web", wants), (at("a"), false));
    }
    scene.gives("b");
    assert_eq!(scene.asks("web", (Some("a"), false, None)), (at("a"), false));
}

#[test]
fn another_digest_is_a_mismatch_until_the_source_gives_it() {
    let mut scene = Scene::restarted("a");
    let wants = (Some("b"), true, None);
    assert_eq!(scene.asks("web", wants), (waits(), true));
    let (woken, again) = scene.gives("a");
    assert_eq!((woken, again), (vec!["web".to_owned()], Some(Duration::from_secs(5))));
    assert_eq!(scene.asks("web", wants), (mismatch("b", "a"), false));
    assert_eq!(scene.ends(Ended::Unchanged, Duration::ZERO), (vec![], Some(Duration::from_secs(10))));
    assert_eq!(scene.gives("b"), (vec!["web".to_owned()], None));
    assert_eq!(scene.asks("web", wants), (at("b"), false));
    // A release that wants something else now is not judged by an old look.
    assert_eq!(scene.asks("web", (Some("c"), true, None)), (waits(), true));
}

#[test]
fn a_failure_is_told_at_once_where_nothing_is_known_and_is_retried_ever_less_often() {
    let mut scene = Scene::new();
    scene.asks("web", NEW);
    let (woken, again) = scene.fails(&down());
    assert_eq!((woken, again), (vec!["web".to_owned()], Some(Duration::from_secs(1))));
    assert_eq!(scene.asks("web", NEW), (Look::Failed(down()), false));
    let waits: Vec<u64> = (0..7).map(|_| scene.fails(&down()).1.unwrap().as_secs()).collect();
    assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60]);
    assert!(scene.fails(&down()).0.is_empty(), "the same again is no news");
    assert_eq!(scene.fails(&missing()).0, ["web"]);
    assert_eq!(scene.fails(&missing()).1.map(|wait| wait.as_secs() > 60), Some(true));
    assert_eq!(scene.gives("a").0, ["web"]);
    assert_eq!(scene.asks("web", ANY), (at("a"), false));
}

#[test]
fn short_trouble_of_a_source_that_worked_is_told_to_nobody_but_who_asked() {
    let mut scene = Scene::restarted("a");
    scene.asks("web", ANY);
    for _ in 1..TOLERATED {
        scene.fails(&down());
        assert_eq!(scene.asks("web", ANY), (at("a"), false));
    }
    assert_eq!(scene.asks("asker", (None, false, Some("now"))), (waits(), true));
    scene.later(MINUTE);
    assert!(scene.fails(&down()).0.contains(&"web".to_owned()));
    assert_eq!(scene.asks("asker", (None, false, Some("now"))), (Look::Failed(down()), false));
    assert_eq!(scene.asks("web", ANY), (Look::Failed(down()), false));
    assert_eq!(scene.ends(Ended::Unchanged, Duration::ZERO).0, ["asker", "web"]);
    assert_eq!(scene.asks("web", ANY), (at("a"), false));
    // What does not pass by itself is told at once.
    scene.fails(&missing());
    assert_eq!(scene.asks("web", ANY), (Look::Failed(missing()), false));
    // And to a digest that is at hand all of it is nothing.
    assert_eq!(scene.asks("pinned", (Some("a"), true, None)), (at("a"), false));
}

#[test]
fn a_look_between_a_push_and_its_signature_is_told_only_when_no_signature_comes() {
    let unsigned = Error::Signature { what: "web".to_owned(), why: Refused::Unsigned };
    let mut scene = Scene::restarted("a");
    scene.asks("web", ANY);
    for _ in 1..TOLERATED {
        scene.fails(&unsigned);
        assert_eq!(scene.asks("web", ANY), (at("a"), false));
    }
    scene.fails(&unsigned);
    assert_eq!(scene.asks("web", ANY), (Look::Failed(unsigned.clone()), false));
    // Without a pack that was signed there is nothing to go on with.
    let mut scene = Scene::new();
    scene.asks("web", NEW);
    scene.fails(&unsigned);
    assert_eq!(scene.asks("web", NEW), (Look::Failed(unsigned), false));
}

#[test]
fn an_archive_that_is_lost_is_fetched_again_and_never_replaced_by_an_older_one() {
    let mut scene = Scene::restarted("old");
    scene.gives("a");
    scene.asks("web", ANY);
    scene.source.lost("a");
    assert_eq!(scene.asks("web", ANY), (waits(), true));
    // The attempt that was under way asked with the validators of what is lost.
    assert_eq!(scene.ends(Ended::Unchanged, Duration::ZERO), (vec![], Some(Duration::ZERO)));
    assert_eq!(scene.asks("web", ANY).0, waits());
    assert_eq!(scene.gives("a").0, ["web"]);
    assert_eq!(scene.asks("web", ANY), (at("a"), false));
}

#[test]
fn an_archive_that_is_no_pack_is_looked_for_again() {
    let mut scene = Scene::restarted("a");
    scene.asks("web", ANY);
    scene.source.rejected(&key("web"), "a");
    assert!(scene.source.unsatisfied());
    assert_eq!(scene.ends(Ended::Unchanged, Duration::ZERO), (vec![], Some(Duration::from_secs(5))));
    assert_eq!(scene.gives("b"), (vec!["web".to_owned()], None));
}

#[test]
fn whatever_a_server_answers_the_next_look_begins_no_sooner_than_the_gap() {
    // Other bytes each time, no pack, another digest than is wanted, nothing new, refusals, and a lost archive.
    let answers: [fn(&mut Scene); 6] = [
        |scene| drop(scene.gives("b")),
        |scene| {
            scene.source.rejected(&key("web"), "a");
            scene.gives("a");
        },
        |scene| {
            scene.asks("pinned", (Some("c"), false, None));
            scene.gives("b");
        },
        |scene| drop(scene.ends(Ended::Unchanged, Duration::ZERO)),
        |scene| drop(scene.fails(&down())),
        |scene| {
            scene.gives("a");
            scene.source.lost("a");
            assert_eq!(scene.asks("web", ANY), (waits(), true));
        },
    ];
    for (index, answer) in answers.into_iter().enumerate() {
        let mut scene = Scene::restarted("a");
        scene.asks("web", ANY);
        assert_eq!(scene.source.rests(scene.now), None, "{index}: the first look does not wait");
        scene.source.begins(scene.now);
        answer(&mut scene);
        let soon = Duration::from_secs(9);
        assert!(scene.source.rests(scene.now + soon).is_some(), "{index}");
        assert_eq!(scene.source.rests(scene.now + GAP), None, "{index}");
    }
}

#[test]
fn who_asks_for_a_look_waits_for_a_second_at_most_and_asks_for_one_only() {
    for wants in [NEW, (None, false, Some("now"))] {
        let mut scene = Scene::restarted("a");
        scene.source.begins(scene.now);
        scene.ends(Ended::Unchanged, Duration::ZERO);
        assert!(scene.source.rests(scene.now).is_some());
        assert_eq!(scene.asks("web", wants), (waits(), true));
        let soon = scene.now + Duration::from_millis(900);
        assert!(scene.source.rests(soon).is_some(), "no faster than that: {wants:?}");
        assert_eq!(scene.source.rests(scene.now + GAP_ASKED), None, "{wants:?}");
        scene.later(MINUTE);
        scene.source.begins(scene.now);
        scene.fails(&down());
        scene.asks("web", wants);
        assert!(scene.source.rests(scene.now).is_some(), "that look was made: {wants:?}");
    }
}

#[test]
fn a_server_is_left_alone_for_as_long_as_it_wants_and_its_releases_know_why() {
    let throttled =
        |seconds| Error::Throttled { url: "u".to_owned(), wait: Some(Duration::from_secs(seconds)) };
    let mut scene = Scene::new();
    assert_eq!(scene.asks("web", ANY), (waits(), true));
    scene.source.begins(scene.now);
    // The answer comes late: the pause counts from then.
    scene.later(Duration::from_secs(40));
    let (wake, again) = scene.ends(Ended::Failed(throttled(30)), Duration::from_secs(40));
    assert_eq!((wake, again), (vec!["web".to_owned()], Some(Duration::from_secs(30))));
    assert_eq!(scene.asks("web", ANY).0, Look::Failed(throttled(30)));
    for wants in [(None, false, Some("now")), NEW] {
        let told = scene.asks("other", wants);
        assert_eq!(told, (Look::Failed(throttled(30)), false), "no newer look can be had: {wants:?}");
        assert!(scene.source.rests(scene.now) > Some(Duration::from_secs(29)));
    }
    // A countdown is no news.
    scene.later(Duration::from_secs(30));
    assert_eq!(scene.source.rests(scene.now), None);
    assert_eq!(scene.asks("other", (None, false, Some("again"))), (waits(), true), "it may be asked again");
    let (wake, _) = scene.ends(Ended::Failed(throttled(7)), Duration::ZERO);
    assert_eq!(wake, ["other"], "only who waits");
}

#[test]
fn who_hears_elsewhere_that_the_content_is_another_one_has_it_looked_for() {
    let mut scene = Scene::new();
    let wants = |digest| (Some(digest), false, None);
    scene.asks("web", wants("a"));
    scene.gives("a");
    assert_eq!(scene.asks("web", wants("a")), (at("a"), false));
    assert_eq!(scene.asks("web", wants("b")), (waits(), true), "in place, at the same location");
    scene.gives("b");
    assert_eq!(scene.asks("web", wants("b")), (at("b"), false));
}

#[test]
fn a_hint_has_the_source_looked_at_once_more_even_while_a_look_is_under_way() {
    let mut scene = Scene::new();
    scene.asks("web", NEW);
    scene.source.begins(scene.now);
    scene.later(Duration::from_millis(1));
    scene.source.hinted(scene.now, true);
    let began = scene.now - Duration::from_millis(1);
    let next = scene.source.ended(Ended::Unchanged, began, scene.now);
    assert_eq!(next.again, Some(Duration::ZERO), "the look may have missed it");
    assert_eq!(scene.source.rests(scene.now), Some(GAP_ASKED - Duration::from_millis(1)));
    scene.source.hinted(scene.now, false);
    assert_eq!(scene.source.rests(scene.now), Some(GAP - Duration::from_millis(1)), "many were named");
    scene.later(GAP);
    scene.source.begins(scene.now);
    assert_eq!(scene.gives("a").1, None);
}
