//! The machine underneath: the clock, wake-up margins, processor sleep states.
