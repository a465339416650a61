//! What creates and deletes objects. Everything else that is written is an apply.

use kube::ResourceExt as _;
pub use kube::api::PropagationPolicy as Propagation;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams, Preconditions};
use serde_json::Value;

use super::handle::{Applied, Cluster, Mode};
use super::handle::{Meta, namespace_id, within};
use crate::api::names;
use crate::cluster::Error;
use crate::manifest::ObjectId;

/// How a create came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// With the uid of what was made.
    New(Option<String>),
    /// Something of this name is there.
    Exists,
}

/// No object ever has this resourceVersion: it is that of an etcd that holds nothing. An apply that names it creates, or is a conflict.
const NEVER: &str = "1";

impl Cluster {
    /// [`Cluster::apply`] of an object that must not be there yet; `None` when it is, or when the server of the kind cannot tell.
    /// Nothing is changed then.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub async fn apply_new(
        &self,
        api_version: &str,
        id: &ObjectId,
        body: &Value,
    ) -> Result<Option<Applied>, Error> {
        let mut body = body.clone();
        body["metadata"]["resourceVersion"] = NEVER.into();
        match self.apply(api_version, id, &body, Mode::Real).await {
            Ok(applied) => Ok(Some(applied)),
            Err(error) if error.is_conflict() || error.is_about_version() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object that must not be there yet, by manager `sherpack-operator`: an apply would find the finished run
    /// of before and call it done.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn create(&self, api_version: &str, id: &ObjectId, body: &Value) -> Result<Created, Error> {
        match self.post(api_version, id, body.clone(), Mode::Real).await {
            Ok(made) => Ok(Created::New(made.uid())),
            Err(error) if error.is_already_there() => Ok(Created::Exists),
            Err(error) if error.is_not_found() => Err(self.explain_not_found(api_version, id).await),
            Err(error) => Err(error),
        }
    }

    pub(in crate::cluster) async fn post(
        &self,
        api_version: &str,
        id: &ObjectId,
        body: Value,
        mode: Mode,
    ) -> Result<DynamicObject, Error> {
        self.create_as(names::MANAGER_OWN, api_version, id, body, mode).await
    }

    /// The same in the name of another manager.
    pub(in crate::cluster) async fn create_as(
        &self,
        manager: &str,
        api_version: &str,
        id: &ObjectId,
        body: Value,
        mode: Mode,
    ) -> Result<DynamicObject, Error> {
        let api = self.api(api_version, id).await?;
        let object: DynamicObject = serde_json::from_value(body).map_err(|source| Error::Api {
            verb: "create",
            id: id.clone(),
            source: Box::new(kube::Error::SerdeError(source)),
        })?;
        let params = PostParams { field_manager: Some(manager.to_owned()), dry_run: mode == Mode::DryRun };
        within("create", id, api.create(&params, &object)).await
    }

    /// Deletes exactly the object with `uid`; `true` when it was there. Pods and other dependents go in the background.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`. An object of another uid counts as gone.
    pub async fn delete(&self, api_version: &str, id: &ObjectId, uid: &str) -> Result<bool, Error> {
        self.delete_with(api_version, id, uid, Propagation::Background).await
    }

    /// [`Cluster::delete`], saying what becomes of its dependents.
    ///
    /// # Errors
    /// As [`Cluster::delete`].
    pub async fn delete_with(
        &self,
        api_version: &str,
        id: &ObjectId,
        uid: &str,
        propagation: Propagation,
    ) -> Result<bool, Error> {
        let api = self.api(api_version, id).await?;
        let params = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        match within("delete", id, api.delete(&id.name, &params)).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            // Another object of this name is there now, or something else stood in the way of ours.
            Err(error) if error.is_conflict() => match self.metadata(api_version, id).await? {
                Some(meta) if meta.uid.as_deref() == Some(uid) => Err(error),
                _ => Ok(false),
            },
            Err(error) => Err(error),
        }
    }

    /// Creates a namespace when there is none. It is never deleted by us.
    ///
    /// # Errors
    /// What the API server answered, or `Timeout`.
    pub async fn ensure_namespace(&self, name: &str) -> Result<(), Error> {
        use k8s_openapi::api::core::v1::Namespace;
        if self.namespace(name).await?.is_some() {
            return Ok(());
        }
        let id = namespace_id(name);
        let namespace = Namespace {
            metadata: Meta { name: Some(name.to_owned()), ..Meta::default() },
            ..Namespace::default()
        };
        let params =
            PostParams { field_manager: Some(names::MANAGER_OWN.to_owned()), ..PostParams::default() };
        match within("create", &id, Api::all(self.client().clone()).create(&params, &namespace)).await {
            Ok(_) => Ok(()),
            // Another client was faster.
            Err(error) if error.is_conflict() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
