//! As whom a release is worked on: is its service account there, may it do what is to be done, and what happens to a
//! release whose account is gone.

use crate::api::{ActsAs, reasons};
use crate::cluster::{self, Account, Reference, Referent, Unread};
use crate::plan::rights::Right;
use crate::reconcile::Error;
use crate::reconcile::access::Access;
use crate::watch::Seen;

impl Access<'_> {
    /// The account that is to act is there. Costs a read only while the watch of service accounts knows nothing.
    pub(in crate::reconcile) async fn require_account(&self) -> Result<(), Error> {
        let account = match (&self.scope.settings.acts_as, self.scope.cluster.account()) {
            (ActsAs::Operator, _) => return Ok(()),
            (ActsAs::ServiceAccount(_), Some(account)) => account,
            (ActsAs::ServiceAccount(_), None) | (ActsAs::Nobody, _) => return Err(Error::NoAccount),
        };
        if self.account_exists(account, true).await? {
            return Ok(());
        }
        Err(Error::AccountNotFound { account: account.clone() })
    }

    /// A deletion has no account that could do it. Asks the API server: nothing is ever undone of what follows.
    pub(in crate::reconcile) async fn account_gone(&self) -> Result<bool, Error> {
        match (&self.scope.settings.acts_as, self.scope.cluster.account()) {
            (ActsAs::Operator, _) => Ok(false),
            (_, Some(account)) => Ok(!self.account_exists(account, false).await?),
            (_, None) => Ok(true),
        }
    }

    async fn account_exists(&self, account: &Account, believe_watch: bool) -> Result<bool, Error> {
        let reference = Reference::new(Referent::ServiceAccount, &account.namespace, &account.name);
        match self.scope.ctx.references.seen(&reference) {
            Seen::At(_) if believe_watch => return Ok(true),
            Seen::Absent if believe_watch => return Ok(false),
            Seen::At(_) | Seen::Absent | Seen::Unknown => {}
        }
        let ask = async {
            // As the operator: an account need not be allowed to look at itself.
            match self.scope.ctx.read(&self.scope.ctx.as_operator, &reference).await {
                Ok(found) => Ok(found.is_some()),
                Err(Unread { message, .. }) => {
                    Err(Error::AccountUnknown { account: account.clone(), message })
                }
            }
        };
        if believe_watch { self.scope.ctx.rights.exists(account, ask).await } else { ask.await }
    }

    /// Says what of all this the account lacks. `makes_namespace`: the target namespace is to be created.
    pub(in crate::reconcile) async fn require(
        &self,
        needed: Vec<Right>,
        makes_namespace: bool,
    ) -> Result<(), Error> {
        let missing = self.scope.ctx.rights.missing(self.scope.cluster, needed).await?;
        let Some(account) = self.scope.cluster.account().filter(|_| !missing.is_empty()) else {
            return Ok(());
        };
        // Bindings go with their namespace, so that no account may do anything in one that is not there.
        let target = &self.scope.settings.target_namespace;
        if !makes_namespace
            && missing.refused.iter().any(|right| right.namespace.as_ref() == Some(target))
            && self.scope.cluster.namespace(target).await?.is_none()
        {
            return Err(cluster::Error::NamespaceNotFound { namespace: target.clone() }.into());
        }
        Err(Error::RightsMissing { account: account.clone(), missing: missing.to_string() })
    }

    /// A refusal shows that what is known of the account's rights is old.
    pub(in crate::reconcile) fn doubt_rights(&self, reason: &str) {
        if let Some(account) = self.scope.cluster.account().filter(|_| reason == reasons::FORBIDDEN) {
            self.scope.ctx.rights.forget(account);
        }
    }
}

pub(in crate::reconcile) fn right(
    verb: &'static str,
    group: &str,
    resource: &str,
    namespace: Option<&str>,
    name: &str,
) -> Right {
    Right {
        verb,
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    }
}
