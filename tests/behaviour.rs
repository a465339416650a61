//! Behaviour of the operator against a real API server: one module for each promise or capability.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

mod behaviour {
    mod account_gone;
    mod adoption;
    mod annotations;
    mod approval;
    mod cli;
    mod corpus;
    mod crash_chunked;
    mod crash_engine;
    mod crash_story;
    mod crd_diff;
    mod crd_rules;
    mod crowd;
    mod definitions;
    mod definitions_ladder;
    mod deletion;
    mod depends_on;
    mod deploy;
    mod diff;
    mod fault_engine;
    mod foreign_heads;
    mod forged_records;
    mod get;
    mod guard;
    mod guard_ignore;
    mod guard_modes;
    mod guard_states;
    mod guard_strict;
    mod guard_tools;
    mod hooks;
    mod hostile_packs;
    mod hostile_records;
    mod http_client;
    mod http_source;
    mod identity;
    mod immutable_fields;
    mod jobs;
    mod known_bad;
    mod lock_fields;
    mod lock_gone;
    mod lock_handover;
    mod lock_ignore;
    mod lock_modes;
    mod lock_pitfalls;
    mod lock_restart;
    mod lock_rivals;
    mod lock_strict;
    mod lost_records;
    mod own_crd;
    mod ownership;
    mod pending_records;
    mod people;
    mod people_asking;
    mod people_waiting;
    mod plan;
    mod port;
    mod probes;
    mod probes_bounds;
    mod process;
    mod proxies;
    mod record_drivers;
    mod record_keys;
    mod record_places;
    mod record_rewound;
    mod record_storage;
    mod record_transfer;
    mod refusals;
    mod requests;
    mod restarts;
    mod retention;
    mod retries;
    mod rollback;
    mod rollout;
    mod schema;
    mod secret_packs;
    mod served_versions;
    mod shards;
    mod subpacks;
    mod successor;
    mod templates;
    mod tenancy;
    /// Leases, and servers that stop for a while: what counts is who acts when. They run after the others, a few at a time.
    mod timed {
        mod fault_server;
        pub(super) mod leader_election;
        mod leader_killed;
        mod leader_woken_late;
    }
    mod unsupported;
    mod values_from;
    mod waits;
    mod watches;
    mod waves;
}
