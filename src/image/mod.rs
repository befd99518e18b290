//! Images: pull policies, parallel pulls with a cap, back-off.
