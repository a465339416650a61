//! When the operator is killed: moments drawn from a seed, spread over the scenes of the story.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;

use super::story::Scene;
use crate::failure::Result;
use crate::operator::Operator;
use crate::random::Random;

/// Kills in one story: the sum of [`Scene::kills`].
pub(crate) const TOTAL: usize = 10;

pub(crate) struct Kills {
    random: Random,
    /// From spawn to ready, of an operator that nobody disturbs.
    start: Duration,
    /// How long each scene takes when nobody is killed.
    calm: BTreeMap<Scene, Duration>,
    count: usize,
}

impl Kills {
    pub(crate) fn new(seed: u64, start: Duration, calm: BTreeMap<Scene, Duration>) -> Self {
        Self { random: Random::new(seed), start, calm, count: 0 }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Kills the operator during one scene. The first moment is somewhere in the scene as the calm run had it,
    /// each later one somewhere in a start and the scene after it: while it starts, works, or has just done.
    /// Gives the moments, counted from the start of the scene or of the process.
    pub(crate) async fn strike(&mut self, scene: Scene, operator: &mut Operator) -> Result<Vec<Duration>> {
        let calm = self.calm.get(&scene).copied().unwrap_or_default();
        let mut moments = Vec::new();
        for kill in 0..scene.kills() {
            let reach = if kill == 0 { calm } else { self.start + calm };
            let moment = self.random.moment(reach.mul_f64(1.2));
            sleep(moment).await;
            operator.kill_and_restart().await?;
            self.count += 1;
            moments.push(moment);
        }
        Ok(moments)
    }
}
