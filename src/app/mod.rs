//! Wiring: builds every part, is the only place that spawns tasks, and orders the shutdown. Decides nothing about pods.
