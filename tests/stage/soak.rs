//! `make soak MINUTES=30 SEED=n`: a long random story of many releases, with everything around them failing.
//!
//! In rounds. First people work on the releases while the operator is killed, the API server dies, etcd stands still and another
//! writer touches records and objects. Then all disturbances end, every release has to come to rest as its newest wish asks,
//! and what must hold is checked from outside. The seed chooses steps and disturbances; how they meet is up to the machine,
//! so a seed repeats the story and not always its end.
//!
//! Held: what was there before a release is never lost unless it was deployed; a failed revision takes nothing of the deployed one; no
//! hook runs twice, and no Job for a revision; records are bounded; what is deployed is locked; every release ends where its wish says, with nothing pending;
//! the operator never ends by itself.

mod calls;
mod check;
mod disturb;
mod jobs;
mod settle;
mod story;
mod tracked;
mod wish;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tokio::time::sleep;

use crate::cluster::{Cluster, root};
use crate::failure::{During, Failure, Result, check as ensure};
use crate::objects::text;
use crate::operator::{self, Settings};
use crate::random::{self, Random};
use crate::release;
use calls::Calls;
use check::Sighting;
use disturb::{Disturber, rival};
use jobs::Jobs;
use settle::{Fit, fit};
use story::{People, Step, choose};
use tracked::Tracked;
use wish::{Archive, Fate, Traits, Wish, files};

const NAMESPACES: usize = 3;
/// People and disturbances are at work for so long in a round.
const STORM: Duration = Duration::from_secs(20);
/// The longest time between two steps.
const SLOW: Duration = Duration::from_secs(6);
/// A release that is disturbed no more rests within this time: every attempt may have to time out, and starts over once.
const RESTS_WITHIN: Duration = Duration::from_secs(240);
/// What is changed by hand is put back within this time, also where it was changed a few times just before.
const LOCKED_WITHIN: Duration = Duration::from_secs(25);
/// So many rounds apart a release is probed: an object that is changed often is put back later and later.
const PROBED_EVERY: usize = 4;

fn say(text: impl std::fmt::Display) {
    eprintln!("soak: {text}");
}

fn number(name: &str, default: Option<u64>) -> Result<u64> {
    match (std::env::var(name), default) {
        (Ok(text), _) if !text.is_empty() => {
            text.parse().map_err(|_| Failure::new(format!("{name}={text} is not a number")))
        }
        (_, Some(default)) => Ok(default),
        (_, None) => random::seed(),
    }
}

pub(crate) async fn run() -> Result<()> {
    let minutes = number("MINUTES", Some(30))?;
    let seed = number("SEED", None)?;
    let releases = number("RELEASES", Some(30))? as usize;
    let cluster = Cluster::start(&[]).await?;
    say(format!("SEED={seed}: {releases} releases for {minutes} minutes on {}", cluster.version().await?));
    let settings = Settings::new(&cluster.kubeconfig, "sherpack-system", None, "soak.log")?;
    let mut soak = Soak::begin(&cluster, &settings, seed, releases).await?;
    let told = soak.rounds(Duration::from_secs(minutes * 60)).await;
    let cluster_story = soak.disturber.told.join("; ");
    soak.print(seed, told.is_ok());
    if let Err(failure) = told {
        let (log, found) = (settings.log.display(), keep(&cluster).await);
        return Err(Failure::new(format!(
            "SEED={seed}, round {}: {failure}\nthe cluster in this round: {cluster_story}\n\
             log of the operator: {log}; what the cluster held: {found}",
            soak.round
        )));
    }
    soak.disturber.operator.stop().await?;
    cluster.end().await
}

struct Soak {
    random: Random,
    releases: Vec<Tracked>,
    people: People,
    disturber: Disturber,
    jobs: Jobs,
    began: Instant,
    round: usize,
    checks: usize,
    probes: usize,
    touched: usize,
    /// Releases whose tries the disturbances took, and that were asked to start over.
    spent: usize,
    slowest_rest: Duration,
}

impl Soak {
    async fn begin(cluster: &Cluster, settings: &Settings, seed: u64, releases: usize) -> Result<Self> {
        let client = &cluster.client;
        release::install_crd(client, &operator::output(&["crd"]).await?, None).await?;
        release::create_namespace(client, "sherpack-system").await?;
        for index in 0..NAMESPACES {
            release::create_namespace(client, &format!("soak-{index}")).await?;
        }
        let mut archives = BTreeMap::new();
        for archive in [Archive::First, Archive::Second, Archive::Broken] {
            archives.insert(archive, package(archive).await?);
        }
        let mut random = Random::new(seed);
        let track = |index| {
            let traits = Traits::draw(&mut random, index, NAMESPACES);
            let wish = Wish::draw(&mut random, 0, Archive::First, Fate::Good);
            Tracked::new(traits, wish)
        };
        let releases = (0..releases).map(track).collect();
        let mut operator = settings.spawn()?;
        operator.ready().await?;
        Ok(Self {
            random,
            releases,
            people: People {
                calls: Calls { client: client.clone() },
                archives,
                counts: BTreeMap::new(),
                turn: 0,
            },
            disturber: Disturber::new(operator, cluster),
            jobs: Jobs::watch(client.clone()),
            began: Instant::now(),
            round: 0,
            checks: 0,
            probes: 0,
            touched: 0,
            spent: 0,
            slowest_rest: Duration::ZERO,
        })
    }

    async fn rounds(&mut self, lasts: Duration) -> Result<()> {
        while self.round == 0 || self.began.elapsed() < lasts {
            self.round += 1;
            self.by_hand().await?;
            self.storm().await?;
            self.disturber.operator.ready().await?;
            self.rest().await?;
            self.check().await?;
            self.probe().await?;
            self.disturber.measure()?;
            say(format!(
                "round {} at {} s: all at rest and as they should be; operator at most {} MiB",
                self.round,
                self.began.elapsed().as_secs(),
                self.disturber.peak
            ));
        }
        Ok(())
    }

    /// People make objects where no release has them.
    async fn by_hand(&mut self) -> Result<()> {
        for of in &mut self.releases {
            let free = !of.present || (of.at_rest && !of.may_hold_hands());
            if free && self.random.one_in(3) {
                self.people.make_by_hand(of).await?;
            }
        }
        Ok(())
    }

    async fn storm(&mut self) -> Result<()> {
        let steps: Vec<u64> = (0..3).map(|_| self.random.below(1 << 30) as u64).collect();
        let [mut people, mut cluster, mut other] = [0, 1, 2].map(|at| Random::new(steps[at]));
        let calls = self.people.calls.clone();
        let first = self.round == 1;
        let work = async {
            let began = Instant::now();
            let count = self.releases.len();
            let pause = STORM.div_f64(count.max(1) as f64);
            // In the first round all are made; later some have several steps and some none.
            for at in 0..count {
                let at = if first { at } else { people.below(count) };
                let Some(of) = self.releases.get_mut(at) else { continue };
                for _ in 0..=people.below(3) {
                    let step = if first && !of.present { Step::Create } else { choose(&mut people, of) };
                    let done = self.people.act(&mut people, of, step).await;
                    done.map_err(|failure| violation(failure, of))?;
                    // Now and then there is time for hooks to run and waits to begin, mostly not.
                    let slow = !first && people.one_in(4);
                    sleep(people.moment(if slow { SLOW } else { pause })).await;
                    if first {
                        break;
                    }
                }
                if !first && began.elapsed() > STORM {
                    break;
                }
            }
            Ok::<_, Failure>(())
        };
        let disturbances = self.disturber.disturb(&mut cluster, STORM);
        let ((), (), touched) = tokio::try_join!(work, disturbances, rival(&calls, &mut other, STORM))?;
        self.touched += touched;
        Ok(())
    }

    /// Waits until every release rests where its wish says, twice in a row: a status may be from before a change of the pack.
    async fn rest(&mut self) -> Result<()> {
        let began = Instant::now();
        let mut calm = 0;
        // A reset is heeded in an instant, but not in none.
        let mut asked: BTreeMap<usize, Instant> = BTreeMap::new();
        while calm < 2 {
            sleep(Duration::from_secs(2)).await;
            self.disturber.operator.lives()?;
            let seen = Sighting::brief(&self.people.calls).await?;
            let mut restless = Vec::new();
            for (at, of) in self.releases.iter_mut().enumerate() {
                match fit(of, seen.release(of), seen.live(of)) {
                    Fit::Fits => continue,
                    Fit::Not(why) => restless.push((at, why)),
                    Fit::Spent => {
                        let again = asked.get(&at).is_none_or(|at| at.elapsed() > Duration::from_secs(20));
                        if again {
                            of.tell("its tries are spent; asked to start over".to_owned());
                            self.people.reset(of).await?;
                            asked.insert(at, Instant::now());
                            self.spent += 1;
                        }
                        restless.push((at, "its tries are spent again".to_owned()));
                    }
                }
            }
            calm = if restless.is_empty() { calm + 1 } else { 0 };
            if began.elapsed() > RESTS_WITHIN && calm == 0 {
                return Err(self.restless(&restless));
            }
        }
        self.slowest_rest = self.slowest_rest.max(began.elapsed());
        Ok(())
    }

    /// All that do not come to rest: one cause often stops several.
    fn restless(&self, restless: &[(usize, String)]) -> Failure {
        let told = restless.iter().filter_map(|(at, why)| {
            let why = format!("not at rest within {} s: {why}", RESTS_WITHIN.as_secs());
            Some(violation(Failure::new(why), self.releases.get(*at)?).to_string())
        });
        Failure::new(told.collect::<Vec<_>>().join("\n\n"))
    }

    async fn check(&mut self) -> Result<()> {
        let seen = Sighting::full(&self.people.calls).await?;
        for of in &mut self.releases {
            let checked = check::release(&self.people.calls, &seen, of).await;
            checked.map_err(|failure| violation(failure, of))?;
            self.checks += 1;
        }
        let retried =
            |name: &str| self.releases.iter().find(|of| name.starts_with(&format!("{}-", of.traits.name)));
        self.jobs.check(|_, name| retried(name).is_some_and(|of| of.traits.hook_retries))
    }

    /// What is deployed is locked: a field is changed by hand and has to come back.
    async fn probe(&mut self) -> Result<()> {
        let round = self.round;
        let calls = &self.people.calls;
        let due = self
            .releases
            .iter()
            .enumerate()
            .filter(|(at, of)| at % PROBED_EVERY == round % PROBED_EVERY && of.at_rest);
        let probe = |(_, of): (usize, &Tracked)| {
            let (calls, namespace) = (calls.clone(), of.traits.namespace.clone());
            let title = format!("ConfigMap/{}", of.traits.object("main"));
            let turn = of.revisions.values().next_back().map(|id| id.0.to_string()).unwrap_or_default();
            let story = violation(Failure::new("not locked"), of);
            async move {
                calls.edit(&namespace, &title, &json!({"data": {"turn": "probe"}})).await?;
                let began = Instant::now();
                loop {
                    let found = calls.get(&namespace, &title).await?;
                    if found.is_some_and(|object| text(&object.data["data"]["turn"]) == turn) {
                        return Ok::<_, Failure>(());
                    }
                    ensure(began.elapsed() < LOCKED_WITHIN, || {
                        format!(
                            "{title}: turn was changed by hand and is not {turn} again within {} s: {story}",
                            LOCKED_WITHIN.as_secs()
                        )
                    })?;
                    sleep(Duration::from_millis(100)).await;
                }
            }
        };
        let probes: Vec<_> = due.map(probe).collect();
        self.probes += probes.len();
        stream::iter(probes).buffer_unordered(4).try_collect::<Vec<()>>().await.map(drop)
    }

    /// The summary, one JSON object.
    fn print(&self, seed: u64, held: bool) {
        let (runs, plain) = self.jobs.counts();
        let summary = json!({
            "seed": seed, "held": held, "rounds": self.round, "seconds": self.began.elapsed().as_secs(),
            "releases": self.releases.len(), "steps": self.people.counts, "disturbances": self.disturber.counts,
            "touched_by_another_writer": self.touched, "releases_checked": self.checks, "locks_probed": self.probes,
            "asked_to_start_over": self.spent, "hook_runs": runs, "plain_jobs": plain,
            "slowest_rest_s": self.slowest_rest.as_secs(), "operator_peak_mib": self.disturber.peak,
        });
        println!("{}", serde_json::to_string_pretty(&summary).unwrap_or_default());
    }
}

/// Keeps what the cluster held when something was wrong, for whoever looks into it; gives the file or why there is none.
async fn keep(cluster: &Cluster) -> String {
    let kinds = "srel,configmaps,secrets,services,deployments,persistentvolumeclaims,jobs,events";
    let file = root().join("target/stage/soak-cluster.yaml");
    match cluster.kubectl(&["get", kinds, "-A", "-o", "yaml", "--show-managed-fields"]).await {
        Ok(text) => std::fs::write(&file, text)
            .map_or_else(|error| error.to_string(), |()| file.display().to_string()),
        Err(failure) => failure.to_string(),
    }
}

/// What is wrong with a release, with what was done to it.
fn violation(failure: Failure, of: &Tracked) -> Failure {
    let steps: Vec<_> = of.steps.iter().map(|step| format!("  {step}")).collect();
    Failure::new(format!(
        "{}/{}: {failure}\n{:?}\nits last steps:\n{}",
        of.traits.namespace,
        of.traits.name,
        of.traits,
        steps.join("\n")
    ))
}

/// The archive of one of the packs.
async fn package(archive: Archive) -> Result<Vec<u8>> {
    let name = format!("soak-{archive:?}").to_lowercase();
    let directory = root().join("target/stage").join(&name);
    std::fs::create_dir_all(directory.join("templates")).during(directory.display())?;
    for (file, content) in files(archive) {
        std::fs::write(directory.join(file), content).during(file)?;
    }
    operator::package_directory(&directory, &name).await
}
