//! The inbox: one transaction per event, in the receiver's own database.
