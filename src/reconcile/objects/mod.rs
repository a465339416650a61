//! The objects of an operation: whose they are, how they are applied, what is left to others.

pub(super) mod adoption;
pub(super) mod apply;
pub(super) mod expected;
pub(super) mod field_handover;
pub(super) mod ignore;
pub(super) mod immutable_fields;
pub(super) mod jobs;
pub(super) mod ownership;
