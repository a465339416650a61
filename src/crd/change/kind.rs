//! What kinds of change there are, and how bad each is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How bad a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// Nothing that exists or runs can notice, or it can only gain.
    Safe,
    /// Something may notice; nothing is lost or refused by it alone.
    Warning,
    /// Data can be lost, or requests and objects that were fine are refused.
    Dangerous,
    /// The API server refuses the change, whatever the strategy.
    Blocked,
}

impl Severity {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Safe => "Safe",
            Self::Warning => "Warning",
            Self::Dangerous => "Dangerous",
            Self::Blocked => "Blocked",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` and not `write_str`, so that a width given by the caller works.
        f.pad(self.name())
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident: $($severity:ident)|+, $rule:literal;)+) => {
        /// What changed. The names are shown to users and stay as they are.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Kind { $($(#[doc = $doc])+ $name,)+ }

        impl Kind {
            /// All kinds, in the order of the document.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// As it is written.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// What it means, in a line.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii(),)+ }
            }

            /// The severities that it can have, before any evidence.
            #[must_use]
            pub fn severities(self) -> &'static [Severity] {
                match self { $(Self::$name => &[$(Severity::$severity),+],)+ }
            }

            /// Which severity it has when, and why.
            #[must_use]
            pub fn rule(self) -> &'static str {
                match self { $(Self::$name => $rule,)+ }
            }
        }
    };
}

kinds! {
    /// `spec.group` is another.
    ChangeGroup: Blocked, "The name of a definition contains its group, and names never change.";
    /// `spec.names.plural` is another.
    ChangePlural: Blocked, "As for the group.";
    /// `spec.names.kind` is another.
    ChangeKindName: Blocked | Dangerous, "Fixed once the definition is Established; before that nothing exists that it could break but clients.";
    /// `spec.scope` is another.
    ChangeScope: Blocked | Dangerous, "As for the kind: objects are stored under keys with or without a namespace.";
    /// `spec.names.singular` is another.
    ChangeSingular: Warning, "Commands that use the old name fail.";
    /// `spec.names.listKind` is another.
    ChangeListKind: Warning, "Clients that look at the kind of a list do not know it.";
    /// A short name is new.
    AddShortName: Safe, "A clash with another kind shows as condition NamesAccepted.";
    /// A short name is gone.
    RemoveShortName: Warning, "Commands that use it fail.";
    /// A category is new.
    AddCategory: Safe, "";
    /// A category is gone.
    RemoveCategory: Warning, "`kubectl get CATEGORY` no longer shows the objects.";
    /// The conversion strategy is another.
    ChangeConversion: Warning | Dangerous, "Dangerous from Webhook to None while several versions are in use: nothing translates what is stored any more.";
    /// The conversion webhook is called in another way.
    ChangeConversionWebhook: Warning, "Every read and write of another version depends on it.";
    /// The certificate authority of the conversion webhook is another.
    ChangeCaBundle: Safe, "Certificates are renewed, mostly by an injector.";
    /// `spec.preserveUnknownFields` is turned off.
    EnablePruning: Dangerous, "Whatever the schema does not name is dropped at the next write.";

    /// A version is new.
    AddVersion: Safe, "What it loses against the version in which objects are stored is reported apart, as LossyVersion.";
    /// A version is gone.
    RemoveVersion: Blocked | Dangerous | Warning, "Blocked when objects may be stored in it, Dangerous when it was served, Warning when it was neither.";
    /// A version is served that was not.
    ServeVersion: Safe, "As for AddVersion.";
    /// A version is no longer served.
    UnserveVersion: Dangerous, "Clients that use it fail, as if it were removed.";
    /// Objects are stored in another version.
    ChangeStorageVersion: Warning | Dangerous, "Warning when the new one is served and every object fits, or a webhook converts; Dangerous when something is lost on the way. There is no way back to a definition without the new version.";
    /// A version is marked as deprecated.
    DeprecateVersion: Warning, "Clients get a warning with every request; its removal will follow.";
    /// A version is no longer marked as deprecated.
    UndeprecateVersion: Safe, "";
    /// The text of a deprecation is another.
    ChangeDeprecationWarning: Safe, "";
    /// Two served versions disagree, or one and that in which objects are stored, and nothing converts.
    LossyVersion: Warning | Dangerous, "Only what the definition did not have before between the same two versions. Dangerous when they disagree about a type, a required field, a value of an enum, or a field that one of them prunes: what is written in one is read in the other as it is; and when the newer one refuses what the older one takes. Warning for another default, and for a definition that is new: no object has been written yet.";

    /// A printer column is new.
    AddPrinterColumn: Safe, "";
    /// A printer column is gone.
    RemovePrinterColumn: Warning, "Only what is printed; scripts may read it.";
    /// A printer column shows something else, or in another order.
    ChangePrinterColumn: Warning | Safe, "Warning when path or type change, Safe otherwise.";
    /// A selectable field is new.
    AddSelectableField: Safe, "";
    /// A selectable field is gone.
    RemoveSelectableField: Dangerous, "Requests that select by it are refused.";
    /// A subresource is new.
    AddSubresource: Warning | Safe, "Warning for `status`: ordinary writes no longer change it. Safe for `scale`.";
    /// A subresource is gone.
    RemoveSubresource: Dangerous, "Controllers that write status, or autoscalers, are refused.";
    /// The `scale` subresource reads or writes other fields.
    ChangeSubresource: Dangerous | Safe, "Autoscalers act on another field. Safe when a selector path is new.";

    /// A field is new, and not required.
    AddOptionalField: Safe | Warning, "What is required below it is no matter: it may be left out as a whole. Warning where unknown fields were kept before: objects may have anything there.";
    /// A field is new and required.
    AddRequiredField: Dangerous | Safe, "No existing object has it. Safe with a default.";
    /// A field that existed is now required.
    MakeRequired: Dangerous | Safe, "Objects without it are refused, and not only when that part changes. Safe with a default.";
    /// A field is no longer required.
    MakeOptional: Safe, "";
    /// An optional field is gone.
    RemoveField: Dangerous | Warning | Safe, "Dropped from every object at its next write. Warning where unknown fields are kept. Safe for `apiVersion`, `kind` and `metadata` of a whole object, which are always known.";
    /// A required field is gone.
    RemoveRequiredField: Dangerous | Warning, "As for an optional one, and every object has it.";
    /// A value has another type.
    ChangeFieldType: Dangerous | Warning, "Warning where everything that was valid stays valid: integer to number, integer or string to int-or-string, anything to no type.";
    /// A default is new.
    AddDefault: Warning, "Existing objects change as they are read.";
    /// A default is another.
    ChangeDefault: Warning, "Objects that rely on it change as they are read.";
    /// A default is gone.
    RemoveDefault: Warning | Dangerous, "Dangerous for a required field: objects that never had a value are refused.";
    /// An `enum` has one more value.
    AddEnumValue: Warning, "Clients may not know it.";
    /// An `enum` has one value less.
    RemoveEnumValue: Dangerous, "Objects with it are refused.";
    /// Fewer values are valid: a bound, length, count, pattern, format, enum, allOf, anyOf, oneOf or not.
    TightenValidation: Dangerous, "Objects that were valid may be refused: when they are created again, and, unless the value stays as it is, when they are updated.";
    /// More values are valid.
    RelaxValidation: Safe | Warning, "Warning when a `oneOf` goes: readers may meet none or several of its cases.";
    /// Other values are valid, and neither set is known to contain the other.
    ChangeValidation: Dangerous, "Taken for a tightening.";
    /// Null is valid.
    AllowNull: Safe, "";
    /// Null is no longer valid.
    ForbidNull: Dangerous, "Objects with an explicit null are refused, unless a default takes its place.";
    /// An object may have any further keys.
    AddAdditionalProperties: Safe, "";
    /// An object may have no further keys.
    RemoveAdditionalProperties: Dangerous, "Keys that are not listed are dropped at the next write.";
    /// Unknown fields are kept.
    PreserveUnknownFields: Safe, "";
    /// Unknown fields are no longer kept.
    PruneUnknownFields: Dangerous, "They are dropped at the next write.";
    /// A value is a whole object of Kubernetes.
    AddEmbeddedResource: Dangerous, "It needs apiVersion, kind and valid metadata.";
    /// A value is no longer a whole object of Kubernetes.
    RemoveEmbeddedResource: Dangerous | Warning, "Its apiVersion, kind and metadata are dropped, unless unknown fields are kept.";
    /// A list is merged in another way.
    ChangeListType: Dangerous, "Appliers overwrite, or no longer overwrite, each other's items; duplicates may be refused.";
    /// The items of a list are told apart by other keys.
    ChangeListMapKeys: Dangerous, "As for the type of the list.";
    /// A map is merged in another way.
    ChangeMapType: Dangerous, "As for the type of a list.";
    /// A CEL rule is new.
    AddValidationRule: Dangerous | Warning, "Warning when it compares with the old object: what exists is not judged by it until it changes.";
    /// A CEL rule is gone.
    RemoveValidationRule: Safe, "";
    /// A CEL rule is another.
    ChangeValidationRule: Dangerous, "What it lets through cannot be compared; taken for a tightening.";
    /// A CEL rule explains itself in another way.
    UpdateValidationMessage: Safe, "";
    /// A title, description, example or link is another.
    UpdateDescription: Safe, "";

    /// The new definition is not valid.
    RefusedByServer: Blocked, "A schema that is not structural, no storage version or two, an unknown type, a default that does not fit: whatever the API server refuses and has not accepted before.";
    /// Something else differs.
    Unhandled: Warning, "Never silent: a keyword or field that is not known here.";
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
