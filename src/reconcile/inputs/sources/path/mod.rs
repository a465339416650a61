//! A directory or archive below the operator's pack directory.

use std::path::Path;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::signers::Signed;
use super::{LookUp, LookedUp, Source};
use crate::api::sources::FromPath;
use crate::cluster::Reference;
use crate::pack::Limits;
use crate::reconcile::Error;
use crate::reconcile::context::packs::{Found, Place, decoded};
use crate::source::path::load;

impl Source for FromPath {
    fn kind(&self) -> &'static str {
        "path"
    }

    fn references(&self, _: &str) -> Vec<Reference> {
        Vec::new()
    }

    fn look_up<'a>(&'a self, using: &'a LookUp<'a>) -> BoxFuture<'a, Result<LookedUp, Error>> {
        below_pack_dir(&self.0, using).boxed()
    }
}

/// Files are not watched, so they are read again when what is known is too old.
async fn below_pack_dir(path: &str, using: &LookUp<'_>) -> Result<LookedUp, Error> {
    let signed = Signed::of(using).await?;
    let place = Place::Path(path.to_owned(), signed.by.clone());
    let max_age = using.fresh.max_age();
    let holds = |found: &Found| found.read_at.elapsed() < max_age && using.packs.paths.holds(found.read_at);
    if let Some(pack) = using.packs.get(&place, holds) {
        return Ok(LookedUp { pack, fetched: false });
    }
    let turn = using.packs.turn(using.key).await?;
    let Signed { by, keys } = signed.with_keys(using).await?;
    let place = Place::Path(path.to_owned(), by);
    let dir = using.pack_dir.map(Path::to_path_buf).unwrap_or_default();
    let relative = path.to_owned();
    let pack = decoded(turn, move || load(&dir, &relative, keys.as_deref(), &Limits::default())).await??;
    Ok(LookedUp { pack: using.packs.put(place, 0, pack), fetched: true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::stand::{Stand, pack, pack_from};

    #[tokio::test]
    async fn a_path_is_read_once_in_an_interval_and_again_when_that_is_asked_for() {
        let dir = std::env::temp_dir().join(format!("sherpack-source-path-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("web.tgz"), pack("web")).unwrap();
        let mut stand = Stand::refusing(404, "NotFound");
        stand.pack_dir = Some(dir.clone());
        let from = pack_from(&json!({"path": "web.tgz"}));
        for (request, fetched) in [(None, true), (None, false), (Some("now"), true)] {
            let found = stand.look_up(&from, request).await.unwrap();
            assert_eq!((found.pack.metadata.name.as_str(), found.fetched), ("web", fetched), "{request:?}");
        }
        stand.packs.paths().look_again(std::time::Instant::now());
        assert!(stand.look_up(&from, None).await.unwrap().fetched, "a webhook came");
        let gone = stand.look_up(&pack_from(&json!({"path": "gone"})), None).await.err().unwrap();
        assert_eq!(gone.reason(), "SourceNotFound");
        std::fs::remove_dir_all(dir).unwrap();
    }
}
