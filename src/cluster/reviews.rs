//! Whose token a client shows, and whether that account may get a path: two questions to the API server.

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

/// What the API server says of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Visitor {
    /// It is no account's, or not valid any more.
    Unknown,
    /// Its user may not.
    Denied {
        user: String,
    },
    Allowed,
}

/// Whether the user of a token may get a path that is no resource.
///
/// # Errors
/// What the API server answered, or that it did not.
pub async fn may_get(client: &Client, token: &str, path: &str) -> kube::Result<Visitor> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), ..TokenReviewSpec::default() };
    let review = TokenReview { spec, ..TokenReview::default() };
    let tokens: Api<TokenReview> = Api::all(client.clone());
    let status = tokens.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
    let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
        return Ok(Visitor::Unknown);
    };
    let name = user.username.clone().unwrap_or_default();
    let review = SubjectAccessReview { spec: question(user, path), ..SubjectAccessReview::default() };
    let access: Api<SubjectAccessReview> = Api::all(client.clone());
    let status = access.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
    Ok(if status.allowed { Visitor::Allowed } else { Visitor::Denied { user: name } })
}

fn question(user: UserInfo, path: &str) -> SubjectAccessReviewSpec {
    let UserInfo { extra, groups, uid, username } = user;
    SubjectAccessReviewSpec {
        extra,
        groups,
        uid,
        user: username,
        non_resource_attributes: Some(NonResourceAttributes {
            path: Some(path.to_owned()),
            verb: Some("get".to_owned()),
        }),
        resource_attributes: None,
    }
}
