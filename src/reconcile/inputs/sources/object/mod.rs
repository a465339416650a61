//! An archive in a ConfigMap or Secret of the release's namespace.

mod archive;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::signers::Signed;
use super::{LookUp, LookedUp, Source, unread};
use crate::api::sources::FromObject;
use crate::cluster::Reference;
use crate::pack::Limits;
use crate::reconcile::Error;
use crate::reconcile::context::fair::Turn;
use crate::reconcile::context::packs::{Place, decoded};
use crate::watch::Seen;

impl Source for FromObject {
    fn kind(&self) -> &'static str {
        self.kind.as_str()
    }

    fn references(&self, namespace: &str) -> Vec<Reference> {
        vec![self.reference(namespace)]
    }

    fn look_up<'a>(&'a self, using: &'a LookUp<'a>) -> BoxFuture<'a, Result<LookedUp, Error>> {
        self.in_object(using).boxed()
    }
}

impl FromObject {
    fn reference(&self, namespace: &str) -> Reference {
        Reference::new(self.kind, namespace, &self.name)
    }

    /// The object is read again when the watch says that it is another one, or when that is asked for.
    async fn in_object(&self, using: &LookUp<'_>) -> Result<LookedUp, Error> {
        let reference = self.reference(&using.key.namespace);
        let signed = Signed::of(using).await?;
        let place = self.place(&reference, &signed, using);
        let known = || match using.references.seen(&reference) {
            Seen::At(version) => {
                let pack = using.packs.get(&place, |found| found.version == version)?;
                Some(LookedUp { pack, fetched: false })
            }
            _ => None,
        };
        if using.fresh.request.is_some() {
            // Mostly it is as it was, and needs no turn.
            return self.read(using, &reference, signed, None).await;
        }
        if let Some(known) = known() {
            return Ok(known);
        }
        // Before it is read, so that no read is in vain.
        let turn = Some(using.packs.turn(using.key).await?);
        let read = self.read(using, &reference, signed, turn);
        using.packs.reading.once(&place, known, read).await
    }

    async fn read(
        &self,
        using: &LookUp<'_>,
        reference: &Reference,
        signed: Signed,
        turn: Option<Turn>,
    ) -> Result<LookedUp, Error> {
        let contents = match using.read(reference).await {
            Ok(Some(contents)) => contents,
            Ok(None) => return Err(Error::PackObjectNotFound { reference: reference.clone() }),
            Err(why) => return Err(unread(reference.clone(), "spec.pack", why)),
        };
        let version = contents.version;
        if !contents.is_record
            && let Some(pack) =
                using.packs.get(&self.place(reference, &signed, using), |found| found.version == version)
        {
            return Ok(LookedUp { pack, fetched: true });
        }
        let turn = match turn {
            Some(turn) => turn,
            None => using.packs.turn(using.key).await?,
        };
        let signed = signed.with_keys(using).await?;
        let place = self.place(reference, &signed, using);
        let (from, wanted, keys) = (reference.clone(), self.key.clone(), signed.keys);
        let decode = move || {
            archive::pack_from(&from, &contents, wanted.as_deref(), keys.as_deref(), &Limits::default())
        };
        let pack = decoded(turn, decode).await??;
        Ok(LookedUp { pack: using.packs.put(place, version, pack), fetched: true })
    }

    fn place(&self, reference: &Reference, signed: &Signed, using: &LookUp<'_>) -> Place {
        let account = using.reader.account().cloned();
        Place::Object(account, reference.clone(), self.key.clone(), signed.by.clone())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::{Value, json};

    use super::super::stand::{Stand, pack, pack_from};

    fn config_map() -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "p", "namespace": "apps", "resourceVersion": "7"},
            "binaryData": {"web.tgz": ByteString(pack("web"))},
        })
    }

    #[tokio::test]
    async fn an_object_is_read_once_while_the_watch_shows_the_same_and_again_when_that_is_asked_for() {
        let stand = Stand::holding(&config_map());
        let from = pack_from(&json!({"configMap": {"name": "p"}}));
        for (request, fetched, reads) in [(None, true, 1), (None, false, 1), (Some("now"), true, 2)] {
            let found = stand.look_up(&from, request).await.unwrap();
            assert_eq!((found.pack.metadata.name.as_str(), found.fetched), ("web", fetched), "{request:?}");
            assert_eq!(stand.reads(), reads, "{request:?}");
        }
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_read_is_named_with_its_reason() {
        let from = pack_from(&json!({"secret": {"name": "p"}}));
        for (code, answer, reason) in [
            (404, "NotFound", "SourceNotFound"),
            (403, "Forbidden", "Forbidden"),
            (500, "InternalError", "SourceUnreachable"),
        ] {
            let error = Stand::refusing(code, answer).look_up(&from, None).await.err().unwrap();
            assert_eq!(error.reason(), reason);
            assert!(error.to_string().contains("Secret apps/p of spec.pack"), "{error}");
        }
    }
}
