//! Answers against an oracle that shares no code with what it checks.
#![cfg(test)]

mod background;
mod cases;
mod exact;
mod hostile;
mod oracle;
mod preview;
mod slow;
mod surroundings;
mod transforms;
