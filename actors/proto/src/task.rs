//! Which status may follow which.
