//! The test kit, tested: each fault and each finding both ways.

mod crash_points;
mod deliveries;
mod dials;
mod rehearsals;
mod requests;
mod run;
mod servers;
