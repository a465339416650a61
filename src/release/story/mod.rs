//! Random stories of one release, told to a model of `reconcile` and of the cluster around it.
//!
//! A story is a list of events: edits of the spec, failures, crashes of the operator between any two writes, other
//! writers, losses and restores. The model of the operator does what `reconcile` does, write by write; whatever decides is
//! the product's own code: `decide`, the plan, the inventories, retention, the past of a revision. After every write and
//! whenever nothing is left to do the promises are checked. A story that breaks one is shrunk and printed with its seed.
//!
//! `make stories` tells many; `STORIES=n` and `STORY_SEED=n` say how many and which.

mod events;
mod faults;
mod model;
mod promises;
mod shell;

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use self::events::{Event, any_event, any_spec};
use self::faults::Fault;
use self::model::{Spec, World};
use self::promises::Promise;
use self::shell::{Memory, Rest, Shell};

/// In one unbroken run, and until a calm world is at rest.
const PASSES: usize = 60;

#[derive(Clone, Debug)]
struct Story {
    spec: Spec,
    events: Vec<Event>,
}

/// A story that broke a promise.
struct Broken {
    promise: Promise,
    how: String,
    story: Story,
    /// Stories told until then.
    told: u32,
}

fn any_story() -> impl Strategy<Value = Story> {
    (any_spec(), proptest::collection::vec(any_event(), 1..32))
        .prop_map(|(spec, events)| Story { spec, events })
}

struct Telling {
    world: World,
    mem: Memory,
    fault: Option<Fault>,
}

impl Telling {
    fn tell(story: &Story, fault: Option<Fault>) -> Option<(Promise, String)> {
        let world = World::new(story.spec);
        let mem = Memory::of_new_process(&world);
        let mut telling = Self { world, mem, fault };
        for event in &story.events {
            match event {
                Event::Work => telling.work(None, false),
                Event::Dies(writes) => telling.work(Some(u32::from(*writes)), false),
                event => telling.world.happens(event),
            }
            if telling.world.truth.broken.is_some() {
                break;
            }
        }
        telling.work(None, true);
        telling.world.truth.broken
    }

    /// The operator works until there is nothing left to do; or dies after so many writes. With `calm` it waits for what
    /// comes by itself.
    fn work(&mut self, writes: Option<u32>, calm: bool) {
        self.world.writes_left = writes;
        let mut setbacks = 0;
        for _ in 0..PASSES {
            let clock = self.world.written;
            let rest = Shell { world: &mut self.world, mem: &mut self.mem, fault: self.fault }.pass();
            if self.world.truth.broken.is_some() {
                return;
            }
            let idle = self.world.written == clock;
            match rest {
                Rest::Dead => {
                    self.world.truth.slack += 1;
                    self.mem = Memory::of_new_process(&self.world);
                    self.world.writes_left = None;
                    return;
                }
                Rest::Busy(until) if idle && calm && until < i64::MAX => {
                    self.world.now = self.world.now.max(until);
                }
                Rest::Busy(_) if idle => return,
                Rest::SetBack => {
                    setbacks += 1;
                    if setbacks > 3 {
                        return self.world.check_at_rest(self.mem.own());
                    }
                }
                Rest::Quiet if idle => return self.world.check_at_rest(self.mem.own()),
                Rest::Busy(_) | Rest::Quiet => {}
            }
        }
        self.world.breaks(Promise::DeployedIsLocked, "it does not come to rest".to_owned());
    }
}

/// The first of so many stories that breaks a promise.
fn look(stories: u32, seed: u64, fault: Option<Fault>, shrinks: u32) -> Option<Broken> {
    let config =
        Config { cases: stories, failure_persistence: None, max_shrink_iters: shrinks, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let (told, found) = (std::cell::Cell::new(0), std::cell::Cell::new(false));
    let result = TestRunner::new_with_rng(config, rng).run(&any_story(), |story| {
        if !found.get() {
            told.set(told.get() + 1);
        }
        match Telling::tell(&story, fault) {
            None => Ok(()),
            Some((promise, how)) => {
                found.set(true);
                Err(TestCaseError::fail(format!("{promise:?}: {how}")))
            }
        }
    });
    match result {
        Ok(()) => None,
        Err(TestError::Fail(_, story)) => {
            let (promise, how) = Telling::tell(&story, fault)?;
            Some(Broken { promise, how, story, told: told.get() })
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

#[allow(clippy::disallowed_methods)]
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn stories_break_no_promise() {
    let (stories, seed) = (number("STORIES", 2_000), number("STORY_SEED", 0));
    let stories = u32::try_from(stories).unwrap();
    if let Some(Broken { promise, how, story, told }) = look(stories, seed, None, 20_000) {
        let events: Vec<String> = story.events.iter().map(|event| format!("    {event:?}")).collect();
        panic!(
            "story {told} with STORY_SEED={seed} breaks {promise:?}: {how}\n{:#?}\n{}",
            story.spec,
            events.join("\n")
        );
    }
}

/// And every promise finds one.
#[test]
fn every_planted_fault_is_found() {
    let mut broken = BTreeSet::new();
    for fault in Fault::ALL {
        let found = look(3_000, 0, Some(fault), 0).unwrap_or_else(|| panic!("{fault:?} is not found"));
        println!("{fault:?}: {:?} after {} stories: {}", found.promise, found.told, found.how);
        broken.insert(found.promise);
    }
    assert_eq!(broken.len(), Promise::COUNT, "{broken:?}");
}
