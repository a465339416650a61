//! From the reason of a release to the one command that helps next.

use crate::api::reasons as r;

/// What is known of the release that asks for advice.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct About {
    /// How this program was called.
    pub(in crate::cli) tool: &'static str,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    pub(in crate::cli) target_namespace: String,
    /// The service account that acts for it, if it names one.
    pub(in crate::cli) account: Option<String>,
    /// The object that is waited for first, as `kind/name`, and its namespace.
    pub(in crate::cli) object: Option<(String, Option<String>)>,
    /// The only release that this one depends on: namespace and name.
    pub(in crate::cli) dependency: Option<(String, String)>,
}

/// Why, and which command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Advice {
    pub(in crate::cli) why: &'static str,
    pub(in crate::cli) command: String,
}

/// What to do next, by kind.
enum Next {
    /// Look at the history.
    History,
    Hooks,
    Test,
    Wait,
    Reset,
    Reconcile,
    Resume,
    Status,
    List,
    Stale,
    /// See the release's own Events and conditions.
    Describe,
    /// See the object that is not as it should be.
    DescribeObject,
    Edit,
    /// Print a part of the release.
    Show(&'static str),
    Merge(&'static str),
    Approve,
    CreateNamespace,
    LookAtNamespace,
    Permissions,
    ServiceAccounts,
}

/// The advice for a reason; every reason has one, those of newer operators too.
pub(in crate::cli) fn advice(reason: &str, about: &About) -> Advice {
    let (why, next) = known(reason).unwrap_or(UNKNOWN);
    Advice { why, command: next.command(about) }
}

/// The page of the reasons, as it stands in the repository.
const PAGE: &str = "docs/reference/reasons.md";

/// Where the documentation tells about a reason; `None` for one of a newer operator, of which this documentation knows nothing.
pub(in crate::cli) fn page(reason: &str) -> Option<String> {
    known(reason).map(|_| format!("{PAGE}#{}", reason.to_lowercase()))
}

/// Why a release with this reason does not get on, for the reference; `None` for a reason without an advice.
#[cfg(test)]
pub(crate) fn way_out(reason: &str) -> Option<&'static str> {
    known(reason).map(|(why, _)| why)
}

const UNKNOWN: (&str, Next) = ("this reason is of a newer operator: its events say more", Next::Describe);

#[expect(clippy::too_many_lines, reason = "a table: each reason, and what helps")]
fn known(reason: &str) -> Option<(&'static str, Next)> {
    Some(match reason {
        // Work.
        r::PROGRESSING | "Fetching" => ("it is being worked on: follow it", Next::Wait),
        r::DEPLOYED
        | r::INSTALL_SUCCEEDED
        | r::UPGRADE_SUCCEEDED
        | r::ROLLBACK_SUCCEEDED
        | r::HEALTHY
        | r::NO_DRIFT => ("nothing has to be done; its revisions so far", Next::History),
        r::INSTALL_FAILED | r::UPGRADE_FAILED | r::ROLLBACK_FAILED => {
            ("it is tried again by itself; what led to this", Next::History)
        }
        r::UNINSTALLING => ("its objects are going: follow it", Next::Wait),
        r::WAITING_FOR_DEPENDENTS => {
            ("releases that depend on it go first: see which are being deleted", Next::List)
        }
        r::UNINSTALL_SUCCEEDED | r::ORPHANED => ("it is gone; the other releases", Next::List),
        r::UNINSTALL_FAILED => ("this object does not go: a finalizer may hold it", Next::DescribeObject),
        r::INTERRUPTED => ("a newer spec took its place: follow that", Next::Wait),
        r::RESUMED => ("a new process goes on with it: follow it", Next::Wait),
        r::RETRIES_EXCEEDED => ("mend the cause above, then let it try again at once", Next::Reset),
        // Holds.
        r::LOCKED => ("nothing has to be done; what was put back", Next::Describe),
        r::STANDING_BACK => (
            "it locks again by itself once the release is deployed; which revision it follows",
            Next::Describe,
        ),
        r::RELEASE_NOT_FOUND => {
            ("install what spec.lock names, or correct the name", Next::Show("{.spec.lock}"))
        }
        r::LOCK_TOO_LARGE => (
            "install it as several releases, or run the operator with a higher --lock-objects",
            Next::Show("{.spec.lock}"),
        ),
        r::LOCK_NEEDS_ACCOUNT => ("name an account in spec.serviceAccountName", Next::Edit),
        r::SUSPENDED => ("nothing is done until it is resumed", Next::Resume),
        r::PAUSED => (
            "a newer revision is held back until upgrades are unpaused",
            Next::Merge(r#"{"spec":{"upgrade":{"paused":null}}}"#),
        ),
        r::AWAITING_APPROVAL => ("read the plan above, then approve it", Next::Approve),
        r::DEPENDENCY_NOT_READY => ("it goes on by itself when this is Ready", Next::Status),
        r::RELEASE_NAME_TAKEN => ("two releases want one name: see which", Next::List),
        r::FOREIGN_PENDING => {
            ("it goes on by itself; whose the pending revision is, and until when", Next::Stale)
        }
        r::DURATION_OUT_OF_RANGE => ("write a duration that is in range", Next::Edit),
        r::DEPENDENCY_CYCLE => ("take one of the named releases out of spec.dependsOn", Next::Edit),
        // Hooks.
        r::HOOK_FAILED | r::HOOK_TIMEOUT => {
            ("see what the hook did; its object stays until its result is stored", Next::DescribeObject)
        }
        r::HOOK_VANISHED => {
            ("a user or controller deleted the hook while it ran; which hooks there are", Next::Hooks)
        }
        r::HOOK_EXISTS => {
            ("delete what an earlier run left, or change its delete policy", Next::DescribeObject)
        }
        r::TESTS_SUCCEEDED => ("nothing has to be done; its revisions so far", Next::History),
        r::TEST_FAILED => ("when the cause is mended, test again", Next::Test),
        // Input.
        r::ROLLBACK_TARGET_INVALID => ("choose a revision that was deployed", Next::History),
        r::NOT_SUPPORTED | r::INVALID_SPEC => {
            ("correct the field that is named above (where the release is kept in Git: there)", Next::Edit)
        }
        r::SOURCE_NOT_FOUND
        | r::SOURCE_INVALID
        | "ArtifactNotReady"
        | "ArtifactReplaced"
        | "ArtifactUnsupported"
        | "FluxNotInstalled"
        | "RepositoryIndexInvalid"
        | "SourceAccessDenied"
        | "SourceCorrupt"
        | "SourceForbidden"
        | "SourceRedirectRefused"
        | "SignatureInvalid"
        | "SourceThrottled"
        | "SourceUnauthorized"
        | "SourceUnavailable"
        | "SourceUnreachable"
        | "SourceUnreadable"
        | "SourceUntrusted"
        | "VersionNotFound"
        | "DigestMismatch" => ("check where its pack is said to be", Next::Show("{.spec.pack}")),
        "CredentialsNotFound" | "CredentialsUnreadable" | "CredentialsInvalid" => {
            ("check the Secret with the credentials of its pack", Next::Show("{.spec.pack}"))
        }
        r::PACK_INVALID
        | r::RENDER_FAILED
        | r::OBJECT_INVALID
        | r::EMPTY_RENDER
        | r::ANNOTATION_INVALID
        | "TemplatedInCrdsDir"
        | "NonCrdInCrdsDir"
        | r::WAIT_FOR_INVALID
        | "DependencyInvalid"
        | "DependencyLockInvalid"
        | "DependencyLockStale"
        | "DependencyMissing"
        | "InvalidManifest"
        | "InvalidYaml"
        | "KubernetesVersion"
        | "ManifestMismatch"
        | "PackDuplicatePath"
        | "PackEntryRefused"
        | "PackIsLibrary"
        | "PackLinkRefused"
        | "HelmEngineMissing"
        | "PackNotAnArchive"
        | "PackPathRefused"
        | "PackTooLarge"
        | "RenderAborted"
        | "RenderLimit"
        | "SchemaInvalid"
        | "SchemaReferenceRefused" => {
            ("mend the pack or the values where it says, then let it look again", Next::Reconcile)
        }
        r::VALUES_NOT_FOUND | r::VALUES_UNREACHABLE => {
            ("check where its values are said to be", Next::Show("{.spec.valuesFrom}"))
        }
        r::VALUES_INVALID | r::VALUES_NOT_AN_OBJECT | r::VALUES_TOO_LARGE => {
            ("correct the values that are named above", Next::Edit)
        }
        // Cluster.
        r::OBJECT_NOT_OWNED => (
            "name the object otherwise, or let the release take it over with spec.install.adopt: Unowned",
            Next::Edit,
        ),
        r::IMMUTABLE_FIELD => (
            "choose what happens to the object: spec.upgrade.immutableFields, or another name for it",
            Next::Edit,
        ),
        r::CRD_BREAKING_CHANGE => (
            "read what it would break; then name it in spec.crds.confirmChanges, or choose spec.crds.upgrade",
            Next::Show("{.status.crds}"),
        ),
        r::CRD_DELETION_BLOCKED => (
            "read what would be lost; then name it in spec.crds.confirmDeletion, or keep it with onUninstall: Keep",
            Next::Edit,
        ),
        r::OWNERSHIP_CONFLICT => {
            ("give it the policy shared in both packs, or external in this one", Next::List)
        }
        r::CRD_NOT_READY => {
            ("see what the API server says of the definition that is named above", Next::DescribeObject)
        }
        "AdoptionTooLarge" => {
            ("bring the object closer to what the pack wants, or name it otherwise in the pack", Next::Edit)
        }
        r::HANDED_BACK => ("it is as it was before the release; its revisions so far", Next::History),
        r::RECREATED => ("a field of it could not change; its revisions so far", Next::History),
        r::APPLY_FAILED
        | "ApiTimeout"
        | "ObjectAppeared"
        | "DiscoveryFailed"
        | "StatusWriteFailed"
        | "StorageTimeout"
        | "StorageUnavailable"
        | "NoRandomness" => ("it is tried again by itself; its events say more", Next::Describe),
        r::FORBIDDEN | "StorageForbidden" => {
            ("a right is missing: see what the account that acts for it may do", Next::Permissions)
        }
        r::SERVICE_ACCOUNT_NOT_FOUND => {
            ("create it with its rights, or name another one; there are", Next::ServiceAccounts)
        }
        r::SERVICE_ACCOUNT_REQUIRED => ("set spec.serviceAccountName", Next::Edit),
        r::CROSS_NAMESPACE_REFUSED => ("refer to its own namespace only", Next::Edit),
        "RightsUnknown" | "ServiceAccountUnknown" => {
            ("it is tried again by itself; its events say more", Next::Describe)
        }
        r::NOT_LEADER => ("another replica takes over: follow it", Next::Wait),
        "UnknownKind" => ("install what serves the kind, then let it look again", Next::Reconcile),
        "ObjectTerminating" => ("an object of this name is still going: follow it", Next::Wait),
        r::NAMESPACE_NOT_FOUND => ("create it, or set spec.createNamespace", Next::CreateNamespace),
        r::NAMESPACE_TERMINATING => ("see what keeps the namespace", Next::LookAtNamespace),
        // Health.
        r::HEALTH_PROGRESSING => ("its objects are on their way: follow them", Next::Wait),
        r::OBJECT_MISSING | r::HEALTH_UNKNOWN => ("let it look again at what is deployed", Next::Reconcile),
        r::HEALTH_TIMEOUT | r::HEALTH_FAILED => ("see what keeps this object", Next::DescribeObject),
        r::PROBE_FAILED => ("it runs, but does not answer its probe: see this object", Next::DescribeObject),
        r::PROBE_REFUSED => ("see which address its pod has", Next::DescribeObject),
        // Records.
        r::RECORD_LOST | r::RECORD_UNREADABLE => {
            ("restore the record from a backup, or start over from the spec", Next::Reset)
        }
        r::RECORD_KEY_LOST => (
            "restore the key of the records or the record; or vouch for it as its condition says",
            Next::Describe,
        ),
        r::RECORD_REWOUND => {
            ("restore the newest state of the record; or vouch for it as its condition says", Next::Describe)
        }
        r::RECORD_KEY_RESTORED => ("find out who deletes the Secret that seals revisions", Next::Describe),
        r::RECORD_ACCEPTED => ("see what was taken up", Next::History),
        r::RECORD_TOO_LARGE | "RecordNotSerialisable" | "RecordRejected" => {
            ("make the pack smaller, or store it with another spec.history", Next::Edit)
        }
        r::STATUS_REFUSED => {
            ("what it does goes on; the API server's words stand in an Event", Next::Describe)
        }
        "RecordChanged" | "RecordConflict" | "RecordNotWhole" => {
            ("another writer changes its records; which one", Next::Stale)
        }
        "RecordKeyInvalid" => {
            ("restore the Secret that seals revisions; the operator says which", Next::Describe)
        }
        // Watches.
        r::WATCH_FAILED => ("the operator may not watch a kind: see what it may do", Next::Permissions),
        // Drift.
        r::DRIFT_DETECTED => {
            ("see what differs; spec.drift.mode: Enabled puts it back", Next::Show("{.status.drift}"))
        }
        r::DRIFT_REVERTED | r::CONTENDED => ("see who changes what", Next::Show("{.status.drift}")),
        r::DRIFT_DISABLED => ("to have drift put back", Next::Merge(r#"{"spec":{"drift":{"mode":null}}}"#)),
        r::DRIFT_PAUSED => (
            "to end the pause now",
            Next::Merge(r#"{"metadata":{"annotations":{"sherpack.io/drift-pause-until":null}}}"#),
        ),
        _ => return None,
    })
}

impl Next {
    fn command(&self, about: &About) -> String {
        let About { tool, namespace, name, target_namespace, account, object, dependency } = about;
        let ours = |verb: &str| format!("{tool} {verb} {name} -n {namespace}");
        let release = format!("sherpackrelease/{name} -n {namespace}");
        match self {
            Self::History => ours("history"),
            Self::Hooks => ours("get hooks"),
            Self::Test => ours("test"),
            Self::Wait => ours("wait"),
            Self::Reset => ours("reset"),
            Self::Reconcile => ours("reconcile"),
            Self::Resume => ours("resume"),
            Self::Status => match dependency {
                Some((namespace, name)) => format!("{tool} status {name} -n {namespace}"),
                None => format!("{tool} list -A"),
            },
            Self::List => format!("{tool} list -A"),
            Self::Stale => format!("{tool} list --stale -n {namespace}"),
            Self::Describe => format!("kubectl describe {release}"),
            Self::DescribeObject => match object {
                Some((object, Some(namespace))) => format!("kubectl describe {object} -n {namespace}"),
                Some((object, None)) => format!("kubectl describe {object}"),
                None => format!("kubectl describe {release}"),
            },
            Self::Edit => format!("kubectl edit {release}"),
            Self::Show(path) => format!("kubectl get {release} -o jsonpath='{path}'"),
            Self::Merge(patch) => format!("kubectl patch {release} --type=merge -p '{patch}'"),
            Self::Approve => ours("approve"),
            Self::CreateNamespace => format!("kubectl create namespace {target_namespace}"),
            Self::LookAtNamespace => format!("kubectl describe namespace {target_namespace}"),
            Self::Permissions => {
                let (namespace, account) = match account {
                    Some(account) => (namespace.as_str(), account.as_str()),
                    None => ("sherpack-system", "sherpack-operator"),
                };
                format!(
                    "kubectl auth can-i --list -n {target_namespace} \
                     --as=system:serviceaccount:{namespace}:{account}"
                )
            }
            Self::ServiceAccounts => format!("kubectl get serviceaccounts -n {namespace}"),
        }
    }
}

#[cfg(test)]
#[path = "advice_tests.rs"]
mod tests;
