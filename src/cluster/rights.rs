//! What the one who acts may do, as the API server says.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
};
use kube::api::{Api, PostParams};

use super::{Cluster, Error};
use crate::plan::rights::{Right, Rule};

const DEADLINE: Duration = Duration::from_secs(15);

/// The rules that hold for an account in one namespace, those that hold everywhere included.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub rules: Vec<Rule>,
    /// Some authorizer cannot list its rules: what is not granted here may be allowed all the same.
    pub incomplete: bool,
}

impl Cluster {
    /// The rules of the one who acts, in a namespace. One call.
    ///
    /// # Errors
    /// [`Error::Review`].
    pub async fn rules(&self, namespace: &str) -> Result<Rules, Error> {
        let api: Api<SelfSubjectRulesReview> = Api::all(self.client().clone());
        let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
        let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
        let review = reviewed(namespace, api.create(&PostParams::default(), &review)).await?;
        let Some(status) = review.status else { return Ok(Rules { incomplete: true, ..Rules::default() }) };
        let rules = status.resource_rules.into_iter().map(|rule| Rule {
            verbs: rule.verbs,
            groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            names: rule.resource_names.unwrap_or_default(),
        });
        Ok(Rules { rules: rules.collect(), incomplete: status.incomplete })
    }

    /// Whether the one who acts has a right; without a name for any name. One call.
    ///
    /// # Errors
    /// [`Error::Review`].
    pub async fn may(&self, right: &Right) -> Result<bool, Error> {
        let Right { verb, group, resource, namespace, name } = right;
        let (resource, subresource) = match resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (resource.as_str(), None),
        };
        let attributes = ResourceAttributes {
            group: Some(group.clone()),
            name: Some(name.clone()).filter(|name| !name.is_empty()),
            namespace: namespace.clone(),
            resource: Some(resource.to_owned()),
            subresource: subresource.map(str::to_owned),
            verb: Some((*verb).to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..SelfSubjectAccessReviewSpec::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client().clone());
        let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
        let place = namespace.as_deref().unwrap_or("the cluster");
        let review = reviewed(place, api.create(&PostParams::default(), &review)).await?;
        Ok(review.status.is_some_and(|status| status.allowed))
    }
}

async fn reviewed<T>(place: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    let late = || {
        let late = std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer within 15s");
        kube::Error::Service(Box::new(late))
    };
    let answer = tokio::time::timeout(DEADLINE, call).await.unwrap_or_else(|_| Err(late()));
    answer.map_err(|source| Error::Review { place: place.to_owned(), source: Box::new(source) })
}
