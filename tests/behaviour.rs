//! Behaviour of the operator against a real API server: one module for each promise or capability.
