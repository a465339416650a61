//! `make demo`: one release from apply to uninstall, told with times, then once more under `kill -9`.
//!
//! Every line is a check: what it says was seen on the API server, or the run ends with a failure.

mod kills;
mod scenery;
mod story;

use std::time::Instant;

use crate::failure::{Failure, Result, check};
use crate::random;
use kills::Kills;
use scenery::Scenery;
use story::Story;

/// Prints what happened and when.
pub(crate) struct Narrator {
    began: Instant,
}

impl Narrator {
    /// One line of the story; `since` is when this part began.
    pub(crate) fn tell(&self, text: impl std::fmt::Display, since: Instant) {
        let (at, took) = (self.began.elapsed().as_secs_f64(), since.elapsed().as_secs_f64());
        println!("{at:6.1} s  {text}  ({took:.2} s)");
    }

    pub(crate) fn aside(&self, text: impl std::fmt::Display) {
        for line in text.to_string().lines() {
            println!("          {line}");
        }
    }
}

/// Runs the demo. Ends early, but tidily, when `stop` ends.
pub(crate) async fn run(stop: impl Future<Output = Failure>) -> Result<()> {
    let narrator = Narrator { began: Instant::now() };
    let mut stop = std::pin::pin!(stop);
    let scenery = tokio::select! {
        scenery = Scenery::build(&narrator) => scenery?,
        failure = &mut stop => return Err(failure),
    };
    let told = tokio::select! {
        told = both_stories(&scenery, &narrator) => told,
        failure = &mut stop => Err(failure),
    };
    let log = scenery.settings.log_tail();
    let struck = scenery.strike(told.is_ok()).await;
    match told {
        // What failed first is the cause.
        Err(failure) => Err(Failure::new(format!("{failure}\n{log}"))),
        Ok(()) => {
            struck?;
            println!(
                "{:6.1} s  done: everything ended, nothing left",
                narrator.began.elapsed().as_secs_f64()
            );
            Ok(())
        }
    }
}

async fn both_stories(scenery: &Scenery, narrator: &Narrator) -> Result<()> {
    let start = Instant::now();
    let mut operator = scenery.settings.spawn()?;
    operator.ready().await?;
    let start_time = start.elapsed();
    narrator.tell("CRD served, operator ready", start);

    let mut story = Story { scenery, narrator, operator, kills: None };
    let calm = story.tell().await?;

    let seed = match std::env::var("SEED") {
        Ok(text) => text.parse().map_err(|_| Failure::new(format!("SEED={text} is not a number")))?,
        Err(_) => random::seed()?,
    };
    println!(
        "\nThe same again with kill -9 of the operator at ten random moments (SEED={seed} repeats them)"
    );
    story.kills = Some(Kills::new(seed, start_time, calm.durations));
    let stormy = story.tell().await?;
    let killed = story.kills.as_ref().map_or(0, Kills::count);
    check(killed == kills::TOTAL, || format!("killed {killed} times instead of {}", kills::TOTAL))?;
    check(stormy.final_objects == calm.final_objects, || {
        let differing =
            |(title, body): &(&String, &serde_json::Value)| stormy.final_objects.get(*title) != Some(*body);
        let lost: Vec<_> = calm.final_objects.iter().filter(differing).collect();
        let instead: Vec<_> = stormy
            .final_objects
            .iter()
            .filter(|(title, body)| calm.final_objects.get(*title) != Some(body))
            .collect();
        format!("the objects differ from those of the calm run.\ncalm: {lost:#?}\nunder kills: {instead:#?}")
    })?;
    let count = stormy.final_objects.len();
    let same = format!(
        "{killed} kills, and the same end: {count} objects equal after the upgrade, none after uninstall"
    );
    narrator.aside(same);
    // The last kill may have been a moment ago, and a process that has only just begun knows no signals yet.
    story.operator.ready().await?;
    story.operator.stop().await?;
    Ok(())
}
