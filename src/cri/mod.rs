//! Typed client of the Container Runtime Interface: deadlines, runtime events, wire to types. Never retries, never decides.
