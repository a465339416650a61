//! A plan for people and programs: what happens, in its order.

use std::fmt;

use serde::Serialize;

use super::hooks::{FailurePolicy, Parts};
use super::probes::probe;
use super::steps::{Plan, Step, Wait};
use crate::api::duration;
use crate::manifest::ObjectId;

/// One thing that happens. Serialized with a `do` that names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Line {
    /// A hook runs to its end.
    Hook {
        phase: &'static str,
        object: String,
        weight: i32,
        timeout: String,
        retries: u32,
        on_failure: &'static str,
    },
    /// Definitions of resources are applied.
    Define {
        objects: Vec<String>,
        /// Only their conversion webhooks are told of now.
        conversion: bool,
    },
    /// What they define is waited for until it is served.
    AwaitServed { objects: Vec<String> },
    /// Objects are applied, in this order.
    Apply {
        #[serde(skip_serializing_if = "Option::is_none")]
        layer: Option<u32>,
        wave: i32,
        objects: Vec<String>,
    },
    /// Objects are waited for until they are healthy, and those with a probe until that succeeds.
    Wait {
        wave: i32,
        objects: Vec<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        probes: Vec<ProbeLine>,
    },
    /// Objects are deleted, in this order.
    Delete {
        #[serde(skip_serializing_if = "Option::is_none")]
        layer: Option<u32>,
        wave: i32,
        objects: Vec<String>,
    },
    /// Definitions are deleted with everything that they define.
    Undefine { objects: Vec<String> },
}

/// What a wait asks an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeLine {
    pub object: String,
    pub check: String,
    pub interval: String,
    pub timeout: String,
}

/// The steps of a plan.
#[must_use]
pub fn lines(plan: &Plan, parts: &Parts) -> Vec<Line> {
    let name = |id: &ObjectId| format!("{}/{}", id.kind, id.name);
    let of = |index: &usize| parts.objects.get(*index).map(|object| name(&object.id));
    let probed = |index: &usize| {
        let object = parts.objects.get(*index)?;
        // One that means nothing made no plan.
        let probe = probe(object).ok().flatten()?;
        Some(ProbeLine {
            object: name(&object.id),
            check: probe.to_string(),
            interval: duration::format(probe.interval),
            timeout: duration::format(probe.timeout),
        })
    };
    let layer = |index: &usize| parts.objects.get(*index).map(|object| object.layer);
    // Without packs inside there is one, and it needs no word.
    let several = parts.objects.iter().any(|object| object.layer > 0);
    let line = |step: &Step| match step {
        Step::Hook { phase, hook } => parts.hooks.get(*hook).map(|hook| Line::Hook {
            phase: phase.as_str(),
            object: name(&hook.object.id),
            weight: hook.weight,
            timeout: duration::format(hook.timeout),
            retries: hook.retries,
            on_failure: match hook.on_failure {
                FailurePolicy::Fail => "fail",
                FailurePolicy::Continue => "continue",
                FailurePolicy::Rollback => "rollback",
            },
        }),
        Step::Define { definitions, conversion } => Some(Line::Define {
            objects: definitions.iter().filter_map(of).collect(),
            conversion: *conversion,
        }),
        Step::Undefine { entries } => {
            Some(Line::Undefine { objects: entries.iter().map(|entry| name(&entry.id)).collect() })
        }
        Step::AwaitServed { definitions } => {
            Some(Line::AwaitServed { objects: definitions.iter().filter_map(of).collect() })
        }
        Step::Apply { wave, groups } => Some(Line::Apply {
            layer: groups.iter().flatten().find_map(layer).filter(|_| several),
            wave: *wave,
            objects: groups.iter().flatten().filter_map(of).collect(),
        }),
        Step::Wait { wave, objects, wait: Wait::Named | Wait::Wave | Wait::Last } => Some(Line::Wait {
            wave: *wave,
            objects: objects.iter().filter_map(of).collect(),
            probes: objects.iter().filter_map(probed).collect(),
        }),
        Step::Delete { wave, entries } => Some(Line::Delete {
            layer: entries.iter().map(|entry| entry.layer).max().filter(|_| several),
            wave: *wave,
            objects: entries.iter().map(|entry| name(&entry.id)).collect(),
        }),
    };
    plan.steps.iter().filter_map(line).collect()
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, objects: &[String]| {
            objects.iter().try_for_each(|object| write!(f, "\n- {object}"))
        };
        match self {
            Self::Hook { phase, object, weight, timeout, retries, on_failure } => {
                write!(f, "Hook {phase}: {object} (weight {weight}, timeout {timeout}")?;
                if *retries > 0 {
                    write!(f, ", retries {retries}")?;
                }
                if *on_failure != "fail" {
                    write!(f, ", on failure {on_failure}")?;
                }
                write!(f, ")")
            }
            Self::Define { objects, conversion } => {
                let s = if objects.len() == 1 { "" } else { "s" };
                let what = if *conversion { "conversion webhook" } else { "definition" };
                write!(f, "CRDs: {} {what}{s}", objects.len())?;
                list(f, objects)
            }
            Self::Undefine { objects } => {
                let s = if objects.len() == 1 { "" } else { "s" };
                write!(f, "CRDs: delete {} definition{s}", objects.len())?;
                list(f, objects)
            }
            Self::AwaitServed { objects } => write!(f, "  wait until served: {}", objects.join(", ")),
            Self::Apply { layer, wave, objects } => {
                let s = if objects.len() == 1 { "" } else { "s" };
                write!(f, "{}: {} resource{s}", place(*layer, *wave), objects.len())?;
                list(f, objects)
            }
            Self::Wait { objects, probes, .. } => {
                write!(f, "  wait for {}", objects.join(", "))?;
                probes.iter().try_for_each(|ProbeLine { object, check, interval, timeout }| {
                    write!(f, "\n  probe {object}: {check} (every {interval}, timeout {timeout})")
                })
            }
            Self::Delete { layer, wave, objects } => {
                let s = if objects.len() == 1 { "" } else { "s" };
                write!(f, "{}: delete {} resource{s}", place(*layer, *wave), objects.len())?;
                list(f, objects)
            }
        }
    }
}

fn place(layer: Option<u32>, wave: i32) -> String {
    layer.map_or_else(|| format!("Wave {wave}"), |layer| format!("Layer {layer}, wave {wave}"))
}
