#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

mod class;

pub use class::Class;
